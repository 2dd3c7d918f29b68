"""Arrays as MPI reads and writes them."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import CDLL
from functools import cache
from typing import Any

import numpy as np

from deep_bench.adapters.mpi.kinds import Kind
from deep_bench.errors import InvalidArgument, Unsupported


class OnDevice(np.ndarray):
    """Memory of a CUDA device, which MPI alone may look into."""

    def copy(self, order: Any = "C") -> OnDevice:  # noqa: ARG002 (NumPy's signature)
        """Not on this side.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported("CUDA arrays that overlap", "arrays apart from each other, or the same one")


def address(array: np.ndarray) -> int:
    """Where an array begins."""
    return int(array.__array_interface__["data"][0])


def placed(array: Any, MPI: Any) -> np.ndarray:
    """An array as it is, or one on a CUDA device as an `OnDevice`.

    Raises:
        Unsupported: On a device, and MPI cannot reach it, or it is not contiguous.
        InvalidArgument: Something else.
    """
    if isinstance(array, np.ndarray):
        return array
    if not is_on_cuda(array):
        raise InvalidArgument(f"{type(array).__module__}.{type(array).__qualname__}", "a NumPy array")
    if not cuda_aware(MPI):
        raise Unsupported(
            "an array on a CUDA device, and an MPI that is not CUDA-aware",
            "an array in host memory",
            "copy it to the host, or use an MPI that is built with CUDA",
        )
    facts = array.__cuda_array_interface__
    dtype, shape, (start, read_only) = np.dtype(facts["typestr"]), tuple(facts["shape"]), facts["data"]
    nbytes = dtype.itemsize * int(np.prod(shape))
    view = np.frombuffer(MPI.buffer.fromaddress(start, nbytes, bool(read_only)), dtype).reshape(shape)
    view = view.view(OnDevice)
    if facts.get("strides") not in (None, view.strides):
        raise Unsupported(f"a CUDA array with strides {facts['strides']}", "a contiguous one", "copy it on the device")
    return view


def is_on_cuda(array: Any) -> bool:
    """Whether an array lies on a CUDA device. (torch's tensors have no such attribute elsewhere.)"""
    return hasattr(array, "__cuda_array_interface__")


@cache
def cuda_aware(MPI: Any) -> bool:
    """Whether the MPI library says that it takes addresses of CUDA devices."""
    query = getattr(CDLL(MPI.__file__), "MPIX_Query_cuda_support", None)
    return query is not None and bool(query())


class Layout:
    """Describes arrays to MPI, also those with more elements than it can count.

    Args:
        MPI: The module.
    """

    def __init__(self, MPI: Any) -> None:
        self._mpi = MPI
        self._long: dict[tuple[np.dtype, int, int], Any] = {}

    def told(self, array: np.ndarray, kind: Kind, largest: int, elements: int | None = None) -> tuple[Any, int, Any]:
        """What mpi4py's calls take: the memory of a contiguous array, a number of elements, and their type.

        Args:
            array: It.
            kind: Of its elements.
            largest: The largest number of elements that is told as such; above it, one element of a longer type is told.
            elements: How many; ``None`` for all.
        """
        number = array.size if elements is None else elements
        if number <= largest:
            return raw(array, kind), number, kind.type
        return raw(array, kind), 1, self._long_type(kind, number, largest)

    def _long_type(self, kind: Kind, elements: int, largest: int) -> Any:
        key = (kind.dtype, elements, largest)
        if key not in self._long:
            blocks, remainder = divmod(elements, largest)
            step = largest * kind.dtype.itemsize
            row = kind.type.Create_contiguous(largest)
            last = kind.type.Create_contiguous(remainder)
            struct = self._mpi.Datatype.Create_struct(
                [1] * (blocks + 1), [i * step for i in range(blocks + 1)], [row] * blocks + [last]
            )
            self._long[key] = struct.Commit()
            row.Free()
            last.Free()
        return self._long[key]

    def free(self) -> None:
        """Give the types back."""
        for long_type in self._long.values():
            long_type.Free()
        self._long.clear()


def raw(array: np.ndarray, kind: Kind) -> np.ndarray:
    """A contiguous array as something whose memory NumPy hands out: it does not for types that are not its own."""
    return array if kind.native else array.reshape(-1).view(np.uint8)


def parts(elements: int, largest: int) -> Iterator[slice]:
    """Slices of at most so many elements; one for an empty array."""
    for start in range(0, max(elements, 1), largest):
        yield slice(start, min(start + largest, elements))
