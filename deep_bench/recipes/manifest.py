"""What a bundle has in it: its manifest with the digests of its files, what goes into it, and opening one of a stranger.

Nothing is written outside a bundle's folder, nor what its manifest does not name. Its environment is a lock of exact
versions, and deep_bench itself as a wheel; a clean one is built from that for a repetition.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import metadata
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, TypeAlias

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import AfterValidator, Field, ValidationError

import deep_bench
from deep_bench.environments.building import build
from deep_bench.environments.declaration import Declaration
from deep_bench.errors import InvalidArgument, InvalidRecord, Unsupported
from deep_bench.records.fields import RecordModel
from deep_bench.records.model import Sha256
from deep_bench.records.store import digest

MANIFEST = "bundle.json"
"""Name of the manifest in the archive."""


Role: TypeAlias = Literal["record", "samples", "input", "code", "package", "lock", "licence", "readme"]


def _check_inside(path: str) -> str:
    """A path below the bundle's folder, the same on every system."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or ":" in parts[0] or "\0" in path:
        raise ValueError(f"{path!r} does not lie below the bundle's folder")
    return path


InsidePath = Annotated[str, Field(max_length=1024), AfterValidator(_check_inside)]


class PackedFile(RecordModel):
    """A file of the archive.

    Attributes:
        path: Where it is in there.
        role: What it is for.
        bytes: Its size.
        sha256: Its digest.
        source: Where it came from, as the command named it.
    """

    path: InsidePath
    role: Role
    bytes: int = Field(ge=0)
    sha256: Sha256
    source: str = ""


class Omission(RecordModel):
    """Something that is needed and is not in the archive.

    Attributes:
        what: What it is, as the command or the record names it.
        why: Why it is left out.
        source: Where it can be had; empty where that was not told.
        sha256: Its digest, by its name; empty where it is not known.
        files: What has to be put into the unpacked bundle before it can be repeated: path there to digest.
    """

    what: str
    why: str
    source: str = ""
    sha256: dict[str, Sha256] = Field(default_factory=dict)
    files: dict[InsidePath, Sha256] = Field(default_factory=dict)


def omission_line(omission: Omission) -> str:
    """What is left out, why, and where it can be had, in one line."""
    return f"{omission.what}: {omission.why}; {omission.source or 'where it can be had was not told'}"


class BundleLock(RecordModel):
    """The environment, in exact versions.

    Attributes:
        python: Its version, such as ``"3.11.7"``.
        platform: Such as ``"linux-x86_64"``.
        file: The requirements, in pip's form.
        drifted: What is another version now than the record has: the lock is of the environment that made the bundle.
    """

    python: str
    platform: str
    file: InsidePath
    drifted: dict[str, tuple[str, str]] = Field(default_factory=dict)


class Manifest(RecordModel):
    """A bundle.

    Attributes:
        created: When the last of its runs began.
        deep_bench: The version that made it.
        title: What it is, in words.
        command: What is run to repeat it, with paths in the archive; empty where the record tells none.
        variables: Environment variables that it is run with.
        records: Paths of the records.
        files: All files but the manifest.
        left: What it does not hold.
        licence: Under which the author shares it; empty for none given.
        lock: The environment.
        remarks: What a reader should know.
    """

    schema_version: Literal[1] = 1
    kind: Literal["bundle"] = "bundle"
    created: datetime
    deep_bench: str
    title: str
    command: list[str] = Field(default_factory=list)
    variables: dict[str, str] = Field(default_factory=dict)
    records: list[InsidePath] = Field(min_length=1)
    files: list[PackedFile]
    left: list[Omission] = Field(default_factory=list)
    licence: str = ""
    lock: BundleLock
    remarks: list[str] = Field(default_factory=list)

    def of(self, role: Role) -> list[PackedFile]:
        """The files with a role."""
        return [file for file in self.files if file.role == role]


FILE_BYTES = 512 * 2**20
"""A larger input stays outside, with its digest."""


_LISTED = 10_000
"""So many files of a folder are looked at."""


_CODE = frozenset({".py", ".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".sh"})


@dataclass
class Contents:
    """Collects files under paths that no two of them share.

    Attributes:
        files: Path in the archive to where the file is.
        packed: What the manifest says of them.
        left: What stays outside.
    """

    files: dict[str, Path] = field(default_factory=dict)
    packed: list[PackedFile] = field(default_factory=list)
    left: list[Omission] = field(default_factory=list)

    def add(self, file: Path, path: str, role: Role, source: str = "") -> str:
        """Take a file in.

        Returns:
            Its path in the archive: another one if the same name is taken by other content.
        """
        checksum = digest(file)
        path = self._free(path, checksum)
        if path not in self.files:
            self.files[path] = file
            self.packed.append(PackedFile(path=path, role=role, bytes=file.stat().st_size, sha256=checksum, source=source))
        return path

    def take(self, named: Path, word: str, place: str = "", *, source: str = "", limit: int = FILE_BYTES) -> str:
        """Take in what a command reads: a file, or a folder with all that is in it.

        Args:
            named: The file or folder.
            word: As the command names it.
            place: Where it goes; by default below ``inputs``.
            source: Where it can be had, if it is too large.
            limit: The most bytes of all its files.

        Returns:
            Its path in the archive, or where it has to be put if it is left outside.

        Raises:
            InvalidArgument: Another file lies where one of the folder has to.
        """
        place = place or f"inputs/{named.resolve().name}"
        files = {f"{place}/{inside}" if inside else place: file for inside, file in _within(named)}
        if not self._fits(files, word, source, limit):
            return place
        if named.is_file():
            return self.add(named, place, _role(named), word)
        self._add_all(files, word)
        return place

    def take_together(self, files: Mapping[str, Path], word: str, *, source: str = "") -> None:
        """Take in files that have to lie as they do: a network, and those that hold its tensors.

        Args:
            files: Path in the archive to where the file is.
            word: As the command names them.
            source: Where they can be had, if they are too large.

        Raises:
            InvalidArgument: Another file lies at one of the paths.
        """
        if self._fits(files, word, source, FILE_BYTES):
            self._add_all(files, word)

    def _add_all(self, files: Mapping[str, Path], word: str) -> None:
        for path, file in files.items():
            if self.add(file, path, _role(file), word) != path:
                raise InvalidArgument(
                    f"{word}: another file lies at {path} in the bundle", "names that differ", "rename one, and run it again"
                )

    def _fits(self, files: Mapping[str, Path], word: str, source: str, limit: int) -> bool:
        """Whether files are few and small enough; if not, they are noted as left outside."""
        size = sum(file.stat().st_size for file in files.values())
        if len(files) <= _LISTED and size <= limit:
            return True
        reason = f"more than {_LISTED} files" if len(files) > _LISTED else f"{size} bytes, of which {limit} are taken in"
        listed = {path: digest(file) for path, file in list(files.items())[:_LISTED]}
        self.left.append(Omission(what=word, why=reason, source=source, files=listed))
        return False

    def _free(self, path: str, checksum: str) -> str:
        checksums = {file.path: file.sha256 for file in self.packed}
        number, free = 1, path
        while checksums.get(free, checksum) != checksum:
            number += 1
            free = str(PurePosixPath(path).with_name(f"{PurePosixPath(path).stem}_{number}{PurePosixPath(path).suffix}"))
        return free


def _role(file: Path) -> Role:
    return "code" if file.suffix in _CODE else "input"


def _within(named: Path) -> Iterator[tuple[str, Path]]:
    """Path below the folder, and file; links are not followed out of it, and what begins with a dot is left."""
    if named.is_file():
        yield "", named
        return
    root = named.resolve()
    for file in sorted(named.rglob("*")):
        inside = file.relative_to(named)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in inside.parts)
        if file.is_file() and not hidden and file.resolve().is_relative_to(root):
            yield inside.as_posix(), file


def beside(file: Path, suffixes: Iterable[str] = (".h5",)) -> Iterator[Path]:
    """The files that belong to a record: named as it is, or with more words after that."""
    for sibling in sorted(file.parent.iterdir()):
        ours = sibling.stem == file.stem or sibling.stem.startswith(f"{file.stem}_")
        if ours and sibling.suffix in suffixes and sibling.is_file():
            yield sibling


LARGEST_BYTES = 16 * 2**30
"""Of all files together."""


_MANIFEST_BYTES = 64 * 2**20
_FILES = 100_000
_EXPECTED_BUNDLE = "a bundle, as `deep-bench bundle` writes it"


def read_manifest(bundle: str | Path) -> Manifest:
    """What a bundle says of itself.

    Args:
        bundle: The archive, or the folder that it was unpacked to.

    Raises:
        InvalidRecord: It is none.
    """
    path = Path(bundle)
    if path.is_dir():
        file = path / MANIFEST
        try:
            with file.open("rb") as opened:
                content = opened.read(_MANIFEST_BYTES + 1)
        except OSError as error:
            raise InvalidRecord(f"cannot read {file}: {error.strerror}", _EXPECTED_BUNDLE) from error
        if len(content) > _MANIFEST_BYTES:
            raise InvalidRecord(f"{file} is too large", f"at most {_MANIFEST_BYTES} bytes")
        return _parse_manifest(content, path)
    with _open_archive(path) as archive:
        return _manifest(archive, path)


def check_empty(folder: Path) -> None:
    """See that a folder is a new one, or has no files."""
    if folder.exists() and any(folder.iterdir()):
        raise InvalidArgument(f"the folder {folder} has files", "an empty one, or a new one")


def unpack(bundle: str | Path, folder: str | Path) -> Manifest:
    """Write the files of a bundle into a folder, each compared with its digest.

    Args:
        bundle: The archive.
        folder: A new one, or an empty one.

    Raises:
        InvalidRecord: It is no bundle, was altered, is too large, or holds what its manifest does not name.
        InvalidArgument: The folder has files, or cannot be written.
    """
    path, into = Path(bundle), Path(folder)
    check_empty(into)
    with _open_archive(path) as archive:
        manifest = _manifest(archive, path)
        entries = _check_entries(archive, manifest, path)
        try:
            into.mkdir(parents=True, exist_ok=True)
            (into / MANIFEST).write_bytes(archive.read(MANIFEST))
            for file in manifest.files:
                # one file; no more of it is written than the manifest allows
                entry = entries[file.path]
                target = into / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                hasher, size = hashlib.sha256(), 0
                with archive.open(entry) as source, target.open("xb") as opened:
                    while block := source.read(2**20):
                        size += len(block)
                        if size > file.bytes:
                            break
                        hasher.update(block)
                        opened.write(block)
                if size != file.bytes or hasher.hexdigest() != file.sha256:
                    target.unlink()
                    raise InvalidRecord(f"{path}: {file.path} was altered", f"{file.bytes} bytes with SHA-256 {file.sha256}")
        except OSError as error:
            raise InvalidArgument(f"{into} cannot be written: {error.strerror or error}", "a folder with space") from error
        except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
            raise InvalidRecord(f"{path} is damaged: {error}", _EXPECTED_BUNDLE) from error
    return manifest


def check_folder(folder: str | Path) -> Manifest:
    """The manifest of a bundle that is unpacked already, whose files are as it says.

    Raises:
        InvalidRecord: A file is missing or was altered.
    """
    manifest = read_manifest(folder)
    for file in manifest.files:
        path = Path(folder) / file.path
        if path.is_symlink() or not path.is_file():
            raise InvalidRecord(f"{folder} lacks {file.path}", "a bundle as it was unpacked")
        if digest(path) != file.sha256:
            raise InvalidRecord(f"{path} was altered", f"SHA-256 {file.sha256}", "unpack the bundle again")
    return manifest


def _open_archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", _EXPECTED_BUNDLE) from error
    except zipfile.BadZipFile as error:
        raise InvalidRecord(f"{path}: {error}", _EXPECTED_BUNDLE) from error


def _manifest(archive: zipfile.ZipFile, path: Path) -> Manifest:
    try:
        entry = archive.getinfo(MANIFEST)
    except KeyError:
        raise InvalidRecord(f"{path} has no {MANIFEST}", _EXPECTED_BUNDLE) from None
    if entry.file_size > _MANIFEST_BYTES:
        raise InvalidRecord(f"{path}: {MANIFEST} has {entry.file_size} bytes", f"at most {_MANIFEST_BYTES}")
    with archive.open(entry) as opened:
        return _parse_manifest(opened.read(_MANIFEST_BYTES), path)


def _parse_manifest(content: bytes, path: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidRecord(f"{path}: {MANIFEST}: {where}: {first['msg']}", _EXPECTED_BUNDLE) from error


def _check_entries(archive: zipfile.ZipFile, manifest: Manifest, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The entries by name, which are those of the manifest and no others."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    expected = {file.path for file in manifest.files} | {MANIFEST}
    if len(names) != len(set(names)) or len(expected) != len(manifest.files) + 1:
        raise InvalidRecord(f"{path} has a file twice", _EXPECTED_BUNDLE)
    if len(names) > _FILES:
        raise InvalidRecord(f"{path} has {len(names)} files", f"at most {_FILES}")
    if further := sorted(set(names) ^ expected):
        raise InvalidRecord(f"{path}: {further[0]!r} is not both in the archive and in its manifest", _EXPECTED_BUNDLE)
    if any(entry.external_attr >> 28 == 0xA for entry in entries):
        raise InvalidRecord(f"{path} holds a link", "files only")
    if (size := sum(entry.file_size for entry in entries)) > LARGEST_BYTES:
        raise InvalidRecord(f"{path} unpacks to {size} bytes", f"at most {LARGEST_BYTES}")
    return dict(zip(names, entries, strict=True))


DISTRIBUTION = "deep-bench"

SAME_TIME = (1980, 1, 1, 0, 0, 0)
"""Of all files in an archive, so that equal contents make equal archives."""


def requirements(extras: Collection[str] | None = None) -> list[str]:
    """Installed distributions but deep_bench itself, as pip takes them, in the order of their names.

    Args:
        extras: Only what deep_bench needs with these of its extras, and what that needs; all that is installed by default.

    Example:
        >>> few, all_of_them = requirements(["onnxruntime"]), requirements()
        >>> set(few) < set(all_of_them), any(line.startswith("numpy==") for line in few)
        (True, True)
    """
    installed: dict[str, metadata.Distribution] = {
        canonicalize_name(distribution.name): distribution for distribution in metadata.distributions() if distribution.name
    }
    names = installed if extras is None else _needed_packages(installed, frozenset(extras))
    return [f"{name}=={installed[name].version}" for name in sorted(names) if name != DISTRIBUTION]


def _needed_packages(installed: Mapping[str, metadata.Distribution], extras: frozenset[str]) -> set[str]:
    """The names of what deep_bench needs, directly or not, as far as it is installed."""
    visited: set[tuple[str, frozenset[str]]] = set()
    open_ones = [(DISTRIBUTION, extras)]
    while open_ones:
        name, chosen = open_ones.pop()
        if name not in installed or (name, chosen) in visited:
            continue
        visited.add((name, chosen))
        for line in installed[name].requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *chosen)):
                open_ones.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in visited}


def version_drift(then: Mapping[str, str], locked: list[str]) -> dict[str, tuple[str, str]]:
    """What a record has in another version than a lock.

    Args:
        then: The record's packages.
        locked: The lock's lines.

    Returns:
        Name to both versions, of what is in both.

    Example:
        >>> version_drift({"numpy": "2.4.6", "onnx": "1.23.2"}, ["numpy==2.4.6", "onnx==1.24.0"])
        {'onnx': ('1.23.2', '1.24.0')}
    """
    locked_versions = dict(line.split("==", 1) for line in locked)
    return {
        name: (version, locked_versions[canonicalize_name(name)])
        for name, version in then.items()
        if canonicalize_name(name) in locked_versions
        and locked_versions[canonicalize_name(name)].split("+")[0] != version.split("+")[0]
    }


def wheel_name() -> str:
    """The file's name of this deep_bench as a wheel."""
    return f"deep_bench-{deep_bench.__version__}-py3-none-any.whl"


def write_wheel(target: Path) -> None:
    """Write this very deep_bench as a wheel: what is imported here, whether it was installed or lies in a checkout.

    Args:
        target: The file, with the name of `wheel_name`.

    Raises:
        Unsupported: It is not installed, so that its requirements are not known.

    Source:
        PyPA specifications, *Binary distribution format*.
    """
    # A checkout on the path also holds what setuptools left there, which is none of it.
    installed = next(
        (distribution for distribution in metadata.distributions(name=DISTRIBUTION) if distribution.read_text("METADATA")),
        None,
    )
    if installed is None:
        raise Unsupported("deep_bench is imported from a folder and not installed", "an installed one: pip install -e .")
    about = f"deep_bench-{deep_bench.__version__}.dist-info"
    content = dict(_package_files())
    content[f"{about}/METADATA"] = (installed.read_text("METADATA") or "").encode()
    content[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: deep-bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content[f"{about}/entry_points.txt"] = (installed.read_text("entry_points.txt") or "").encode()
    record = f"{about}/RECORD"
    rows = []
    for path, data in content.items():
        checksum = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={checksum},{len(data)}")
    content[record] = ("\n".join([*rows, f"{record},,"]) + "\n").encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, SAME_TIME), data, zipfile.ZIP_DEFLATED)


def _package_files() -> Iterator[tuple[str, bytes]]:
    """Path and content of each file of the package; in a checkout ``reference`` is a link to the folder beside."""
    root = Path(deep_bench.__file__).parent
    for folder in (root, root / "reference"):
        for file in sorted(folder.rglob("*")):
            inside = file.relative_to(root)
            if file.is_file() and "__pycache__" not in inside.parts and file.suffix not in (".pyc", ".so"):
                if folder == root and inside.parts[0] == "reference":
                    continue
                yield f"deep_bench/{inside.as_posix()}", file.read_bytes()


def lock_environment(contents: Contents, packages: Mapping[str, str], scratch: Path, extras: list[str] | None) -> BundleLock:
    """Take in the exact versions of this environment and deep_bench itself.

    Args:
        contents: Where they go.
        packages: Those of the run.
        scratch: A folder to write them in.
        extras: As in `requirements`.
    """
    lines = requirements(extras)
    file, wheel = scratch / "requirements.txt", scratch / wheel_name()
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_wheel(wheel)
    contents.add(wheel, f"package/{wheel.name}", "package")
    return BundleLock(
        python=platform.python_version(),
        platform=sysconfig.get_platform(),
        file=contents.add(file, "lock/requirements.txt", "lock"),
        drifted=version_drift(packages, lines),
    )


_PIN = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+")
_VARIABLES = re.compile(
    r"(OMP|MKL|OPENBLAS|BLIS|NUMEXPR)_(NUM_THREADS|PROC_BIND|PLACES|DYNAMIC|SCHEDULE|WAIT_POLICY)|KMP_(AFFINITY|BLOCKTIME)|"
    r"KMP_(DUPLICATE_LIB_OK|INIT_AT_FORK)|MKL_(CBWR|ENABLE_INSTRUCTIONS)|(ONEDNN|DNNL)_MAX_CPU_ISA|TF_NUM_INT(RA|ER)OP_THREADS|"
    r"TF_(ENABLE_ONEDNN_OPTS|DETERMINISTIC_OPS|CPP_MIN_LOG_LEVEL)|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|"
    r"CUBLAS_WORKSPACE_CONFIG|NCCL_(ALGO|PROTO)|PYTHONHASHSEED|MALLOC_(ARENA_MAX|TRIM_THRESHOLD_|MMAP_THRESHOLD_)"
)
"""What a bundle may set: threads, precision, determinism. Nothing that names a file, which could be loaded or written."""


_MOST_BYTES = 4 * 2**20


def clean_interpreter(manifest: Manifest, folder: Path, tell: Callable[[str], object] = lambda _: None) -> Path:
    """The interpreter of a new environment with the exact versions of the lock, built once and kept for the next time.

    Args:
        manifest: The bundle's manifest.
        folder: Where it was unpacked.
        tell: Told each step, and what pip says.

    Raises:
        Unsupported: The lock is of another kind of system.
        InvalidRecord: The lock has a line that is no exact version.
        InvalidArgument: There is no such Python here.
        WorkerError: A package cannot be installed.
    """
    if manifest.lock.platform != sysconfig.get_platform():  # wheels for one do not run on another
        came = f"a lock of {manifest.lock.platform} on {sysconfig.get_platform()}"
        raise Unsupported(came, "the same kind of system", "repeat it in the environment that is here: --here")
    lines = lock_lines(folder / manifest.lock.file)
    (package,) = manifest.of("package")
    wheel = (folder / package.path).resolve()
    minor = ".".join(manifest.lock.python.split(".")[:2])  # later patches repair, and change no results that count
    declaration = Declaration(
        requirements=(*lines, f"deep-bench @ {wheel.as_uri()}"),
        python=None if minor == f"{sys.version_info.major}.{sys.version_info.minor}" else minor,
        deep_bench=False,
    )
    return build(
        f"repeat-{hashlib.sha256(declaration.sha256.encode()).hexdigest()[:12]}", declaration, tell=tell
    ).interpreter


def lock_lines(file: Path) -> list[str]:
    """The lines of a lock: exact versions and nothing else, no address and no option of pip.

    Raises:
        InvalidRecord: There is another line.
    """
    if file.stat().st_size > _MOST_BYTES:
        raise InvalidRecord(f"the lock has {file.stat().st_size} bytes", f"at most {_MOST_BYTES}")
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    for line in lines:
        if not _PIN.fullmatch(line):
            raise InvalidRecord(f"the lock has the line {line[:80]!r}", "name==version")
    return lines


def is_ours(manifest: Manifest) -> bool:
    """Whether a bundle's deep_bench is this very one."""
    with TemporaryDirectory() as scratch:
        wheel = Path(scratch) / wheel_name()
        write_wheel(wheel)
        return [file.sha256 for file in manifest.of("package")] == [digest(wheel)]


def bundle_variables(manifest: Manifest, *, here: bool) -> dict[str, str]:
    """The environment variables of a repeated run: this machine's, and those of the bundle that it may set.

    Args:
        manifest: The bundle's manifest.
        here: Whether it runs in this environment; a clean one is not given what changes another Python than its own.
    """
    names = set(os.environ) if here else set(os.environ) - set(dropped_variables())
    return {name: os.environ[name] for name in names} | may_set(manifest)


def dropped_variables() -> list[str]:
    """This machine's variables that a clean environment is not given: they change what Python imports, and how it runs."""
    return sorted(name for name in os.environ if name.startswith("PYTHON") or name == "VIRTUAL_ENV")


def may_set(manifest: Manifest) -> dict[str, str]:
    """The variables that the run had, and that a repetition is given."""
    return {name: value for name, value in manifest.variables.items() if _VARIABLES.fullmatch(name)}


def variables_not_set(manifest: Manifest) -> list[str]:
    """The variables that the run had, and that a repetition is not given."""
    return sorted(set(manifest.variables) - set(may_set(manifest)))
