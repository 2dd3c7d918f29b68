"""What is known of a container: kept beside its files as JSON, so that nothing needs to be guessed when it is opened."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from deep_bench.errors import InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.values import holds_numbers

FOLDER_NAME = "deep_bench.json"
_VERSION = 1
_BLOCK = 1 << 20
_LARGEST = 1 << 30


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldEntry(_Strict):
    """One array of a sample; as `TensorSpec`, its element type by name."""

    name: str
    shape: tuple[NonNegativeInt | str, ...]
    dtype: str


class FileEntry(_Strict):
    """The size of a file, or of a stored array, and its CRC-32 (that of zlib)."""

    bytes: NonNegativeInt
    crc32: NonNegativeInt


class Manifest(_Strict):
    """What a container's files hold.

    Args:
        kind: The kind of container.
        samples: How many.
        fields: The arrays of a sample.
        files: Name of each file, relative to the container's folder, to its size and checksum.
        classes: The names of the classes, in the order of their numbers.
        encodings: Field to how its samples are encoded: ``"png"``, ``"jpeg"``, ``"npy"``, ``"cls"`` …
        index: Of each file, where the fields of its samples begin and how long they are, in bytes: one list, in turns.
    """

    kind: str
    samples: NonNegativeInt
    fields: tuple[FieldEntry, ...]
    files: dict[str, FileEntry] = Field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    encodings: dict[str, str] = Field(default_factory=dict)
    index: dict[str, tuple[NonNegativeInt, ...]] | None = None

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of a sample."""
        return tuple(TensorSpec(f.name, f.shape, np.dtype(f.dtype)) for f in self.fields)


def fields_of(specs: Iterable[TensorSpec]) -> tuple[FieldEntry, ...]:
    """The same, as it is written."""
    return tuple(FieldEntry(name=s.name, shape=s.shape, dtype=s.dtype.name) for s in specs)


def beside(path: Path) -> Path:
    """Where the manifest of a container lies: in its folder, or beside its file.

    Example:
        >>> print(beside(Path("train.tar")))
        train.tar.deep_bench.json
    """
    return path / FOLDER_NAME if path.is_dir() else path.with_name(f"{path.name}.{FOLDER_NAME}")


def dumps(manifest: Manifest) -> str:
    """As JSON, with a checksum of itself."""
    content = _canonical(manifest.model_dump(mode="json", exclude_none=True))
    return f'{{"deep_bench container": {_VERSION}, "crc32": {zlib.crc32(content.encode())},\n"content": {content}}}\n'


def loads(text: bytes, path: Path) -> Manifest:
    """Read what `dumps` wrote.

    Raises:
        InvalidData: Something else, another version, or altered.
    """
    try:
        outer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"{path} is no JSON: {error}", "a container's manifest", _ANEW) from error
    version = outer.get("deep_bench container") if isinstance(outer, dict) else None
    if version != _VERSION or set(outer) != {"deep_bench container", "crc32", "content"}:
        raise InvalidData(f"{path} describes no container of version {_VERSION}", "a container's manifest", _ANEW)
    if zlib.crc32(_canonical(outer["content"]).encode()) != outer["crc32"]:
        raise InvalidData(f"{path} was altered: its checksum is wrong", f"{outer['crc32']}", _ANEW)
    try:
        manifest = Manifest.model_validate_json(json.dumps(outer["content"]))
        numeric = all(holds_numbers(spec.dtype) for spec in manifest.specs)
    except (ValidationError, TypeError) as error:
        raise InvalidData(f"{path} is not right: {error}", "a container's manifest", _ANEW) from error
    if not numeric:
        raise InvalidData(f"{path} names an element type that containers do not hold", "numbers", _ANEW)
    return manifest


_ANEW = "write the container again; or delete this file, if what it describes came from elsewhere"


def read(path: Path) -> Manifest | None:
    """The manifest of a container; None where there is none.

    Raises:
        InvalidData: It is damaged.
    """
    file = beside(path)
    if not file.is_file():
        return None
    if file.stat().st_size > _LARGEST:
        raise InvalidData(f"{file} has {file.stat().st_size} bytes", f"at most {_LARGEST}", _ANEW)
    return loads(file.read_bytes(), file)


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, FileEntry]:
    """The sizes and checksums of files."""
    return {name: FileEntry(bytes=os.path.getsize(folder / name), crc32=checksum(folder / name)) for name in names}


def check_sizes(folder: Path, files: Mapping[str, FileEntry]) -> None:
    """See that all files are there, and as long as they were.

    Raises:
        InvalidData: One is missing, no file, cut off or longer.
    """
    for name, entry in files.items():
        path = folder / name
        if not path.is_file():
            fault = "is no file" if path.exists() else "is missing"
            raise InvalidData(f"{path} {fault}", f"a file of {entry.bytes} bytes", "get the data again")
        if (size := path.stat().st_size) != entry.bytes:
            raise InvalidData(f"{path} has {size} bytes", f"{entry.bytes}", "get the data again")


def check_sums(folder: Path, files: Mapping[str, FileEntry]) -> None:
    """Read all files, and compare their checksums.

    Raises:
        InvalidData: One was altered.
    """
    check_sizes(folder, files)
    for name, entry in files.items():
        if (total := checksum(folder / name)) != entry.crc32:
            raise InvalidData(f"{folder / name} has the CRC-32 {total:08x}", f"{entry.crc32:08x}", "get the data again")


def checksum(path: Path) -> int:
    """The CRC-32 of a file."""
    total = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            total = zlib.crc32(block, total)
    return total


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))
