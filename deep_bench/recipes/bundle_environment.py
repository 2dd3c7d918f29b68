"""The environment of a bundle: exact versions, and deep_bench itself as a wheel; built clean from that "
"lock for a repetition."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import deep_bench
from deep_bench.environments.building import build
from deep_bench.environments.declaration import Declaration
from deep_bench.errors import InvalidRecord, Unsupported
from deep_bench.recipes.manifest import Manifest
from deep_bench.records.store import digest

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


def python_version() -> str:
    """This interpreter's version."""
    return platform.python_version()


def this_platform() -> str:
    """Such as ``"linux-x86_64"``: wheels for one do not run on another."""
    return sysconfig.get_platform()


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
    rows = [f"{path},sha256={_wheel_digest(data)},{len(data)}" for path, data in content.items()]
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


def _wheel_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


_PIN = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+")
_VARIABLES = re.compile(
    r"(OMP|MKL|OPENBLAS|BLIS|NUMEXPR)_(NUM_THREADS|PROC_BIND|PLACES|DYNAMIC|SCHEDULE|WAIT_POLICY)|KMP_(AFFINITY|BLOCKTIME)|"
    r"KMP_(DUPLICATE_LIB_OK|INIT_AT_FORK)|MKL_(CBWR|ENABLE_INSTRUCTIONS)|(ONEDNN|DNNL)_MAX_CPU_ISA|TF_NUM_INT(RA|ER)OP_THREADS|"
    r"TF_(ENABLE_ONEDNN_OPTS|DETERMINISTIC_OPS|CPP_MIN_LOG_LEVEL)|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|"
    r"CUBLAS_WORKSPACE_CONFIG|NCCL_(ALGO|PROTO)|PYTHONHASHSEED|MALLOC_(ARENA_MAX|TRIM_THRESHOLD_|MMAP_THRESHOLD_)"
)
"""What a bundle may set: threads, precision, determinism. Nothing that names a file, which could be loaded or written."""


_MOST_BYTES = 4 * 2**20


def clean_interpreter(made: Manifest, folder: Path, tell: Callable[[str], object] = lambda _: None) -> Path:
    """The interpreter of a new environment with the exact versions of the lock, built once and kept for the next time.

    Args:
        made: The bundle's manifest.
        folder: Where it was unpacked.
        tell: Told each step, and what pip says.

    Raises:
        Unsupported: The lock is of another kind of system.
        InvalidRecord: The lock has a line that is no exact version.
        InvalidArgument: There is no such Python here.
        WorkerError: A package cannot be installed.
    """
    if made.lock.platform != this_platform():
        came = f"a lock of {made.lock.platform} on {this_platform()}"
        raise Unsupported(came, "the same kind of system", "repeat it in the environment that is here: --here")
    lines = lock_lines(folder / made.lock.file)
    (package,) = made.of("package")
    wheel = (folder / package.path).resolve()
    declaration = Declaration(
        requirements=(*lines, f"deep-bench @ {wheel.as_uri()}"),
        python=_interpreter_of(made.lock.python),
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


def is_ours(made: Manifest) -> bool:
    """Whether a bundle's deep_bench is this very one."""
    with TemporaryDirectory() as scratch:
        wheel = Path(scratch) / wheel_name()
        write_wheel(wheel)
        return [file.sha256 for file in made.of("package")] == [digest(wheel)]


def bundle_variables(made: Manifest, *, here: bool) -> dict[str, str]:
    """The environment variables of a repeated run: this machine's, and those of the bundle that it may set.

    Args:
        made: The bundle's manifest.
        here: Whether it runs in this environment; a clean one is not given what changes another Python than its own.
    """
    names = set(os.environ) if here else set(os.environ) - set(dropped_variables())
    return {name: os.environ[name] for name in names} | may_set(made)


def dropped_variables() -> list[str]:
    """This machine's variables that a clean environment is not given: they change what Python imports, and how it runs."""
    return sorted(name for name in os.environ if name.startswith("PYTHON") or name == "VIRTUAL_ENV")


def may_set(made: Manifest) -> dict[str, str]:
    """The variables that the run had, and that a repetition is given."""
    return {name: value for name, value in made.variables.items() if _VARIABLES.fullmatch(name)}


def variables_not_set(made: Manifest) -> list[str]:
    """The variables that the run had, and that a repetition is not given."""
    return sorted(set(made.variables) - set(may_set(made)))


def _interpreter_of(version: str) -> str | None:
    """By its minor version: later patches repair, and do not change results that deep_bench takes."""
    minor_version = ".".join(version.split(".")[:2])
    return None if minor_version == f"{sys.version_info.major}.{sys.version_info.minor}" else minor_version
