"""Messages and operations large enough for a library's other protocols, with one element more than a round size."""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.testing.communicator_checks.values import later, neighbours, same_bits

_BITS = {
    np.dtype(kind): bits
    for kind, bits in (("uint8", 7), (ml_dtypes.bfloat16, 8), ("float32", 24), ("int64", 62), ("complex128", 53))
}
"""An element type of 1, 2, 4, 8 and 16 bytes, to how many bits whole numbers may have."""

_SMALL, _LARGE = 2**16, 2**22
_PLACES = 61
_PERIOD = 4099  # a prime, so that blocks of a library are not alike
_MIXING = 0x9E3779B97F4A7C15


def carries_large_arrays(comm: Communicator) -> None:
    """Messages and sums of 4 MiB and an element more, for each size of an element."""
    to, source = neighbours(comm)
    faults: list[AssertionError] = []
    for dtype in _BITS:
        n = _LARGE // dtype.itemsize + 1
        mine, label, got = _of(comm, comm.rank, n, dtype).copy(), f"{n} elements of {dtype}", np.zeros(n, dtype)
        if comm.size > 1:
            came = comm.sendrecv(mine, to, got, source, 12)
        total = comm.allreduce(mine)
        with later(faults):
            if comm.size > 1:
                assert came.elements == n, f"{came.elements} elements came of {label}"
                same_bits(got, _of(comm, source, n, dtype), f"a message of {label}")
            same_bits(total, _total(comm.size, n, dtype), f"allreduce of {label}")
    if faults:
        raise faults[0]


def carries_middling_arrays(comm: Communicator) -> None:
    """Everything with 64 KiB and an element more, for each size of an element."""
    to, source = neighbours(comm)
    faults: list[AssertionError] = []
    for number, dtype in enumerate(_BITS):
        n, root = _SMALL // dtype.itemsize + 1, number % comm.size
        ranks = [_of(comm, rank, n, dtype) for rank in range(comm.size)]
        mine, label, total = ranks[comm.rank].copy(), f"{n} elements of {dtype}", _total(comm.size, n, dtype)
        rows, received = np.stack([mine] * comm.size), np.stack(ranks)
        got, begun, place = np.zeros(n, dtype), np.zeros(n, dtype), np.zeros(n, dtype)
        if comm.size > 1:
            request = comm.irecv(got, source, 12)
            comm.isend(mine, to, 12).wait()
            request.wait()
        comm.iallreduce(mine, begun).wait()
        comm.scatter(rows if comm.rank == root else None, place, root)
        results = {
            "allreduce": (comm.allreduce(mine), total),
            "iallreduce": (begun, total),
            "broadcast": (comm.broadcast(mine.copy(), root), ranks[root]),
            "allgather": (comm.allgather(mine), received),
            "allgather with counts": (comm.allgather(mine, [n] * comm.size), received.reshape(-1)),
            "alltoall": (comm.alltoall(rows), received),
            "reduce_scatter": (comm.reduce_scatter(rows), total),
            "scatter": (place, ranks[root]),
            "a message": (got, ranks[source] if comm.size > 1 else got),
        }
        gathered, rooted = comm.gather(mine, root), comm.reduce(mine, root=root)
        if gathered is not None and rooted is not None:
            results |= {"gather": (gathered, received), "reduce": (rooted, total)}
        with later(faults):
            for name, (result, expected) in results.items():
                same_bits(result, expected, f"{name} of {label}")
    if faults:
        raise faults[0]


def _of(comm: Communicator, rank: int, n: int, dtype: np.dtype) -> np.ndarray:
    """A rank's array: the same numbers, a few places further."""
    start = rank % _PLACES
    return _numbers(comm.size, n + _PLACES, dtype)[start : start + n]


@lru_cache(maxsize=8)
def _numbers(size: int, n: int, dtype: np.dtype) -> np.ndarray:
    return _repeated(_block(size, dtype), n)


@lru_cache(maxsize=8)
def _total(size: int, n: int, dtype: np.dtype) -> np.ndarray:
    block = _block(size, dtype)
    total = np.zeros_like(block)
    for rank in range(size):
        total += np.roll(block, -(rank % _PLACES))
    return _repeated(total, n)


def _block(size: int, dtype: np.dtype) -> np.ndarray:
    """Whole numbers, of which every sum over the ranks is one of the type's, with most of its bits; none is 0."""
    most = max(1, 2 ** _BITS[dtype] // size)
    mixed = np.arange(_PERIOD, dtype=np.uint64) * np.uint64(_MIXING) >> np.uint64(1)
    whole = mixed % np.uint64(most) + np.uint64(1)
    return (whole + 1j * whole[::-1]).astype(dtype) if dtype.kind == "c" else whole.astype(dtype)


def _repeated(block: np.ndarray, n: int) -> np.ndarray:
    array = np.resize(block, n)
    array.flags.writeable = False
    return array
