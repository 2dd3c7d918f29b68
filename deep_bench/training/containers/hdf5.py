"""An HDF5 file with a dataset for each field.

Contiguous datasets are mapped into memory, where HDF5 put them: reading them is as fast as reading a ``.npy`` file. Chunked
ones are read through HDF5, each chunk once for a batch.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.records.store import FileForHdf5
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.arrays import ArrayContainer, ArrayField, DenseField, same_counts
from deep_bench.training.containers.container import (
    Container,
    ContainerManifest,
    FileEntry,
    Origin,
    dumps,
    fields_of,
    holds_numbers,
    loads,
    parsed,
    plain,
    refuse,
)
from deep_bench.training.containers.kinds import Content, Details

_ATTRIBUTE = "deep_bench"
_CACHE_BYTES = 64 << 20
_PAGE = 4096
_LEAST_VERSION = ("v110", "v110")
"""Since HDF5 1.10, the structure of a file has checksums: damage to it is found."""


class _StoredField:
    """A dataset that is read through HDF5.

    Args:
        dataset: The dataset.
        spec: What is read.
        place: The file, and its name there.
    """

    def __init__(self, dataset: h5py.Dataset, spec: TensorSpec, place: str) -> None:
        self._dataset, self._spec, self._place = dataset, spec, place
        self._chunk = dataset.chunks[0] if dataset.chunks else len(dataset)

    def __len__(self) -> int:
        return len(self._dataset)

    def read(self, indices: NDArray[np.int64]) -> np.ndarray:
        """These samples; those that lie in one chunk are read together."""
        place = f"{self._place}, samples {indices.min()} to {indices.max()}" if len(indices) else self._place
        array = parsed(place, lambda: self._read(indices))
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        return native.view(self._spec.dtype) if self._spec.dtype.kind == "V" else native

    def _read(self, indices: NDArray[np.int64]) -> np.ndarray:
        numbers, back = np.unique(indices, return_inverse=True)
        if len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1:
            array = self._dataset[numbers[0] : numbers[-1] + 1]
        else:
            array = np.empty((len(numbers), *self._dataset.shape[1:]), self._dataset.dtype)
            starts = np.flatnonzero(np.diff(numbers // max(self._chunk, 1), prepend=-1))
            for start, end in zip(starts, [*starts[1:], len(numbers)], strict=False):
                first = numbers[start]
                array[start:end] = self._dataset[first : numbers[end - 1] + 1][numbers[start:end] - first]
        in_order = len(back) == len(numbers) and not (back[1:] < back[:-1]).any()
        return array if in_order else array[back]


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one."""
    del path
    return head.startswith(b"\x89HDF\r\n\x1a\n")


def open_files(path: Path, manifest: ContainerManifest | None) -> Container:
    """Open the file; its datasets at the top are the fields."""
    del manifest  # it is in the file itself
    file = parsed(path, lambda: h5py.File(path, "r", rdcc_nbytes=_CACHE_BYTES, rdcc_nslots=10_007), "an HDF5 file")
    try:
        return _opened(path, file)
    except BaseException:
        file.close()
        raise


def write(
    stage: Path,
    name: str,
    content: Content,
    layout: str = "contiguous",
    chunk: int | None = None,
    compression: str | None = None,
) -> Details:
    """Write a dataset for each field, and the manifest as an attribute.

    Args:
        stage: Where.
        name: The file's name.
        content: What.
        layout: ``"contiguous"`` or ``"chunked"``.
        chunk: Samples in a chunk.
        compression: ``"gzip"`` or ``"lzf"``, of chunks.
    """
    if layout not in ("contiguous", "chunked") or compression not in (None, "gzip", "lzf"):
        raise InvalidArgument(f"layout={layout}, compression={compression}", "contiguous or chunked; gzip, lzf or none")
    if layout == "contiguous" and (chunk is not None or compression is not None):
        raise InvalidArgument("chunks or compression in a contiguous layout", "layout=chunked for these")
    if chunk is not None and not 1 <= chunk <= 1 << 31:
        raise InvalidArgument(f"chunk={chunk}", "a number of samples from 1")
    content.of_one_size()
    sums = {spec.name: 0 for spec in content.specs}
    aligned = {"alignment_threshold": _PAGE, "alignment_interval": _PAGE}  # so mapped elements are aligned
    with FileForHdf5(stage / name) as disk, h5py.File(disk, "w", libver=_LEAST_VERSION, **aligned) as file:
        for spec in content.specs:
            _make(file, spec, content.count, layout == "chunked", chunk or 64, compression)
        first = 0
        for batch in content.batches():
            last = first + len(batch[content.specs[0].name])
            for spec in content.specs:
                stored = np.ascontiguousarray(batch[spec.name]).view(plain(spec.dtype))
                file[spec.name][first:last] = stored
                sums[spec.name] = zlib.crc32(stored.tobytes(), sums[spec.name])
            first = last
            disk.check()
        text = dumps(_manifest(content, sums, {s.name: file[s.name].nbytes for s in content.specs}))
        file.attrs[_ATTRIBUTE] = np.frombuffer(text.encode(), np.uint8)
    return Details()


def _manifest(content: Content, sums: dict[str, int], sizes: dict[str, int]) -> ContainerManifest:
    files = {name: FileEntry(bytes=size, crc32=sums[name]) for name, size in sizes.items()}
    fields = fields_of(content.specs)
    return ContainerManifest(kind="hdf5", samples=content.count, fields=fields, files=files, classes=content.classes)


def _make(file: h5py.File, spec: TensorSpec, count: int, chunked: bool, chunk: int, compression: str | None) -> None:
    shape = (count, *(int(size) for size in spec.shape))
    if "/" in spec.name or spec.name in ("", "."):
        raise refuse("HDF5", spec, "a name without '/'", "rename it")
    options: dict[str, Any] = {}
    if chunked and 0 not in shape:
        options = {"chunks": (min(chunk, count), *shape[1:]), "compression": compression, "fletcher32": True}
        options |= {"shuffle": True} if compression else {}
    file.create_dataset(spec.name, shape, plain(spec.dtype), **options)


def _opened(path: Path, file: h5py.File) -> Container:
    manifest = parsed(path, lambda: _noted(path, file), "an HDF5 file")
    names = parsed(path, lambda: [name for name in file if isinstance(file.get(name), h5py.Dataset)])
    if manifest is not None:
        names = [field.name for field in manifest.fields]
    if not names:
        raise InvalidData(f"{path} has no datasets at its top", "at least one", "name another file")
    stored = {name: parsed(f"{path}, dataset {name}", lambda name=name: _dataset(path, file, name)) for name in names}  # type: ignore[misc]
    same_counts({name: shape[0] for name, (shape, _) in stored.items()}, path)
    if manifest is None:
        specs = tuple(TensorSpec(name, shape[1:], dtype.newbyteorder("=")) for name, (shape, dtype) in stored.items())
    else:
        specs = manifest.specs
        for spec in specs:
            shape, dtype = stored[spec.name]
            if shape != (manifest.samples, *spec.shape) or dtype != plain(spec.dtype):
                raise InvalidData(f"{path}, dataset {spec.name} is {dtype}{list(shape)}", f"{manifest.samples} times {spec}")
    fields = {s.name: parsed(f"{path}, dataset {s.name}", lambda s=s: _field(path, file, s)) for s in specs}  # type: ignore[misc]
    origin = Origin("hdf5", path, (path,), manifest)
    container: ArrayContainer

    def verify(noted: ContainerManifest) -> None:
        _verify(path, container, noted)

    container = ArrayContainer(origin, specs, fields, release=file.close, verify=verify)
    return container


def _noted(path: Path, file: h5py.File) -> ContainerManifest | None:
    if _ATTRIBUTE not in file.attrs:
        return None
    attribute = file.attrs[_ATTRIBUTE]
    if not isinstance(attribute, np.ndarray) or attribute.dtype != np.uint8:
        raise ValueError(f"its attribute {_ATTRIBUTE!r} is a {type(attribute).__name__}")
    return loads(attribute.tobytes(), path)


def _dataset(path: Path, file: h5py.File, name: str) -> tuple[tuple[int, ...], np.dtype]:
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None or not dataset.shape:
        raise ValueError("no array with an axis for the samples")
    if not holds_numbers(dataset.dtype):
        raise refuse(str(path), TensorSpec(name, dataset.shape[1:], dataset.dtype), "numbers", "name another file")
    return dataset.shape, dataset.dtype


def _field(path: Path, file: h5py.File, spec: TensorSpec) -> ArrayField:
    """Mapped where the bytes lie in the file as they are; else read through HDF5."""
    dataset = file[spec.name]
    offset = dataset.id.get_offset()
    mapped = dataset.chunks is None and offset is not None and not dataset.external and not file.userblock_size
    if not mapped or not dataset.nbytes:
        return _StoredField(dataset, spec, f"{path}, dataset {spec.name}")
    if offset + dataset.nbytes > path.stat().st_size:
        raise ValueError(f"it ends {offset + dataset.nbytes - path.stat().st_size} bytes after the file")
    return DenseField(np.memmap(path, dataset.dtype, "r", offset, dataset.shape), spec.dtype)


def _verify(path: Path, container: ArrayContainer, noted: ContainerManifest) -> None:
    for name, entry in noted.files.items():
        total = 0
        for first in range(0, len(container), 1024):
            rows = container.rows(name, np.arange(first, min(first + 1024, len(container))))
            total = zlib.crc32(np.ascontiguousarray(rows).view(plain(rows.dtype)).tobytes(), total)
        if total != entry.crc32:
            raise InvalidData(
                f"{path}, dataset {name} has the CRC-32 {total:08x}", f"{entry.crc32:08x}", "get the data again"
            )
