"""The generalised pattern as what each rank does, message by message: what simulators and their file formats take.

A rank's part is a list of rounds. In a round it sends and receives at once, and goes on when all is done. Blocks of
:math:`n / p` bytes may be fractions here.

Source:
    Those of `deep_bench.distributed.loggp`, which have the
    formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TypeAlias

import numpy as np

from deep_bench.distributed.loggp import SEGMENT, steps
from deep_bench.distributed.scaling.formulas import Rules, collective_of, cost
from deep_bench.distributed.scaling.pattern import Pattern
from deep_bench.distributed.scaling.record import TimesRecord
from deep_bench.distributed.scaling.trace import MESSAGES, CallPhase, TracedCall


@dataclass(frozen=True, slots=True)
class Round:
    """What a rank does at once.

    Args:
        sends: Rank and bytes of each message.
        receives: The same.
        added: Bytes that it adds up afterwards.
    """

    sends: tuple[tuple[int, float], ...] = ()
    receives: tuple[tuple[int, float], ...] = ()
    added: float = 0.0


Part: TypeAlias = Iterator[Round]
Algorithm: TypeAlias = Callable[[int, int, float], Part]
"""Ranks, rank and bytes to its rounds; the root is rank 0."""


def _swap(to: int, source: int, sent: float, received: float, *, adds: bool = False) -> Round:
    return Round(((to, sent),), ((source, received),), received if adds else 0.0)


def _send(to: int, n: float) -> Round:
    return Round(sends=((to, n),))


def _receive(source: int, n: float, *, adds: bool = False) -> Round:
    return Round(receives=((source, n),), added=n if adds else 0.0)


def _around(p: int, r: int, n: float, *, adds: bool = False) -> Part:
    for _ in range(p - 1):
        yield _swap((r + 1) % p, (r - 1) % p, n, n, adds=adds)


def _ring_allreduce(p: int, r: int, n: float) -> Part:
    yield from _around(p, r, n / p, adds=True)
    yield from _around(p, r, n / p)


def _folded(p: int, r: int, n: float, inner: Callable[[int, int, float], Part]) -> Part:
    """An algorithm for a power of two ranks; those above hand theirs to a partner first, and get the result."""
    power = 1 << (p.bit_length() - 1)
    if r >= power:
        yield _send(r - power, n)
        yield _receive(r - power, n)
        return
    if r + power < p:
        yield _receive(r + power, n, adds=True)
    yield from inner(power, r, n)
    if r + power < p:
        yield _send(r + power, n)


def _doubling(p: int, r: int, n: float) -> Part:
    for i in range(steps(p)):
        yield _swap(r ^ 1 << i, r ^ 1 << i, n, n, adds=True)


def _halving(p: int, r: int, n: float) -> Part:
    for i in range(steps(p)):
        part, peer = n / 2 ** (i + 1), r ^ p >> (i + 1)
        yield _swap(peer, peer, part, part, adds=True)


def _growing(p: int, r: int, k: float) -> Part:
    for i in range(steps(p)):
        yield _swap(r ^ 1 << i, r ^ 1 << i, k * 2**i, k * 2**i)


def _rabenseifner(p: int, r: int, n: float) -> Part:
    yield from _halving(p, r, n)
    yield from _growing(p, r, n / p)


def _up(p: int, r: int, size: Callable[[int], float], *, adds: bool) -> Part:
    """Along a binomial tree to rank 0; ``size`` is what comes from so many ranks."""
    for i in range(steps(p)):
        if r >> i & 1:
            yield _send(r - (1 << i), size(min(1 << i, p - r)))
            return
        if r + (1 << i) < p:
            yield _receive(r + (1 << i), size(min(1 << i, p - r - (1 << i))), adds=adds)


def _down(p: int, r: int, size: Callable[[int], float]) -> Part:
    """Along a binomial tree from rank 0."""
    level = (r & -r).bit_length() - 1 if r else steps(p)
    if r:
        yield _receive(r - (1 << level), size(min(1 << level, p - r)))
    for i in reversed(range(level)):
        if r + (1 << i) < p:
            yield _send(r + (1 << i), size(min(1 << i, p - r - (1 << i))))


def _all_of(n: float) -> Callable[[int], float]:
    return lambda _: n


def _each(k: float) -> Callable[[int], float]:
    return lambda ranks: ranks * k


def _binomial_reduce(p: int, r: int, n: float) -> Part:
    return _up(p, r, _all_of(n), adds=True)


def _binomial_broadcast(p: int, r: int, n: float) -> Part:
    return _down(p, r, _all_of(n))


def _tree_allreduce(p: int, r: int, n: float) -> Part:
    yield from _binomial_reduce(p, r, n)
    yield from _binomial_broadcast(p, r, n)


def _scatter_allgather(p: int, r: int, n: float) -> Part:
    yield from _down(p, r, _each(n / p))
    yield from _around(p, r, n / p)


def _chain(p: int, r: int, n: float) -> Part:
    pieces = max(ceil(n / SEGMENT), 1)
    for _ in range(pieces):
        if r:
            yield _receive(r - 1, n / pieces)
        if r < p - 1:
            yield _send(r + 1, n / pieces)


def _from_root(p: int, r: int, n: float) -> Part:
    if r:
        yield _receive(0, n)
        return
    for peer in range(1, p):
        yield _send(peer, n)


def _to_root(p: int, r: int, n: float, *, adds: bool) -> Part:
    if r:
        yield _send(0, n)
        return
    for peer in range(1, p):
        yield _receive(peer, n, adds=adds)


def _bruck_allgather(p: int, r: int, k: float) -> Part:
    for i in range(steps(p)):
        n = min(2**i, p - 2**i) * k
        yield _swap((r - 2**i) % p, (r + 2**i) % p, n, n)


def _pairwise(p: int, r: int, k: float, *, adds: bool) -> Part:
    for i in range(1, p):
        yield _swap((r + i) % p, (r - i) % p, k, k, adds=adds)


def _bruck_alltoall(p: int, r: int, k: float) -> Part:
    for i in range(steps(p)):
        n = k * sum(j >> i & 1 for j in range(p))
        yield _swap((r + 2**i) % p, (r - 2**i) % p, n, n)


def _posted(p: int, r: int, k: float) -> Part:
    peers = [(peer, k) for peer in range(p) if peer != r]
    yield Round(tuple(peers), tuple(peers))


def _dissemination(p: int, r: int, n: float) -> Part:
    del n
    for i in range(steps(p)):
        yield _swap((r + 2**i) % p, (r - 2**i) % p, 1, 1)


SCHEDULES: Mapping[str, Mapping[str, Algorithm]] = {
    "allgather": {"Bruck": _bruck_allgather, "recursive doubling": _growing, "ring": _around},
    "allreduce": {
        "Rabenseifner": lambda p, r, n: _folded(p, r, n, _rabenseifner),
        "recursive doubling": lambda p, r, n: _folded(p, r, n, _doubling),
        "ring": _ring_allreduce,
        "tree": _tree_allreduce,
    },
    "alltoall": {
        "Bruck": _bruck_alltoall,
        "pairwise": lambda p, r, k: _pairwise(p, r, k, adds=False),
        "posted": _posted,
    },
    "barrier": {"dissemination": _dissemination},
    "broadcast": {
        "binomial tree": _binomial_broadcast,
        "linear": _from_root,
        "pipelined chain": _chain,
        "scatter and allgather": _scatter_allgather,
    },
    "gather": {
        "binomial tree": lambda p, r, k: _up(p, r, _each(k), adds=False),
        "linear": lambda p, r, k: _to_root(p, r, k, adds=False),
    },
    "reduce": {"binomial tree": _binomial_reduce, "linear": lambda p, r, n: _to_root(p, r, n, adds=True)},
    "reduce-scatter": {
        "pairwise": lambda p, r, n: _pairwise(p, r, n / p, adds=True),
        "recursive halving": _halving,
    },
    "scatter": {"binomial tree": lambda p, r, k: _down(p, r, _each(k)), "linear": _from_root},
}
"""Collective to algorithm to a rank's rounds; names and bytes as in `deep_bench.distributed.loggp`."""


@dataclass(frozen=True, slots=True)
class Computing:
    """A rank computes.

    Args:
        seconds: How long.
        what: What, in a word.
    """

    seconds: float
    what: str


@dataclass(frozen=True)
class Program:
    """Some steps of all ranks.

    Args:
        pattern: What they say.
        ranks: How many.
        times: How long they compute.
        rules: The algorithms.
        steps: How many.
        seed: Of the draws: each rank and step has a measured step of its own.
    """

    pattern: Pattern
    ranks: int
    times: TimesRecord
    rules: Rules
    steps: int = 1
    seed: int = 0
    _chosen: dict[tuple[str, int, int], str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def rows(self) -> np.ndarray:
        """For each rank and step, the measured step whose times it has."""
        rng = np.random.default_rng([self.seed, self.ranks, self.steps])
        return rng.integers(len(self.times.gradients), size=(self.ranks, self.steps))

    def drawn(self) -> float:
        """The computing of the slowest ranks in a step, on average over the steps as they were drawn."""
        rows, times = self.rows(), self.times
        apart = times.update[rows]
        apart[:, :-1] += times.before[rows[:, 1:]]
        slowest = times.before[rows[:, 0]].max() + apart.max(axis=0).sum() + times.gradients[rows].max(axis=0).sum()
        return float(slowest) / self.steps

    def calls(self, rank: int, rows: Sequence[int]) -> Iterator[Computing | TracedCall]:
        """What a rank does, with collective calls whole."""
        times = self.times
        for number, row in enumerate(rows, 1):
            step = self.pattern.step(self.ranks, rank, number)
            yield Computing(float(times.before[row]), "loading")
            yield from (call for call in step if call.phase is CallPhase.AGREEING)
            yield Computing(float(times.gradients[row]), "gradients")
            yield from (call for call in step if call.phase is not CallPhase.AGREEING)
            yield Computing(float(times.update[row]), "update")

    def rounds(self, rank: int, rows: Sequence[int]) -> Iterator[Computing | Round]:
        """What a rank does, with collective calls as messages."""
        for part in self.calls(rank, rows):
            if isinstance(part, Computing):
                yield part
            elif part.operation in MESSAGES:
                yield from _as_rounds(part)
            else:
                yield from self._collective(part, rank)

    def _collective(self, call: TracedCall, rank: int) -> Iterator[Round]:
        if len(call.group) < 2:
            return
        name, size = collective_of(call)
        members = call.group
        if call.root is not None:  # algorithms have their root first
            at = members.index(call.root)
            members = members[at:] + members[:at]
        key = (call.operation, call.size, len(call.group))
        if key not in self._chosen:
            self._chosen[key] = cost(call, self.rules).algorithm
        algorithm = SCHEDULES[name][self._chosen[key]]
        for step in algorithm(len(members), members.index(rank), size):
            yield Round(
                tuple((members[to], n) for to, n in step.sends),
                tuple((members[source], n) for source, n in step.receives),
                step.added,
            )


def _as_rounds(call: TracedCall) -> Iterator[Round]:
    """Messages: at once in an exchange, one after the other elsewhere."""
    n = float(call.size)
    if call.operation == "exchange":
        yield Round(tuple((to, n) for to in call.to), tuple((s, n) for s in call.sources), n * len(call.sources))
        return
    for to in call.to:
        yield Round(sends=((to, n),))
    for source in call.sources:
        yield Round(receives=((source, n),), added=n)


def whole(size: float) -> int:
    """Bytes of a message in a file: at least one."""
    return max(round(size), 1)
