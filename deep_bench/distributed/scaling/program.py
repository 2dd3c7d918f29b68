"""The generalised pattern as what each rank does, message by message: what simulators and their file formats take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from deep_bench.distributed.scaling.calls import MESSAGES, Call, Phase
from deep_bench.distributed.scaling.formulas import Rules, collective_of, cost
from deep_bench.distributed.scaling.pattern import Pattern
from deep_bench.distributed.scaling.record import TimesRecord
from deep_bench.distributed.scaling.schedules import SCHEDULES, Round


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

    def calls(self, rank: int, rows: Sequence[int]) -> Iterator[Computing | Call]:
        """What a rank does, with collective calls whole."""
        times = self.times
        for number, row in enumerate(rows, 1):
            step = self.pattern.step(self.ranks, rank, number)
            yield Computing(float(times.before[row]), "loading")
            yield from (call for call in step if call.phase is Phase.AGREEING)
            yield Computing(float(times.gradients[row]), "gradients")
            yield from (call for call in step if call.phase is not Phase.AGREEING)
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

    def _collective(self, call: Call, rank: int) -> Iterator[Round]:
        if len(call.group) < 2:
            return
        name, size = collective_of(call)
        members = call.group
        if call.root is not None:  # algorithms have their root first
            at = members.index(call.root)
            members = members[at:] + members[:at]
        algorithm = SCHEDULES[name][self._algorithm(call)]
        for step in algorithm(len(members), members.index(rank), size):
            yield Round(
                tuple((members[to], n) for to, n in step.sends),
                tuple((members[source], n) for source, n in step.receives),
                step.added,
            )

    def _algorithm(self, call: Call) -> str:
        key = (call.operation, call.size, len(call.group))
        if key not in self._chosen:
            self._chosen[key] = cost(call, self.rules).algorithm
        return self._chosen[key]


def _as_rounds(call: Call) -> Iterator[Round]:
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
