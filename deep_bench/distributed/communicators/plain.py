"""Every collective operation by messages from rank to rank, in the simplest way that works: what a communicator has to offer
at least, and what faster ones are compared with.

Those that are made of others call the communicator's own, so that one that has a faster gather has a faster reduction too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deep_bench.distributed.communicators.checks import REDUCTIONS, check_reduction
from deep_bench.errors import InvalidArgument

if TYPE_CHECKING:
    from deep_bench.distributed.communicators.communicator import Communicator, Reduction

_TAG = 2**20
"""Messages of collective operations have tags from here on, those of users lie below."""


def reduced(op: str, rows: Sequence[np.ndarray]) -> np.ndarray:
    """The rows reduced to one, in their order and in their own type.

    Raises:
        InvalidArgument: No such reduction.
    """
    check_reduction(op)
    first, *remaining = rows
    total = np.array(first)
    for row in remaining:
        REDUCTIONS[op](total, row, out=total)  # in place: NumPy makes a scalar of what has no dimension
    return total


def written(result: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """The result, or ``out`` with its contents."""
    if out is None:
        return result
    check_out(out, result.size, result.dtype)
    out[...] = result.reshape(out.shape)
    return out


def check_out(out: np.ndarray, elements: int, dtype: np.dtype) -> None:
    """Whether a result can be written into an array.

    Raises:
        InvalidArgument: It cannot.
    """
    if out.size != elements or out.dtype != dtype or not out.flags.writeable:
        locked = "" if out.flags.writeable else ", read-only"
        raise InvalidArgument(f"out: {out.dtype}{list(out.shape)}{locked}", f"{elements} elements of {dtype}, to be written")


def check_counts(counts: Sequence[int], size: int, elements: int, of: int | None = None) -> None:
    """Whether counts fit the ranks and an array: their sum, or that of one rank.

    Raises:
        InvalidArgument: They do not.
    """
    expected = sum(counts) if of is None else (counts[of] if len(counts) == size else -1)
    if len(counts) != size or min(counts, default=0) < 0 or expected != elements:
        raise InvalidArgument(f"counts {list(counts)} for {size} ranks, with {elements} elements here", "one for each rank")


def exchange(
    comm: Communicator, x: np.ndarray, to: Sequence[int], sources: Sequence[int], tag: int
) -> dict[int, np.ndarray]:
    """See `Communicator.exchange`."""
    buffers = {source: np.empty_like(x) for source in sources}
    begun = [comm.irecv(out, source, tag) for source, out in buffers.items()]
    begun += [comm.isend(x, rank, tag) for rank in to]
    for request in begun:
        request.wait()
    return buffers


def broadcast(comm: Communicator, x: np.ndarray, root: int) -> np.ndarray:
    """See `Communicator.broadcast`."""
    check_rank(comm, root)
    if comm.rank != root:
        comm.recv(x, root, _TAG)
        return x
    for request in [comm.isend(x, rank, _TAG) for rank in range(comm.size) if rank != root]:
        request.wait()
    return x


def gather(comm: Communicator, x: np.ndarray, root: int) -> np.ndarray | None:
    """See `Communicator.gather`."""
    check_rank(comm, root)
    if comm.rank != root:
        comm.send(x, root, _TAG + 1)
        return None
    rows = np.empty((comm.size, *x.shape), x.dtype)
    rows[root] = x
    for rank in range(comm.size):
        if rank != root:
            row = np.empty_like(x)
            comm.recv(row, rank, _TAG + 1)
            rows[rank] = row
    return rows


def reduce(comm: Communicator, x: np.ndarray, op: Reduction, root: int) -> np.ndarray | None:
    """See `Communicator.reduce`."""
    check_reduction(op)
    rows = comm.gather(x, root)
    return None if rows is None else reduced(op, list(rows))


def allreduce(comm: Communicator, x: np.ndarray, op: Reduction, out: np.ndarray | None) -> np.ndarray:
    """See `Communicator.allreduce`."""
    if out is not None:
        check_out(out, x.size, x.dtype)
    total = comm.reduce(x, op, 0)
    return written(comm.broadcast(np.empty_like(x) if total is None else total, 0), out)


def allgather(comm: Communicator, x: np.ndarray, counts: Sequence[int] | None, out: np.ndarray | None) -> np.ndarray:
    """See `Communicator.allgather`."""
    if counts is not None:
        check_counts(counts, comm.size, x.size, comm.rank)
    if out is not None:
        check_out(out, x.size * comm.size if counts is None else sum(counts), x.dtype)
    if counts is None:
        rows = comm.gather(x, 0)
        return written(comm.broadcast(np.empty((comm.size, *x.shape), x.dtype) if rows is None else rows, 0), out)
    whole = np.empty(sum(counts), x.dtype)
    for rank, part in enumerate(np.split(whole, np.cumsum(counts)[:-1])):
        if rank == comm.rank:
            part[...] = x.reshape(-1)
        comm.broadcast(part, rank)
    return written(whole, out)


def scatter(comm: Communicator, x: np.ndarray | None, out: np.ndarray, root: int) -> np.ndarray:
    """See `Communicator.scatter`."""
    check_rank(comm, root)
    if comm.rank != root:
        comm.recv(out, root, _TAG + 2)
        return out
    rows = check_rows(comm, x)
    begun = [comm.isend(np.ascontiguousarray(rows[r]), r, _TAG + 2) for r in range(comm.size) if r != root]
    for request in begun:
        request.wait()
    return written(rows[root], out)


def reduce_scatter(
    comm: Communicator, x: np.ndarray, counts: Sequence[int] | None, op: Reduction, out: np.ndarray | None
) -> np.ndarray:
    """See `Communicator.reduce_scatter`."""
    if counts is not None:
        check_counts(counts, comm.size, x.size)
        whole = comm.allreduce(x.reshape(-1), op)
        return written(np.split(whole, np.cumsum(counts)[:-1])[comm.rank].copy(), out)
    rows = comm.allreduce(check_rows(comm, x), op)
    return written(np.array(rows[comm.rank]), out)


def alltoall(comm: Communicator, x: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """See `Communicator.alltoall`."""
    rows = check_rows(comm, x)
    received = np.empty_like(rows)
    received[comm.rank] = rows[comm.rank]
    peers = [rank for rank in range(comm.size) if rank != comm.rank]
    arrived = {rank: np.empty(rows.shape[1:], rows.dtype) for rank in peers}
    begun = [comm.irecv(row, rank, _TAG + 3) for rank, row in arrived.items()]
    begun += [comm.isend(np.ascontiguousarray(rows[rank]), rank, _TAG + 3) for rank in peers]
    for request in begun:
        request.wait()
    for rank, row in arrived.items():
        received[rank] = row
    return written(received, out)


def check_rank(comm: Communicator, rank: int) -> None:
    """Whether there is such a rank.

    Raises:
        InvalidArgument: There is not.
    """
    if not 0 <= rank < comm.size:
        raise InvalidArgument(f"rank {rank} of {comm.size}", f"0 to {comm.size - 1}")


def check_rows(comm: Communicator, x: np.ndarray | None) -> np.ndarray:
    """An array that has a row for each rank.

    Raises:
        InvalidArgument: It does not.
    """
    if x is None or x.ndim == 0 or len(x) != comm.size:
        came = "nothing" if x is None else f"{x.dtype}{list(x.shape)}"
        raise InvalidArgument(f"{came} for {comm.size} ranks", f"an array of shape ({comm.size}, …)")
    return x
