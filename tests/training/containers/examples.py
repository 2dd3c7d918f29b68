"""Sets that tests write to containers, and comparing what is read with them."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np

from deep_bench.training.containers import ArrayContainer, Container, memory, parse_kind, write_container

COUNT = 7
NUMBERS = (
    *("bool", "float16", "float32", "float64", "complex64", "bfloat16", "float8_e4m3fn"),
    *("int4", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
KINDS = (
    "cifar",
    "folder",
    "hdf5",
    "hdf5:layout=chunked,chunk=3",
    "hdf5:layout=chunked,chunk=3,compression=gzip",
    "idx",
    "idx:compress=true",
    "npy",
    "recordio",
    "tar",
    "tfrecord",
    "tfrecord:image=png",
    "webdataset:shard=3",
)


def numbers(dtype: str, count: int = COUNT) -> ArrayContainer:
    """Arrays of small numbers."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = np.random.default_rng(0).integers(-4 if kind.kind not in "bu" else 0, 4, (count, 3, 2))
    return memory({"x": values.astype(kind), "label": np.arange(count)})


def images(*shape: int, count: int = COUNT) -> ArrayContainer:
    """Images of one size, as bytes."""
    pixels = np.random.default_rng(1).integers(0, 256, (count, *shape), dtype=np.uint8)
    return memory({"image": pixels, "label": np.arange(count) % 3})


def uneven() -> ArrayContainer:
    """Images of different heights."""
    random = np.random.default_rng(2)
    pixels = [random.integers(0, 256, (height, 5, 3), dtype=np.uint8) for height in (4, 6, 4, 9, 5)]
    return memory({"image": pixels, "label": np.arange(5)})


def written(folder: Path, text: str, dataset: Container, name: str = "set") -> Path:
    """The container, written."""
    kind, options = parse_kind(text)
    return write_container(folder / name, dataset, kind, **options)


def assert_same(found: Container, wanted: Container) -> None:
    """All samples are equal to the bit."""
    assert len(found) == len(wanted)
    assert found.specs == wanted.specs
    for number in range(len(wanted)):
        ours, theirs = found[np.array([number])], wanted[np.array([number])]
        assert ours.keys() == theirs.keys()
        for name, array in theirs.items():
            assert (ours[name].dtype, ours[name].shape) == (array.dtype, array.shape)
            assert ours[name].tobytes() == array.tobytes(), (name, number)
