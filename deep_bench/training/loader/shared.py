"""A batch handed from one process to another in shared memory.

The memory is a file in a folder that lies in memory where the system has one. Who reads maps the file and takes its
name away, so the arrays need no copy, and what nobody reads is gone with the folder.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_ALIGNMENT = 64
_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array lies in the memory; one of objects is pickled there."""

    offset: int
    size: int
    shape: tuple[int, ...]
    dtype: np.dtype


def new_folder() -> Path:
    """A folder of this process alone, in memory if possible."""
    where = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix=f"deep_bench-{os.getpid()}-", dir=where))


def write(path: Path, batch: Mapping[str, np.ndarray]) -> dict[str, Place]:
    """Put a batch into a new file.

    Raises:
        OSError: No memory is left there.
    """
    places = {}
    with path.open("xb") as file:
        for name, array in batch.items():
            content = pickle.dumps(array) if array.dtype.hasobject else np.ascontiguousarray(array)
            offset = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
            file.seek(offset)
            size = file.write(content if isinstance(content, bytes) else content.reshape(-1).view(np.uint8).data)
            places[name] = Place(offset, size, array.shape, array.dtype)
        file.write(b"\0")  # an empty file could not be mapped
    return places


def read(path: Path, places: Mapping[str, Place]) -> dict[str, np.ndarray]:
    """Take a batch out of its file, which is gone afterwards; the arrays keep the memory."""
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    path.unlink()
    return {name: _taken(memory, place) for name, place in places.items()}


def _taken(memory: mmap.mmap, place: Place) -> np.ndarray:
    if place.dtype.hasobject:
        array: Any = pickle.loads(memory[place.offset : place.offset + place.size])
        return array
    return np.ndarray(place.shape, place.dtype, memory, place.offset)
