"""What ``loader_cost.py`` compares: one epoch of batches, read from images in memory or in a mapped file."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from _side_by_side import TimedCall

from deep_bench.training.containers import open_container, write_container
from deep_bench.training.loader import Loader
from deep_bench.training.samplers import Sequential, Shuffled
from deep_bench.training.sets import ArrayDataset

IMAGES, BATCH, WORKERS = 5000, 64, 2


def _arrays(where: str, folder: Path) -> dict[str, np.ndarray]:
    draws = np.random.default_rng(0)
    images = draws.integers(0, 256, (IMAGES, 3, 32, 32)).astype(np.uint8)
    labels = draws.integers(0, 10, IMAGES)
    if where == "memory":
        return {"image": images, "label": labels}
    np.save(folder / "images.npy", images)
    np.save(folder / "labels.npy", labels)
    return {key: np.load(folder / f"{key}s.npy", mmap_mode="r") for key in ("image", "label")}


def _consumed(make: Callable[[dict[str, np.ndarray]], Callable[[], Iterable[Any]]], where: str) -> TimedCall:
    folder = tempfile.TemporaryDirectory()  # kept by the call below

    def start() -> Callable[[], None]:
        epoch = make(_arrays(where, Path(folder.name)))
        return lambda: deque(epoch(), maxlen=0).clear()

    return TimedCall(start)


def ours(where: str, order: str, **options: Any) -> TimedCall:
    """deep_bench."""

    def make(arrays: dict[str, np.ndarray]) -> Callable[[], Iterable[Any]]:
        dataset = ArrayDataset(arrays)
        sampler = Shuffled(dataset, BATCH) if order == "shuffled" else Sequential(dataset, BATCH)
        loader = Loader(dataset, sampler, **options)
        return lambda: loader.epoch(0)

    return _consumed(make, where)


def from_memory() -> TimedCall:
    """deep_bench, in order, from memory."""
    return ours("memory", "sequential")


def from_memmap() -> TimedCall:
    """deep_bench, in order, from mapped ``.npy`` files."""
    return ours("memmap", "sequential")


def from_hdf5() -> TimedCall:
    """deep_bench, in order, from a contiguous HDF5 file."""
    folder = tempfile.TemporaryDirectory()  # kept by the call below

    def start() -> Callable[[], None]:
        path = Path(folder.name) / "images.h5"
        dataset = open_container(write_container(path, ArrayDataset(_arrays("memory", path)), "hdf5"))
        loader = Loader(dataset, Sequential(dataset, BATCH))
        return lambda: deque(loader.epoch(0), maxlen=0).clear()

    return TimedCall(start)


def ours_in_threads(where: str, order: str) -> TimedCall:
    """deep_bench with threads that read ahead."""
    return ours(where, order, workers=WORKERS)


def ours_in_processes(where: str, order: str) -> TimedCall:
    """deep_bench with processes that read ahead."""
    return ours(where, order, workers=WORKERS, processes=True)


def _torch(where: str, order: str, dataset_of: Callable[[dict[str, np.ndarray]], Any], **options: Any) -> TimedCall:
    from torch.utils.data import DataLoader

    def make(arrays: dict[str, np.ndarray]) -> Callable[[], Iterable[Any]]:
        loader = DataLoader(dataset_of(arrays), batch_size=BATCH, shuffle=order == "shuffled", **options)
        return lambda: loader

    return _consumed(make, where)


class _Items:
    """A set as torch's tutorial writes it: one sample at a time."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.integer]:
        return self.arrays["image"][index], self.arrays["label"][index]


class _Batches(_Items):
    """A set that is also asked for a whole batch, and answers it at once."""

    def __getitems__(self, indices: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return self.arrays["image"][indices], self.arrays["label"][indices]


def _as_tensors(batch: tuple[np.ndarray, np.ndarray]) -> tuple[Any, Any]:
    import torch

    return torch.from_numpy(batch[0]), torch.from_numpy(batch[1])


def torch_per_item(where: str, order: str) -> TimedCall:
    """torch, one sample at a time."""
    return _torch(where, order, _Items)


def torch_per_item_in_processes(where: str, order: str) -> TimedCall:
    """torch, one sample at a time, in processes that are kept."""
    return _torch(where, order, _Items, num_workers=WORKERS, persistent_workers=True, multiprocessing_context="spawn")


def torch_per_batch(where: str, order: str) -> TimedCall:
    """torch, a batch at a time."""
    return _torch(where, order, _Batches, collate_fn=_as_tensors)
