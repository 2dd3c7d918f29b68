"""``Communicator``: how the ranks of a run reach each other.

Every collective operation is there by messages from rank to rank, in the simplest way that works: what a communicator has
to offer at least, and what faster ones are compared with. A rank that fails ends all others, which would wait for it for
ever.

Those that are made of others call the communicator's own, so that one that has a faster gather has a faster reduction too.
"""

from __future__ import annotations

import os
import platform
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported

REDUCTIONS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
"""Name to the function of two arrays that does it."""


def check_peer(comm: Communicator, rank: int, tag: int, *, anyone: bool = False) -> None:
    """Whether a message can go to a rank, or come from it.

    Raises:
        InvalidArgument: No such rank, or a negative tag.
    """
    if not 0 <= rank < comm.size and not (anyone and rank == ANY):
        raise InvalidArgument(f"rank {rank} of {comm.size}", f"0 to {comm.size - 1}{', or ANY' if anyone else ''}")
    if tag < 0:
        raise InvalidArgument(f"tag {tag}", "a tag of at least 0")


def check_writable(out: np.ndarray) -> None:
    """Whether something can be received into an array.

    Raises:
        InvalidArgument: It is read-only.
    """
    if not out.flags.writeable:
        raise InvalidArgument(f"out: {out.dtype}{list(out.shape)}, read-only", "an array that can be written")


def check_color(color: int | None) -> None:
    """Whether a group can be named so.

    Raises:
        InvalidArgument: It cannot.
    """
    if color is not None and color < 0:
        raise InvalidArgument(f"color {color}", "a color of at least 0, or None")


def check_reduction(op: str) -> None:
    """Whether there is such a reduction.

    Raises:
        InvalidArgument: There is not.
    """
    if op not in REDUCTIONS:
        raise InvalidArgument(f"the reduction {op!r}", f"one of {', '.join(REDUCTIONS)}")


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


ANY = -1
"""As the source of a message: whoever sends first."""


Reduction: TypeAlias = Literal["sum", "prod", "min", "max"]

LARGEST = 2**30
"""So many elements go into one message at most; longer arrays are cut. MPI counts them in 32 bits."""


@dataclass(frozen=True, slots=True)
class Received:
    """What came with a message.

    Args:
        source: The rank that sent it.
        tag: Its tag.
        elements: How many elements came; at most as many as there was room for.
    """

    source: int
    tag: int
    elements: int


class Request(ABC):
    """A message, or a collective operation, under way. Its arrays belong to it until it is done."""

    @abstractmethod
    def wait(self) -> Received | None:
        """Return when it is done; for a message that was received, what came."""

    @abstractmethod
    def test(self) -> bool:
        """Whether it is done. Asking may help it on."""


class Communicator(ABC):
    """A group of ranks, and the messages between them.

    Arrays are NumPy arrays of any shape and element type, or others that an implementation names; nothing is pickled. What
    is received is written into ``out`` where that is given, which must have the right number of elements and the same type;
    otherwise into a new array. Collective operations are called by all ranks in the same order, with arrays of the same
    shape and type. What they return are arrays, also those without dimensions. A reduction is computed in the arrays' own
    type or a wider one and rounded to nearest, in any order, and all ranks get the same bits of it. A subclass needs
    ``isend``, ``irecv`` and ``split``; everything else is written with these and may be replaced by what is faster.
    `deep_bench.testing.communicators` puts any through all of this.

    Attributes:
        name: In the registry ``db.communicators``.
        rank: The number of this process within the group, from 0.
        size: The number of ranks in the group.
        largest: So many elements go into one message at most, where an implementation has to cut longer arrays.
        threads: Whether several threads of a rank may call it, and what it was split from or into, at the same time.
        survives: Whether the others can go on when a rank is lost; then messages from and to it fail.
    """

    name: ClassVar[str]
    rank: int
    size: int
    largest: int = LARGEST
    threads: bool = False
    survives: bool = False

    # What a subclass must have

    @abstractmethod
    def isend(self, x: np.ndarray, to: int, tag: int = 0) -> Request:
        """Begin to send an array; it must not change until the request is done.

        Args:
            x: What is sent.
            to: The rank that gets it.
            tag: Tells messages between the same two ranks apart; below 2**20, from where on operations have theirs.

        Raises:
            InvalidArgument: No such rank, or a negative tag.
        """

    @abstractmethod
    def irecv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Request:
        """Begin to receive an array. Messages from one rank with one tag arrive in the order in which they were sent.

        Args:
            out: Where it goes; the message may be shorter.
            source: The rank that sends it, or `ANY`.
            tag: Of the message.

        Raises:
            InvalidArgument: No such rank, a negative tag, or an ``out`` that cannot be written.
        """

    @abstractmethod
    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """A communicator of the ranks that name the same color.

        Args:
            color: Which group this rank goes to, from 0; ``None`` for none.
            key: Ranks are numbered by it; by their rank here where it is equal.

        Raises:
            InvalidArgument: A negative color.
        """

    # Facts

    def describe(self) -> Mapping[str, str]:
        """The facts a report needs: the library with its version, and what else matters."""
        return {"communicator": self.name}

    def takes(self, array: Any) -> bool:
        """Whether an array can be handed over as it is."""
        return isinstance(array, np.ndarray)

    def wire_bytes(self) -> int | None:
        """The bytes that this process has sent so far, where something below the interface counts them."""
        return None

    def lost(self) -> frozenset[int]:
        """The ranks that are known to be gone. After it told of one, waiting for whoever sends first goes on without it."""
        return frozenset()

    def leave_out(self) -> None:
        """Go on without the ranks that are lost, in place: the others are numbered anew. All of them call it together.

        Raises:
            Unsupported: It cannot (`survives`).
        """
        raise Unsupported(f"{self.name!r} cannot go on without a rank that is lost", "a communicator that survives")

    # Messages

    def send(self, x: np.ndarray, to: int, tag: int = 0) -> None:
        """Send an array; return when it may be changed. See `isend`."""
        self.isend(x, to, tag).wait()

    def recv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Received:
        """Receive an array. See `irecv`."""
        received = self.irecv(out, source, tag).wait()
        assert received is not None
        return received

    def sendrecv(self, x: np.ndarray, to: int, out: np.ndarray, source: int, tag: int = 0) -> Received:
        """Send one array and receive another, without waiting for each other."""
        begun = self.irecv(out, source, tag)
        self.send(x, to, tag)
        received = begun.wait()
        assert received is not None
        return received

    def exchange(self, x: np.ndarray, to: Sequence[int], sources: Sequence[int], tag: int = 0) -> dict[int, np.ndarray]:
        """Send one array to several ranks, and receive one like it from several.

        Args:
            x: What all of ``to`` get.
            to: Ranks.
            sources: Ranks.
            tag: Of all messages.

        Returns:
            Source to what came from it.
        """
        return exchange(self, x, to, sources, tag)

    # Collective operations

    def barrier(self) -> None:
        """Return when all ranks have come here."""
        self.allreduce(np.zeros(1, np.int8))

    def broadcast(self, x: np.ndarray, root: int = 0) -> np.ndarray:
        """Give all ranks the root's array, in place; returns it."""
        return broadcast(self, x, root)

    def reduce(self, x: np.ndarray, op: Reduction = "sum", root: int = 0) -> np.ndarray | None:
        """The sum (product, smallest, largest) over all ranks, element by element; on the root only, ``None`` elsewhere."""
        return reduce(self, x, op, root)

    def allreduce(self, x: np.ndarray, op: Reduction = "sum", out: np.ndarray | None = None) -> np.ndarray:
        """The same, on all ranks. ``out`` may be ``x``."""
        return allreduce(self, x, op, out)

    def iallreduce(self, x: np.ndarray, out: np.ndarray, op: Reduction = "sum") -> Request:
        """Begin an `allreduce`. ``out`` may be ``x``."""
        self.allreduce(x, op, out)
        return CompletedRequest()

    def gather(self, x: np.ndarray, root: int = 0) -> np.ndarray | None:
        """All ranks' arrays on the root, of shape (ranks, …) in their order; ``None`` elsewhere."""
        return gather(self, x, root)

    def allgather(self, x: np.ndarray, counts: Sequence[int] | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """All ranks' arrays on all ranks, of shape (ranks, …).

        Args:
            x: This rank's.
            counts: Where ranks give different numbers of elements, that of each: the result is flat, one after the other.
            out: Where it goes.
        """
        return allgather(self, x, counts, out)

    def scatter(self, x: np.ndarray | None, out: np.ndarray, root: int = 0) -> np.ndarray:
        """Give each rank its row of the root's array of shape (ranks, …)."""
        return scatter(self, x, out, root)

    def reduce_scatter(
        self, x: np.ndarray, counts: Sequence[int] | None = None, op: Reduction = "sum", out: np.ndarray | None = None
    ) -> np.ndarray:
        """Give each rank its row of the sum over all ranks of arrays of shape (ranks, …).

        Args:
            x: This rank's.
            counts: Where rows differ in length, the number of elements of each: ``x`` is flat, one after the other.
            op: The reduction.
            out: Where the row goes.
        """
        return reduce_scatter(self, x, counts, op, out)

    def alltoall(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Give each rank its row of each rank's array of shape (ranks, …): row i of the result came from rank i."""
        return alltoall(self, x, out)

    # Ends

    def abort(self, reason: str) -> None:
        """End all ranks, where one alone can do that.

        Args:
            reason: Why, for those who look.
        """
        raise SystemExit(reason)

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Give back what it holds; it is not used afterwards."""


class CompletedRequest(Request):
    """A request that was done at once."""

    def wait(self) -> None:
        """Return."""

    def test(self) -> bool:
        """True."""
        return True


@contextmanager
def guarded(comm: Communicator) -> Iterator[None]:
    """End all ranks if this one raises within the block, or leaves the program with a status that is not 0.

    Args:
        comm: Whose ranks.

    Example:
        >>> from deep_bench.distributed.communicators.local import LocalCommunicator
        >>> with guarded(LocalCommunicator()):
        ...     raise DeepBenchError("a step of 0")
        Traceback (most recent call last):
        deep_bench.errors.CommunicationFailed: rank 0 ended the run: DeepBenchError: a step of 0
    """
    try:
        yield
    except SystemExit as error:
        if error.code not in (None, 0):
            comm.abort(f"SystemExit: {error.code}")
        raise
    except BaseException as error:
        comm.abort(cause(error))
        raise


def end_all_on_exception(comm: Communicator) -> None:
    """End all ranks if this one ends with an exception that nobody catches: `guarded` for the rest of the program.

    Args:
        comm: Whose ranks.
    """

    def hook(_: type[BaseException], error: BaseException, __: TracebackType | None) -> None:
        comm.abort(cause(error))

    sys.excepthook = hook


def cause(error: BaseException) -> str:
    """What failed, in a line or a few; with the traceback if it is none of deep_bench's own errors."""
    message = f"{type(error).__name__}: {error}"
    return message if isinstance(error, DeepBenchError) else "".join(traceback.format_exception(error)).rstrip()


def end_process(who: str, reason: str, end: Callable[[int], object] = os._exit) -> None:
    """Tell on the error stream why a process ends its run, and end it.

    Args:
        who: Which rank.
        reason: Why.
        end: Ends it, with a status.
    """
    sys.stdout.flush()
    print(f"{who} on {platform.node()} ended the run: {reason}", file=sys.stderr, flush=True)
    end(1)
