"""A folder with a ``.npy`` file for each field, mapped into memory; or one such file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from deep_bench.errors import InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.arrays import ArrayContainer, DenseField, same_counts
from deep_bench.training.containers.container import (
    Container,
    ContainerManifest,
    Origin,
    holds_numbers,
    parsed,
    plain,
    refuse,
)
from deep_bench.training.containers.kinds import Content, Details

_SUFFIX = ".npy"
_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one."""
    return head.startswith(b"\x93NUMPY") or (path.is_dir() and any(path.glob(f"*{_SUFFIX}")))


def open_files(path: Path, manifest: ContainerManifest | None) -> Container:
    """Map the arrays."""
    if manifest is None:
        files = sorted(path.glob(f"*{_SUFFIX}")) if path.is_dir() else [path]
        paths = {unquote(file.stem): file for file in files}
    else:
        paths = {field.name: path / _file_name(field.name) for field in manifest.fields}
    if not paths:
        raise InvalidData(f"{path} has no {_SUFFIX} files", "at least one", "check the path")
    arrays = {name: _mapped(file) for name, file in paths.items()}
    same_counts({name: len(array) for name, array in arrays.items()}, path)
    if manifest is None:
        specs = tuple(TensorSpec(name, array.shape[1:], array.dtype.newbyteorder("=")) for name, array in arrays.items())
    else:
        specs = manifest.specs
        _check(specs, arrays, paths, manifest.samples)
    fields = {spec.name: DenseField(arrays[spec.name], spec.dtype) for spec in specs}
    return ArrayContainer(Origin("npy", path, tuple(paths.values()), manifest), specs, fields)


def write(stage: Path, name: str, content: Content) -> Details:
    """Write a file for each field."""
    del name
    content.of_one_size()
    files = {spec.name: open(stage / _file_name(spec.name), "wb") for spec in content.specs}  # noqa: SIM115 (closed below)
    try:
        for spec in content.specs:
            shape, descr = (content.count, *spec.shape), np.lib.format.dtype_to_descr(plain(spec.dtype))
            header = {"descr": descr, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(files[spec.name], header)
        for batch in content.batches():
            for spec in content.specs:
                files[spec.name].write(np.ascontiguousarray(batch[spec.name]).view(plain(spec.dtype)).tobytes())
    finally:
        for file in files.values():
            file.close()
    return Details()


def _file_name(field: str) -> str:
    return quote(field, safe=" ()[],=+") + _SUFFIX


def _mapped(file: Path) -> np.ndarray:
    shape, fortran, dtype, offset = parsed(file, lambda: _header(file), "a .npy file of numbers")
    size = os.path.getsize(file) - offset
    count = int(np.prod(shape, dtype=object)) if shape else 0
    if not shape or size != count * dtype.itemsize:
        raise InvalidData(f"{file}, after offset {offset}: {size} bytes", f"{dtype}{list(shape)}", "get the data again")
    if not holds_numbers(dtype):
        raise refuse(str(file), TensorSpec(file.stem, shape, dtype), "numbers")
    if not size:
        return np.empty(shape, dtype)
    order = "F" if fortran else "C"
    mapped: np.ndarray = parsed(file, lambda: np.memmap(file, dtype, "r", offset, shape, order))  # type: ignore[call-overload]
    return mapped


def _header(file: Path) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    with open(file, "rb") as opened:
        version = np.lib.format.read_magic(opened)
        if version not in _READERS:
            raise ValueError(f".npy version {version}")
        shape, fortran, dtype = _READERS[version](opened)
        if dtype.hasobject or any(size < 0 for size in shape):
            raise ValueError(f"{dtype}{list(shape)}")
        return shape, fortran, dtype, opened.tell()


def _check(specs: tuple[TensorSpec, ...], arrays: Mapping[str, np.ndarray], files: Mapping[str, Path], samples: int) -> None:
    """See that the files hold what the manifest says."""
    for spec in specs:
        array, expected_shape = arrays[spec.name], (samples, *spec.shape)
        if array.shape != expected_shape or array.dtype != plain(spec.dtype):
            raise InvalidData(
                f"{files[spec.name]} holds {array.dtype}{list(array.shape)}", f"{plain(spec.dtype)}{list(expected_shape)}"
            )
