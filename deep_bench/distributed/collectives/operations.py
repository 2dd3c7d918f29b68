"""What is measured: each benchmark's operation on one rank, its sizes and bandwidths, and whether what it gives is right.

``n`` ranks; *bytes* is the size in the tables, after the OSU micro-benchmarks; *S* is the amount that nccl-tests divides by
the time, and *bus* the factor from this *algorithm bandwidth* to the *bus bandwidth*: what each rank's link must carry at
least.

============== ================================= ===================================== ========= ===========
benchmark      OSU's name                        bytes                                 S         bus
============== ================================= ===================================== ========= ===========
latency        ``osu_latency``                   one message                           bytes     1
bandwidth      ``osu_bw``                        one message of a window of 64         64 bytes  1
bidirectional  ``osu_bibw``                      one message of a window of 64         128 bytes 1
allreduce      ``osu_allreduce``                 each rank's vector                    bytes     2 (n-1) / n
reduce         ``osu_reduce``                    each rank's vector                    bytes     1
broadcast      ``osu_bcast``                     the root's array                      bytes     1
gather         ``osu_gather``                    what one rank gives                   n bytes   (n-1) / n
scatter        ``osu_scatter``                   what one rank gets                    n bytes   (n-1) / n
allgather      ``osu_allgather``                 what one rank gives                   n bytes   (n-1) / n
reduce-scatter ``osu_reduce_scatter``            each rank's whole vector              bytes     (n-1) / n
alltoall       ``osu_alltoall``                  what one rank gives to another        n bytes   (n-1) / n
barrier        ``osu_barrier``                   none                                  –         –
neighbours     ``osu_neighbor_allgather``, ring  what one rank gives to each neighbour bytes d   1
============== ================================= ===================================== ========= ===========

Latency is half of a round trip; bandwidth and bidirectional time a window of 64 messages until its answer of 4 bytes is
there. With ``neighbours`` each of n ranks gives to d = min(n - 1, 2) others on a ring.

Source:
    OSU micro-benchmarks, Network-Based Computing Laboratory, Ohio State University, README; NVIDIA nccl-tests,
    ``doc/PERFORMANCE.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.loggp import ANSWER, WINDOW
from deep_bench.distributed.schemes.neighbours import ring
from deep_bench.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class BenchmarkKind:
    """One benchmark.

    Args:
        name: As it is asked for.
        amount: Ranks and bytes to S, in bytes.
        bus: Ranks to the factor of the bus bandwidth.
        pair: Whether two ranks do it, and the others wait.
        sized: Whether it has sizes.
        messages: How many messages one sample of a pair stands for; its time is divided by them.
    """

    name: str
    amount: Callable[[int, int], int]
    bus: Callable[[int], float]
    pair: bool = False
    sized: bool = True
    messages: int = 1


def _own_bytes(ranks: int, size: int) -> int:  # noqa: ARG001
    return size


def _bytes_of_all(ranks: int, size: int) -> int:
    return ranks * size


def _factor_one(ranks: int) -> float:  # noqa: ARG001
    return 1.0


def _share_of_others(ranks: int) -> float:
    return (ranks - 1) / ranks


_ALL = (
    BenchmarkKind("allgather", _bytes_of_all, _share_of_others),
    BenchmarkKind("allreduce", _own_bytes, lambda n: 2 * (n - 1) / n),
    BenchmarkKind("alltoall", _bytes_of_all, _share_of_others),
    BenchmarkKind("bandwidth", lambda _, size: WINDOW * size, _factor_one, pair=True),
    BenchmarkKind("barrier", _own_bytes, _factor_one, sized=False),
    BenchmarkKind("bidirectional", lambda _, size: 2 * WINDOW * size, _factor_one, pair=True),
    BenchmarkKind("broadcast", _own_bytes, _factor_one),
    BenchmarkKind("gather", _bytes_of_all, _share_of_others),
    BenchmarkKind("latency", _own_bytes, _factor_one, pair=True, messages=2),
    BenchmarkKind("neighbours", lambda n, size: min(n - 1, 2) * size, _factor_one),
    BenchmarkKind("reduce", _own_bytes, _factor_one),
    BenchmarkKind("reduce-scatter", _own_bytes, _share_of_others),
    BenchmarkKind("scatter", _bytes_of_all, _share_of_others),
)

KINDS: Mapping[str, BenchmarkKind] = {kind.name: kind for kind in _ALL}
"""Name to benchmark."""


def algorithm_bandwidth(kind: BenchmarkKind, ranks: int, size: int, seconds: float) -> float | None:
    """S over the time, in bytes a second; ``None`` where nothing is moved.

    Example:
        >>> algorithm_bandwidth(KINDS["allgather"], 4, 1000, 1e-6) == 4e9
        True
    """
    amount = kind.amount(ranks, size)
    return amount / seconds if amount and seconds > 0 else None


def bus_bandwidth(kind: BenchmarkKind, ranks: int, size: int, seconds: float) -> float | None:
    """The algorithm bandwidth times the factor of the benchmark, in bytes a second.

    Example:
        >>> bus_bandwidth(KINDS["allreduce"], 4, 1000, 1e-6)
        1500000000.0
    """
    bandwidth = algorithm_bandwidth(kind, ranks, size, seconds)
    return None if bandwidth is None else bandwidth * kind.bus(ranks)


_MOST = 8


def largest_exact(dtype: np.dtype) -> int:
    """Up to this, all whole numbers are elements of the type.

    Raises:
        InvalidArgument: The type is of no such numbers.

    Example:
        >>> largest_exact(np.dtype("float32")), largest_exact(np.dtype("int8"))
        (16777216, 127)
    """
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    try:
        return int(2 ** (ml_dtypes.finfo(dtype).nmant + 1))
    except ValueError as error:
        raise InvalidArgument(f"element type {dtype}", "float32, float64, float16, bfloat16, int8, int64 …") from error


def contribution(rank: int, ranks: int, elements: int, dtype: np.dtype, seed: int) -> np.ndarray:
    """What a rank gives: different in each place, on each rank and for each seed.

    Args:
        rank: Whose.
        ranks: How many there are. Where their sum could exceed what the type counts exactly, the last ones give zeros.
        elements: How many.
        dtype: Their type.
        seed: Of the draw.

    Example:
        >>> contribution(0, 2, 4, np.dtype("int32"), 0).tolist() != contribution(1, 2, 4, np.dtype("int32"), 0).tolist()
        True
    """
    most = min(max((largest_exact(dtype) - 1) // ranks, 1), _MOST)
    if rank * most >= largest_exact(dtype) - most:
        return np.zeros(elements, dtype)
    draws = np.random.default_rng([seed, rank]).integers(0, most + 1, min(elements, _PERIOD), np.int8)
    return np.resize(draws, elements).astype(dtype)


_PERIOD = 65_521
"""Elements that are drawn; longer arrays repeat them. A prime, so that no block of an array is like another."""


def poison(out: np.ndarray) -> None:
    """Fill an array with what cannot be a result."""
    out.fill(largest_exact(out.dtype))


def sum_of_contributions(ranks: int, elements: int, dtype: np.dtype, seed: int) -> np.ndarray:
    """The sum of what all ranks give."""
    partial_sum = contribution(0, ranks, elements, dtype, seed)
    for rank in range(1, ranks):
        partial_sum = (partial_sum + contribution(rank, ranks, elements, dtype, seed)).astype(dtype, copy=False)
    return partial_sum


@dataclass(frozen=True)
class OperationSetting:
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
class Operation:
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
            self.give[...] = contribution(rank, ranks, self.give.size, self.give.dtype, seed).reshape(self.give.shape)

    def wrong(self, seed: int) -> int:
        """Make the operation, and count the elements that are not what they must be."""
        received, expected = self.read(self.call()), self.expected(seed)
        if expected is None or received is None:
            return int(expected is not received)
        received, expected = np.asarray(received).reshape(-1), expected.reshape(-1)
        if received.shape != expected.shape:
            return max(received.size, expected.size)
        return int(np.count_nonzero(received != expected))


def operation(name: str, setting: OperationSetting) -> Operation:
    """The operation of one of `deep_bench.distributed.collectives.operations.KINDS`.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def wrong(comm):
        ...     made = operation("allreduce", OperationSetting(comm, 10, np.dtype("float32")))
        ...     made.prepare(comm.rank, comm.size, seed=1)
        ...     return made.wrong(seed=1), made.wrong(seed=2) > 0
        >>> run_local(3, wrong)
        [(0, True), (0, True), (0, True)]
    """
    return _MAKERS[name](setting)


def _of_rank(s: OperationSetting, rank: int, rows: int, seed: int) -> np.ndarray:
    return contribution(rank, s.comm.size, s.elements * max(rows, 1), s.dtype, seed)


def _sum(s: OperationSetting, seed: int) -> np.ndarray:
    return sum_of_contributions(s.comm.size, s.elements, s.dtype, seed)


def _each_rank(s: OperationSetting, seed: int) -> np.ndarray:
    return np.stack([_of_rank(s, rank, 0, seed) for rank in range(s.comm.size)])


def _allreduce(s: OperationSetting) -> Operation:
    x, out = s.array(), s.array()
    return Operation(lambda: s.comm.allreduce(x, "sum", out), x, out, lambda seed: _sum(s, seed))


def _reduce(s: OperationSetting) -> Operation:
    x = s.array()
    return Operation(lambda: s.comm.reduce(x, "sum", 0), x, None, lambda seed: _sum(s, seed) if s.comm.rank == 0 else None)


def _broadcast(s: OperationSetting) -> Operation:
    x = s.array()
    give, out = (x, None) if s.comm.rank == 0 else (None, x)
    return Operation(lambda: s.comm.broadcast(x, 0), give, out, lambda seed: _of_rank(s, 0, 0, seed))


def _gather(s: OperationSetting) -> Operation:
    x = s.array()
    return Operation(lambda: s.comm.gather(x, 0), x, None, lambda seed: _each_rank(s, seed) if s.comm.rank == 0 else None)


def _scatter(s: OperationSetting) -> Operation:
    ranks, rank = s.comm.size, s.comm.rank
    x, out = s.array(ranks) if rank == 0 else None, s.array()
    rows = lambda seed: _of_rank(s, 0, ranks, seed).reshape(ranks, -1)  # noqa: E731
    return Operation(lambda: s.comm.scatter(x, out, 0), x, out, lambda seed: rows(seed)[rank])


def _allgather(s: OperationSetting) -> Operation:
    x, out = s.array(), s.array(s.comm.size)
    return Operation(lambda: s.comm.allgather(x, out=out), x, out, lambda seed: _each_rank(s, seed))


def _reduce_scatter(s: OperationSetting) -> Operation:
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
    return Operation(call, x, out, lambda seed: _sum(s, seed)[mine])


def _alltoall(s: OperationSetting) -> Operation:
    ranks, rank = s.comm.size, s.comm.rank
    x, out = s.array(ranks), s.array(ranks)

    def expected(seed: int) -> np.ndarray:
        return np.stack([_of_rank(s, peer, ranks, seed).reshape(ranks, -1)[rank] for peer in range(ranks)])

    return Operation(lambda: s.comm.alltoall(x, out), x, out, expected)


def _barrier(s: OperationSetting) -> Operation:
    return Operation(s.comm.barrier)


def _neighbours(s: OperationSetting) -> Operation:
    x, peers = s.array(), ring(s.comm.size).to[s.comm.rank]
    return Operation(
        lambda: s.comm.exchange(x, peers, peers),
        x,
        expected=lambda seed: np.stack([_of_rank(s, peer, 0, seed) for peer in peers]),
        read=lambda received: np.stack([received[peer] for peer in peers]),
    )


def _latency(s: OperationSetting) -> Operation:
    """There and back."""
    partner = _partner(s)
    if partner is None:
        return Operation(_barrier_check)
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
    return Operation(call, x, out, lambda seed: _of_rank(s, partner, 0, seed))


def _bandwidth(s: OperationSetting) -> Operation:
    """A window one way, and an answer; all messages arrive in one array, as OSU's do."""
    partner = _partner(s)
    if partner is None:
        return Operation(_barrier_check)
    x, answer = s.array(), np.zeros(ANSWER, np.int8)
    if s.comm.rank == s.pair[0]:

        def send() -> None:
            for request in [s.comm.isend(x, partner) for _ in range(WINDOW)]:
                request.wait()
            s.comm.recv(answer, partner)

        return Operation(send, x)
    out = s.array()

    def receive() -> np.ndarray:
        for request in [s.comm.irecv(out, partner) for _ in range(WINDOW)]:
            request.wait()
        s.comm.send(answer, partner)
        return out

    return Operation(receive, None, out, lambda seed: _of_rank(s, partner, 0, seed))


def _bidirectional(s: OperationSetting) -> Operation:
    """A window both ways, and an answer one way."""
    partner = _partner(s)
    if partner is None:
        return Operation(_barrier_check)
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

    return Operation(call, x, out, lambda seed: _of_rank(s, partner, 0, seed))


def _barrier_check() -> None:
    """What ranks do that take no part."""


def _partner(s: OperationSetting) -> int | None:
    """The other rank of the pair; ``None`` on a rank that is not in it."""
    if s.comm.rank not in s.pair:
        return None
    return s.pair[1] if s.comm.rank == s.pair[0] else s.pair[0]


_MAKERS: Mapping[str, Callable[[OperationSetting], Operation]] = {
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
