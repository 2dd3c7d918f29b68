"""``Communicator``: how the ranks of a run reach each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from deep_bench.distributed.communicators import plain
from deep_bench.errors import Unsupported

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
        return plain.exchange(self, x, to, sources, tag)

    # Collective operations

    def barrier(self) -> None:
        """Return when all ranks have come here."""
        self.allreduce(np.zeros(1, np.int8))

    def broadcast(self, x: np.ndarray, root: int = 0) -> np.ndarray:
        """Give all ranks the root's array, in place; returns it."""
        return plain.broadcast(self, x, root)

    def reduce(self, x: np.ndarray, op: Reduction = "sum", root: int = 0) -> np.ndarray | None:
        """The sum (product, smallest, largest) over all ranks, element by element; on the root only, ``None`` elsewhere."""
        return plain.reduce(self, x, op, root)

    def allreduce(self, x: np.ndarray, op: Reduction = "sum", out: np.ndarray | None = None) -> np.ndarray:
        """The same, on all ranks. ``out`` may be ``x``."""
        return plain.allreduce(self, x, op, out)

    def iallreduce(self, x: np.ndarray, out: np.ndarray, op: Reduction = "sum") -> Request:
        """Begin an `allreduce`. ``out`` may be ``x``."""
        self.allreduce(x, op, out)
        return Done()

    def gather(self, x: np.ndarray, root: int = 0) -> np.ndarray | None:
        """All ranks' arrays on the root, of shape (ranks, …) in their order; ``None`` elsewhere."""
        return plain.gather(self, x, root)

    def allgather(self, x: np.ndarray, counts: Sequence[int] | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """All ranks' arrays on all ranks, of shape (ranks, …).

        Args:
            x: This rank's.
            counts: Where ranks give different numbers of elements, that of each: the result is flat, one after the other.
            out: Where it goes.
        """
        return plain.allgather(self, x, counts, out)

    def scatter(self, x: np.ndarray | None, out: np.ndarray, root: int = 0) -> np.ndarray:
        """Give each rank its row of the root's array of shape (ranks, …)."""
        return plain.scatter(self, x, out, root)

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
        return plain.reduce_scatter(self, x, counts, op, out)

    def alltoall(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Give each rank its row of each rank's array of shape (ranks, …): row i of the result came from rank i."""
        return plain.alltoall(self, x, out)

    # Ends

    def abort(self, reason: str) -> None:
        """End all ranks, where one alone can do that.

        Args:
            reason: Why, for those who look.
        """
        raise SystemExit(reason)

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Give back what it holds; it is not used afterwards."""


class Done(Request):
    """A request that was done at once."""

    def wait(self) -> None:
        """Return."""

    def test(self) -> bool:
        """True."""
        return True
