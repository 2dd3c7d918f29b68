"""What every container offers, whatever its format, and the manifest that is kept beside its files as JSON."""

from __future__ import annotations

import copyreg
import json
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from deep_bench.errors import DeepBenchError, InvalidData, Unsupported
from deep_bench.tensor import TensorSpec, is_float, is_integer

if TYPE_CHECKING:
    from deep_bench.training.dataset import Description as SetDescription

T = TypeVar("T")

LABEL = "label"
Value = np.ndarray | bytes
"""A field of a sample: its array, or an image's file as it is stored."""


def holds_numbers(dtype: np.dtype) -> bool:
    """Whether containers can hold such elements: numbers of one size on every machine, those of ``ml_dtypes`` included.

    Example:
        >>> holds_numbers(np.dtype("float16")), holds_numbers(np.dtype(object)), holds_numbers(np.dtype("longdouble"))
        (True, False, False)
    """
    if dtype.kind == "b" or is_integer(dtype):
        return True
    return dtype.itemsize <= 8 if is_float(dtype) else dtype.name in ("complex64", "complex128")


def plain(dtype: np.dtype) -> np.dtype:
    """The element type that stands for ``dtype`` in files: little-endian; unsigned integers for those of ``ml_dtypes``.

    Example:
        >>> import ml_dtypes
        >>> print(plain(np.dtype(ml_dtypes.bfloat16)), plain(np.dtype("float32")))
        uint16 float32
    """
    return np.dtype(f"<u{dtype.itemsize}") if dtype.kind == "V" else dtype.newbyteorder("<")


def fits(spec: TensorSpec, array: np.ndarray) -> bool:
    """Whether an array is one that a spec describes."""
    if array.dtype != spec.dtype:
        return False
    if array.shape == spec.shape:  # nearly always, and many times as fast
        return True
    return array.ndim == spec.rank and all(
        isinstance(d, str) or d == n for d, n in zip(spec.shape, array.shape, strict=True)
    )


def stack(values: Sequence[Value], spec: TensorSpec) -> np.ndarray:
    """One field of several samples as a batch: an array of objects, if they differ in size or are images' files."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if not values:
        return np.empty((0, *(0 if isinstance(d, str) else d for d in spec.shape)), spec.dtype)
    if len(arrays) == len(values) and (not spec.open_dimensions or len({array.shape for array in arrays}) == 1):
        return np.stack(arrays)
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects


def refuse(kind: str, spec: TensorSpec, what: str, advice: str = "") -> Unsupported:
    """The error that says what a format cannot hold."""
    return Unsupported(
        f"{spec} cannot be kept in {kind}", what, advice or "choose another kind of container, or change the data"
    )


def parsed(place: object, parse: Callable[[], T], expected: str = "") -> T:
    """What ``parse`` makes of a file's content.

    Args:
        place: The file, and where in it.
        parse: What reads it.
        expected: What it should be.

    Raises:
        InvalidData: It failed; see `damaged`.
    """
    try:
        return parse()
    except DeepBenchError:
        raise
    except Exception as error:
        raise damaged(place, error, expected) from error


def damaged(place: object, error: Exception, expected: str = "") -> InvalidData:
    """The error that names what could not be read.

    A parser that is given damaged bytes may raise anything, whatever its documentation says: all of it means the same here.
    """
    if isinstance(error, FileNotFoundError):
        return InvalidData(f"{place}: there is no such file", expected, "check the path, or get the data again")
    if isinstance(error, OSError) and error.strerror:
        return InvalidData(f"{place} cannot be read: {error.strerror}", expected)
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InvalidData(f"{place} is damaged: {cause}", expected, "get the data again")


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


class ContainerManifest(_Strict):
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


def dumps(manifest: ContainerManifest) -> str:
    """As JSON, with a checksum of itself."""
    content = _canonical(manifest.model_dump(mode="json", exclude_none=True))
    return f'{{"deep_bench container": {_VERSION}, "crc32": {zlib.crc32(content.encode())},\n"content": {content}}}\n'


def loads(text: bytes, path: Path) -> ContainerManifest:
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
        manifest = ContainerManifest.model_validate_json(json.dumps(outer["content"]))
        numeric = all(holds_numbers(spec.dtype) for spec in manifest.specs)
    except (ValidationError, TypeError) as error:
        raise InvalidData(f"{path} is not right: {error}", "a container's manifest", _ANEW) from error
    if not numeric:
        raise InvalidData(f"{path} names an element type that containers do not hold", "numbers", _ANEW)
    return manifest


_ANEW = "write the container again; or delete this file, if what it describes came from elsewhere"


def read(path: Path) -> ContainerManifest | None:
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


@dataclass(frozen=True)
class Origin:
    """Where a container's samples come from.

    Args:
        kind: The kind of container.
        path: Its file or folder; None for arrays in memory.
        files: The files with its samples.
        manifest: What its writer noted; None for a container that came from elsewhere.
        options: What it was opened with.
        classes: The names of the classes, in the order of their numbers.
    """

    kind: str
    path: Path | None = None
    files: tuple[Path, ...] = ()
    manifest: ContainerManifest | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None

    @property
    def folder(self) -> Path:
        """The folder that its files' names are relative to."""
        assert self.path is not None
        return self.path if self.path.is_dir() else self.path.parent


class Container(ABC):
    """A data set in files, or in memory. Close it, or use it as a context manager.

    It can be pickled while its files stay where they are: then it is opened anew, so worker processes have their own.

    Attributes:
        origin: Where its samples come from.
        specs: The arrays of a sample, without the axis of the batch; sizes that differ between samples have a name.
    """

    origin: Origin
    specs: tuple[TensorSpec, ...]

    @property
    def kind(self) -> str:
        """The kind of container."""
        return self.origin.kind

    @property
    def path(self) -> Path | None:
        """Its file or folder; None for arrays in memory."""
        return self.origin.path

    @property
    def nbytes(self) -> int:
        """How much it takes on the disk, its manifest apart."""
        return sum(os.path.getsize(file) for file in self.origin.files)

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abstractmethod
    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, np.ndarray]:
        """The samples of these numbers, in any order, as often as they come; see `deep_bench.training.dataset.Dataset`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of its files; nothing can be read afterwards."""

    @abstractmethod
    def column(self, name: str) -> np.ndarray:
        """One small field of all samples."""

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample.

        Raises:
            AttributeError: There is no field ``label`` of whole numbers.
        """
        spec = next((spec for spec in self.specs if spec.name == LABEL), None)
        if spec is None or spec.rank or not is_integer(spec.dtype):
            raise AttributeError(f"{self.origin.path or 'this set'} has no labels")
        return self.column(LABEL).astype(np.int64)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, in the order of their numbers; None where they have none."""
        noted = self.origin.manifest
        return self.origin.classes if self.origin.classes is not None or noted is None else noted.classes

    @property
    def description(self) -> SetDescription:
        """What a record says of it; where its data come from is not stated in its files."""
        from deep_bench.training.dataset import Description

        return Description("memory" if self.origin.path is None else self.origin.path.name)

    def verify(self) -> None:
        """Read all files, and compare them with the checksums that were noted when they were written.

        Raises:
            InvalidData: A file was altered, cut off or is missing; or no checksums were noted.
        """
        origin = self.origin
        if origin.manifest is None:
            subject = (
                "arrays in memory have" if origin.path is None else f"{beside(origin.path)} is missing: {origin.path} has"
            )
            raise InvalidData(
                f"{subject} no checksums", "a container that deep_bench wrote", "convert it, and verify the copy"
            )
        self._verify(origin.manifest)

    def _verify(self, manifest: ContainerManifest) -> None:
        check_sums(self.origin.folder, manifest.files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> Any:
        if self.origin.path is None:
            return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]
        return _reopened, (self.origin.path, self.origin.kind, dict(self.origin.options))


def _reopened(path: Path, kind: str, options: dict[str, Any]) -> Any:
    containers = import_module("deep_bench.training.containers")  # which imports this module
    return containers.open_container(path, kind, **options)


def check_manifest(path: Path, kind: str, manifest: ContainerManifest | None) -> None:
    """See that the files of a container are those that its manifest names.

    Raises:
        InvalidData: They are not, or it is of another kind.
    """
    if manifest is None:
        return
    if manifest.kind != kind:
        raise InvalidData(f"{path} is of kind {manifest.kind}", kind, "leave the kind out")
    check_sizes(path if path.is_dir() else path.parent, manifest.files)
