"""The operation of each benchmark on one rank, and whether what it gives is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deep_bench.distributed.collectives.pattern import given, poison, total
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.machine.pairs import ANSWER, WINDOW
from deep_bench.distributed.topology import ring


@dataclass(frozen=True)
class Setting:
    """What an operation is made for.

    Args:
        comm: The ranks.
        elements: The benchmark's *bytes*, in elements.
        dtype: Their type.
        pair: The two ranks of a benchmark of pairs.
    """

    comm: Communicator
    elements: int
    dtype: np.dtype
    pair: tuple[int, int] = (0, 1)

    def array(self, rows: int = 0) -> np.ndarray:
        """An array of the benchmark's size; with so many rows of it."""
        return np.zeros((rows, self.elements) if rows else self.elements, self.dtype)


@dataclass
class Problem:
    """An operation that can be made again and again.

    Args:
        call: The operation, as it is timed; returns what this rank gets, ``None`` for nothing.
        give: What this rank hands over; ``None`` for nothing.
        out: What the result is written to, where that is given.
        expected: From a seed to what this rank must get; ``None`` for nothing.
        read: What the call returns, as an array.
    """

    call: Callable[[], Any]
    give: np.ndarray | None = None
    out: np.ndarray | None = None
    expected: Callable[[int], np.ndarray | None] = field(default=lambda _: None)
    read: Callable[[Any], Any] = field(default=lambda found: found)

    def prepare(self, rank: int, ranks: int, seed: int) -> None:
        """Give what belongs to a seed, and spoil what is to be written."""
        if self.out is not None:
            poison(self.out)
        if self.give is not None:
            self.give[...] = given(rank, ranks, self.give.size, self.give.dtype, seed).reshape(self.give.shape)

    def wrong(self, seed: int) -> int:
        """Make the operation, and count the elements that are not what they must be."""
        received, expected = self.read(self.call()), self.expected(seed)
        if expected is None or received is None:
            return int(expected is not received)
        received, expected = np.asarray(received).reshape(-1), expected.reshape(-1)
        if received.shape != expected.shape:
            return max(received.size, expected.size)
        return int(np.count_nonzero(received != expected))


def problem(name: str, setting: Setting) -> Problem:
    """The operation of one of `deep_bench.distributed.collectives.kinds.KINDS`.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def wrong(comm):
        ...     made = problem("allreduce", Setting(comm, 10, np.dtype("float32")))
        ...     made.prepare(comm.rank, comm.size, seed=1)
        ...     return made.wrong(seed=1), made.wrong(seed=2) > 0
        >>> run_local(3, wrong)
        [(0, True), (0, True), (0, True)]
    """
    return _MAKERS[name](setting)


def _of_rank(s: Setting, rank: int, rows: int, seed: int) -> np.ndarray:
    return given(rank, s.comm.size, s.elements * max(rows, 1), s.dtype, seed)


def _sum(s: Setting, seed: int) -> np.ndarray:
    return total(s.comm.size, s.elements, s.dtype, seed)


def _each(s: Setting, seed: int) -> np.ndarray:
    return np.stack([_of_rank(s, rank, 0, seed) for rank in range(s.comm.size)])


def _allreduce(s: Setting) -> Problem:
    x, out = s.array(), s.array()
    return Problem(lambda: s.comm.allreduce(x, "sum", out), x, out, lambda seed: _sum(s, seed))


def _reduce(s: Setting) -> Problem:
    x = s.array()
    return Problem(lambda: s.comm.reduce(x, "sum", 0), x, None, lambda seed: _sum(s, seed) if s.comm.rank == 0 else None)


def _broadcast(s: Setting) -> Problem:
    x = s.array()
    give, out = (x, None) if s.comm.rank == 0 else (None, x)
    return Problem(lambda: s.comm.broadcast(x, 0), give, out, lambda seed: _of_rank(s, 0, 0, seed))


def _gather(s: Setting) -> Problem:
    x = s.array()
    return Problem(lambda: s.comm.gather(x, 0), x, None, lambda seed: _each(s, seed) if s.comm.rank == 0 else None)


def _scatter(s: Setting) -> Problem:
    ranks, rank = s.comm.size, s.comm.rank
    x, out = s.array(ranks) if rank == 0 else None, s.array()
    rows = lambda seed: _of_rank(s, 0, ranks, seed).reshape(ranks, -1)  # noqa: E731
    return Problem(lambda: s.comm.scatter(x, out, 0), x, out, lambda seed: rows(seed)[rank])


def _allgather(s: Setting) -> Problem:
    x, out = s.array(), s.array(s.comm.size)
    return Problem(lambda: s.comm.allgather(x, out=out), x, out, lambda seed: _each(s, seed))


def _reduce_scatter(s: Setting) -> Problem:
    """Rows where the vector has equal ones; else parts that differ by one element."""
    ranks, rank = s.comm.size, s.comm.rank
    counts = [s.elements // ranks + (r < s.elements % ranks) for r in range(ranks)]
    before, out = sum(counts[:rank]), np.zeros(counts[rank], s.dtype)
    mine = slice(before, before + counts[rank])
    if s.elements % ranks:
        x = s.array()
        call = lambda: s.comm.reduce_scatter(x, counts, "sum", out)  # noqa: E731
    else:
        x = s.array().reshape(ranks, -1)
        call = lambda: s.comm.reduce_scatter(x, None, "sum", out)  # noqa: E731
    return Problem(call, x, out, lambda seed: _sum(s, seed)[mine])


def _alltoall(s: Setting) -> Problem:
    ranks, rank = s.comm.size, s.comm.rank
    x, out = s.array(ranks), s.array(ranks)

    def expected(seed: int) -> np.ndarray:
        return np.stack([_of_rank(s, peer, ranks, seed).reshape(ranks, -1)[rank] for peer in range(ranks)])

    return Problem(lambda: s.comm.alltoall(x, out), x, out, expected)


def _barrier(s: Setting) -> Problem:
    return Problem(s.comm.barrier)


def _neighbours(s: Setting) -> Problem:
    x, peers = s.array(), ring(s.comm.size).to[s.comm.rank]
    return Problem(
        lambda: s.comm.exchange(x, peers, peers),
        x,
        expected=lambda seed: np.stack([_of_rank(s, peer, 0, seed) for peer in peers]),
        read=lambda received: np.stack([received[peer] for peer in peers]),
    )


def _latency(s: Setting) -> Problem:
    """There and back."""
    partner = _partner(s)
    if partner is None:
        return Problem(_nothing)
    x, out = s.array(), s.array()

    def begin() -> np.ndarray:
        s.comm.send(x, partner)
        s.comm.recv(out, partner)
        return out

    def answer() -> np.ndarray:
        s.comm.recv(out, partner)
        s.comm.send(x, partner)
        return out

    call = begin if s.comm.rank == s.pair[0] else answer
    return Problem(call, x, out, lambda seed: _of_rank(s, partner, 0, seed))


def _bandwidth(s: Setting) -> Problem:
    """A window one way, and an answer; all messages arrive in one array, as OSU's do."""
    partner = _partner(s)
    if partner is None:
        return Problem(_nothing)
    x, answer = s.array(), np.zeros(ANSWER, np.int8)
    if s.comm.rank == s.pair[0]:

        def send() -> None:
            for request in [s.comm.isend(x, partner) for _ in range(WINDOW)]:
                request.wait()
            s.comm.recv(answer, partner)

        return Problem(send, x)
    out = s.array()

    def receive() -> np.ndarray:
        for request in [s.comm.irecv(out, partner) for _ in range(WINDOW)]:
            request.wait()
        s.comm.send(answer, partner)
        return out

    return Problem(receive, None, out, lambda seed: _of_rank(s, partner, 0, seed))


def _bidirectional(s: Setting) -> Problem:
    """A window both ways, and an answer one way."""
    partner = _partner(s)
    if partner is None:
        return Problem(_nothing)
    x, out, answer, first = s.array(), s.array(), np.zeros(ANSWER, np.int8), s.comm.rank == s.pair[0]

    def call() -> np.ndarray:
        begun = [s.comm.irecv(out, partner) for _ in range(WINDOW)]
        begun += [s.comm.isend(x, partner) for _ in range(WINDOW)]
        for request in begun:
            request.wait()
        if first:
            s.comm.recv(answer, partner)
        else:
            s.comm.send(answer, partner)
        return out

    return Problem(call, x, out, lambda seed: _of_rank(s, partner, 0, seed))


def _nothing() -> None:
    """What ranks do that take no part."""


def _partner(s: Setting) -> int | None:
    """The other rank of the pair; ``None`` on a rank that is not in it."""
    if s.comm.rank not in s.pair:
        return None
    return s.pair[1] if s.comm.rank == s.pair[0] else s.pair[0]


_MAKERS: Mapping[str, Callable[[Setting], Problem]] = {
    "allgather": _allgather,
    "allreduce": _allreduce,
    "alltoall": _alltoall,
    "bandwidth": _bandwidth,
    "barrier": _barrier,
    "bidirectional": _bidirectional,
    "broadcast": _broadcast,
    "gather": _gather,
    "latency": _latency,
    "neighbours": _neighbours,
    "reduce": _reduce,
    "reduce-scatter": _reduce_scatter,
    "scatter": _scatter,
}


def memory_bytes(name: str, ranks: int, size: int) -> int:
    """What one rank's arrays take at most while the operation is made and checked.

    Example:
        >>> memory_bytes("allreduce", 4, 1000), memory_bytes("allgather", 4, 1000)
        (5000, 17000)
    """
    whole = ranks * size if name in ("allgather", "alltoall", "gather", "scatter") else size
    return 4 * whole + size
