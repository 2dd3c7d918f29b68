"""Opening a bundle of a stranger: nothing is written outside its folder, nor what its manifest does not name."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from pydantic import ValidationError

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.storage import digest
from deep_bench.repeating.manifest import MANIFEST, Manifest, Packed

LARGEST_BYTES = 16 * 2**30
"""Of all files together."""

_MANIFEST_BYTES = 64 * 2**20
_FILES = 100_000
_WHAT = "a bundle, as `deep-bench bundle` writes it"


def read_manifest(bundle: str | Path) -> Manifest:
    """What a bundle says of itself.

    Args:
        bundle: The archive, or the folder that it was unpacked to.

    Raises:
        InvalidRecord: It is none.
    """
    path = Path(bundle)
    if path.is_dir():
        return _parsed(_small(path / MANIFEST), path)
    with _opened(path) as archive:
        return _manifest(archive, path)


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
    if into.exists() and any(into.iterdir()):
        raise InvalidArgument(f"the folder {into} has files", "an empty one, or a new one")
    with _opened(path) as archive:
        manifest = _manifest(archive, path)
        entries = _checked(archive, manifest, path)
        try:
            into.mkdir(parents=True, exist_ok=True)
            (into / MANIFEST).write_bytes(archive.read(MANIFEST))
            for file in manifest.files:
                _extract(archive, entries[file.path], file, into, path)
        except OSError as error:
            raise InvalidArgument(f"{into} cannot be written: {error.strerror or error}", "a folder with space") from error
        except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
            raise InvalidRecord(f"{path} is damaged: {error}", _WHAT) from error
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


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", _WHAT) from error
    except zipfile.BadZipFile as error:
        raise InvalidRecord(f"{path}: {error}", _WHAT) from error


def _manifest(archive: zipfile.ZipFile, path: Path) -> Manifest:
    try:
        entry = archive.getinfo(MANIFEST)
    except KeyError:
        raise InvalidRecord(f"{path} has no {MANIFEST}", _WHAT) from None
    if entry.file_size > _MANIFEST_BYTES:
        raise InvalidRecord(f"{path}: {MANIFEST} has {entry.file_size} bytes", f"at most {_MANIFEST_BYTES}")
    with archive.open(entry) as opened:
        return _parsed(opened.read(_MANIFEST_BYTES), path)


def _small(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MANIFEST_BYTES + 1)
    except OSError as error:
        raise InvalidRecord(f"cannot read {file}: {error.strerror}", _WHAT) from error
    if len(content) > _MANIFEST_BYTES:
        raise InvalidRecord(f"{file} is too large", f"at most {_MANIFEST_BYTES} bytes")
    return content


def _parsed(content: bytes, path: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidRecord(f"{path}: {MANIFEST}: {where}: {first['msg']}", _WHAT) from error


def _checked(archive: zipfile.ZipFile, manifest: Manifest, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The entries by name, which are those of the manifest and no others."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    expected = {file.path for file in manifest.files} | {MANIFEST}
    if len(names) != len(set(names)) or len(expected) != len(manifest.files) + 1:
        raise InvalidRecord(f"{path} has a file twice", _WHAT)
    if len(names) > _FILES:
        raise InvalidRecord(f"{path} has {len(names)} files", f"at most {_FILES}")
    if further := sorted(set(names) ^ expected):
        raise InvalidRecord(f"{path}: {further[0]!r} is not both in the archive and in its manifest", _WHAT)
    if any(entry.external_attr >> 28 == 0xA for entry in entries):
        raise InvalidRecord(f"{path} holds a link", "files only")
    if (size := sum(entry.file_size for entry in entries)) > LARGEST_BYTES:
        raise InvalidRecord(f"{path} unpacks to {size} bytes", f"at most {LARGEST_BYTES}")
    return dict(zip(names, entries, strict=True))


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, file: Packed, into: Path, path: Path) -> None:
    """One file; no more of it is written than the manifest allows."""
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
