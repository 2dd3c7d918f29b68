"""The IDX format of MNIST: a folder with a file for each field, or one of several sets in a folder.

A file begins with two zero bytes, a byte for the element type and one for the number of dimensions; then come the sizes as
big-endian 32-bit numbers and the elements, big-endian as well.

Source:
    LeCun, Cortes and Burges, The MNIST database of handwritten digits, "File formats".
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.arrays import ArrayContainer, DenseField, same_counts
from deep_bench.training.containers.container import LABEL, Container, ContainerManifest, Origin, parsed, refuse
from deep_bench.training.containers.kinds import Content, Details

_CODES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_WORDS = {"u1": "ubyte", "i1": "byte", "i2": "short", "i4": "int", "f4": "float", "f8": "double"}
_NAME = re.compile(r"(?:(?P<part>.+?)-)?(?P<field>[^-]+)[-.]idx(?P<rank>\d+)-(?P<word>[a-z]+)(?:\.gz)?")
_MNIST = {"images": "image", "labels": LABEL}
_TYPES = ", ".join(np.dtype(code).newbyteorder("=").name for code in _CODES.values())


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one."""
    if path.is_dir():
        return any(_NAME.fullmatch(file.name) for file in path.iterdir())
    return _is_header(head) or (head[:2] == b"\x1f\x8b" and _NAME.fullmatch(path.name) is not None)


def open_files(path: Path, manifest: ContainerManifest | None, part: str | None = None) -> Container:
    """Map the arrays; compressed ones are read.

    Args:
        path: The folder, or one of the files: then those beside it that belong to the same set are read as well.
        manifest: What its writer noted.
        part: Which of several sets.
    """
    files = _files(path, part)
    arrays = {name: _array(file) for name, file in files.items()}
    same_counts({name: len(array) for name, array in arrays.items()}, path)
    by_name = {name: _spec(name, array) for name, array in arrays.items()}
    specs = tuple(by_name.values()) if manifest is None else manifest.specs
    if {spec.name: spec for spec in specs} != by_name:
        raise InvalidData(f"{path} holds {'; '.join(map(str, by_name.values()))}", "; ".join(map(str, specs)))
    fields = {spec.name: DenseField(arrays[spec.name], spec.dtype) for spec in specs}
    options = {} if part is None else {"part": part}
    return ArrayContainer(Origin("idx", path, tuple(files.values()), manifest, options), specs, fields)


def write(stage: Path, name: str, content: Content, compress: bool = False) -> Details:
    """Write a file for each field; ``label``, of int64, as unsigned bytes."""
    del name
    content.of_one_size()
    files = {}
    try:
        for spec in content.specs:
            code = _code(spec)
            word = _WORDS[_CODES[code][1:]]
            file = stage / f"{spec.name}-idx{spec.rank + 1}-{word}{'.gz' if compress else ''}"
            opened = gzip.GzipFile(file, "wb", 6, mtime=0) if compress else open(file, "wb")  # noqa: SIM115 (closed below)
            files[spec.name] = cast(BinaryIO, opened)
            sizes = np.array([content.count, *spec.shape], ">u4")
            files[spec.name].write(bytes([0, 0, code, spec.rank + 1]) + sizes.tobytes())
        for batch in content.batches():
            for spec in content.specs:
                files[spec.name].write(_elements(spec, batch[spec.name]))
    finally:
        for writer in files.values():
            writer.close()
    return Details()


def _code(spec: TensorSpec) -> int:
    type_name = "uint8" if _is_label(spec) else spec.dtype.name
    code = next((code for code, name in _CODES.items() if np.dtype(name).newbyteorder("=").name == type_name), None)
    if code is None:
        raise refuse("IDX", spec, f"one of {_TYPES}; or {LABEL!r} as int64", f"change its type, or rename it to {LABEL!r}")
    if spec.name == LABEL and not _is_label(spec):
        raise refuse("IDX", spec, f"{LABEL}: int64[]", "IDX keeps labels as bytes, and they are read as int64")
    if not re.fullmatch(r"[^-./]+", spec.name) or spec.name in _MNIST or spec.rank > 254:
        raise refuse("IDX", spec, "a name without '-', '.' and '/', and other than images and labels", "rename it")
    return code


def _elements(spec: TensorSpec, values: np.ndarray) -> bytes:
    if not _is_label(spec):
        return np.ascontiguousarray(values.astype(spec.dtype.newbyteorder(">"), copy=False)).tobytes()
    if len(values) and not 0 <= values.min() <= values.max() <= 255:
        raise refuse("IDX", spec, "labels from 0 to 255", f"they go from {values.min()} to {values.max()}")
    return values.astype(np.uint8).tobytes()


def _is_label(spec: TensorSpec) -> bool:
    return spec.name == LABEL and spec.rank == 0 and spec.dtype == np.int64


def _spec(name: str, array: np.ndarray) -> TensorSpec:
    labels = name == LABEL and array.ndim == 1 and array.dtype == np.uint8
    return TensorSpec(name, array.shape[1:], np.dtype(np.int64) if labels else array.dtype.newbyteorder("="))


def _files(path: Path, part: str | None) -> dict[str, Path]:
    """Field to file, of one set."""
    if path.is_file():
        file_match = _NAME.fullmatch(path.name)
        if file_match is None:
            return {path.stem: path}
        part = file_match["part"] or ""
    sets: dict[str, dict[str, Path]] = {}
    for file in sorted((path if path.is_dir() else path.parent).iterdir()):
        if match := _NAME.fullmatch(file.name):
            field = _MNIST.get(match["field"], match["field"])
            fields = sets.setdefault(match["part"] or "", {})
            if field in fields:
                raise InvalidArgument(f"{fields[field]} and {file} are the same field", "one of them", "delete the other")
            fields[field] = file
    if not sets:
        raise InvalidData(f"{path} has no IDX files", "names such as train-images-idx3-ubyte", "check the path")
    if part is None and len(sets) > 1:
        raise InvalidArgument(f"{path} has the sets {', '.join(sorted(sets))}", "one of them", "name it: part=…")
    selected = next(iter(sets)) if part is None else part
    if selected not in sets:
        raise InvalidArgument(f"{path} has no set {selected!r}", f"one of {', '.join(sorted(sets))}")
    return sets[selected]


def _array(file: Path) -> np.ndarray:
    with open(file, "rb") as opened:
        packed = opened.read(2) == b"\x1f\x8b"
    return parsed(file, lambda: _unpacked(file) if packed else _mapped(file), "an IDX file")


def _mapped(file: Path) -> np.ndarray:
    with open(file, "rb") as opened:
        dtype, shape, offset = _header(opened)
    _check_size(dtype, shape, os.path.getsize(file) - offset)
    if not np.prod(shape, dtype=object):
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "r", offset, shape)


def _unpacked(file: Path) -> np.ndarray:
    with gzip.open(file) as opened:
        dtype, shape, _ = _header(cast(BinaryIO, opened))
        expected = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if expected > 1032 * os.path.getsize(file):  # deflate packs no better than that
            raise ValueError(f"{expected} bytes cannot come out of {os.path.getsize(file)}")
        content = opened.read(expected + 1)
    _check_size(dtype, shape, len(content))
    return np.frombuffer(content, dtype).reshape(shape)


def _header(opened: BinaryIO) -> tuple[np.dtype, tuple[int, ...], int]:
    head = opened.read(4)
    if not _is_header(head):
        raise ValueError(f"it begins with {head.hex(' ')}, not with 00 00, a type and a number of dimensions")
    rank = head[3]
    sizes = opened.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise ValueError("the sizes are cut off")
    return np.dtype(_CODES[head[2]]), tuple(np.frombuffer(sizes, ">u4").tolist()), 4 + 4 * rank


def _is_header(head: bytes) -> bool:
    return len(head) >= 4 and head[:2] == b"\0\0" and head[2] in _CODES and 1 <= head[3] <= 32


def _check_size(dtype: np.dtype, shape: tuple[int, ...], size: int) -> None:
    expected = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size != expected:
        raise ValueError(f"{size} bytes of elements instead of {expected} for {dtype}{list(shape)}")
