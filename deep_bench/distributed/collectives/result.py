"""What a communication benchmark found: computed from its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.collectives.blocks import RankBlock
from deep_bench.distributed.collectives.clocks import Clock, common_origin
from deep_bench.distributed.collectives.kinds import KINDS, Kind, algorithm_bandwidth, bus_bandwidth
from deep_bench.distributed.machine.model import Link
from deep_bench.distributed.machine.predict import Predicted, predictions
from deep_bench.errors import InvalidRecord
from deep_bench.measure.amounts import MOMENTS
from deep_bench.measure.record import CaseFacts, Record, SystemRecord, TrialRecord
from deep_bench.measure.statistics import Summary, summarize
from deep_bench.measure.storage import load
from deep_bench.measure.timing import Block

MARK = "communicate"
"""The name of the suite in such a record."""


def case_label(kind: Kind, size: int) -> str:
    """How a benchmark of a size is called in a record."""
    return f"{kind.name} {size}" if kind.sized else kind.name


def rank_name(rank: int) -> str:
    """What a rank's durations are called in a record."""
    return f"rank {rank}"


def begin_name(rank: int) -> str:
    """What the times are called at which a rank's samples began, counted from the first one of their block."""
    return f"{MOMENTS}rank {rank}"


def operation_blocks(blocks: Sequence[RankBlock], rank: int | None = None, messages: int = 1) -> list[Block]:
    """The time of the operation: the maximum over the ranks of each sample, or one rank's.

    Args:
        blocks: Of all ranks.
        rank: Whose time counts; ``None`` for the maximum.
        messages: A repetition counts as so many calls.

    Example:
        >>> both = RankBlock(np.zeros((2, 3), int), np.array([[5, 6, 7], [9, 2, 8]]), np.zeros((2, 3), bool), batch=1)
        >>> operation_blocks([both])[0].ns.tolist()
        [9, 6, 8]
    """
    chosen = slice(None) if rank is None else slice(rank, rank + 1)
    return [
        Block(int(b.begin[0, 0]), b.batch * messages, b.ns[chosen].max(axis=0), np.any(b.preempted[chosen], axis=0))
        for b in blocks
    ]


@dataclass(frozen=True)
class Row:
    """One benchmark of one size over one communicator.

    Args:
        system: The communicator.
        kind: The benchmark.
        size: Bytes, as `deep_bench.distributed.collectives.kinds` counts them.
        ranks: How many.
        pair: The ranks of a benchmark of pairs; ``None`` for others.
        verdict: ``"right"``, ``"wrong"`` or ``"failed"``.
        reason: Why.
        blocks: All samples of all ranks.
        clocks: Of all ranks.
        link: What messages cost; ``None`` if that is not known.
    """

    system: str
    kind: Kind
    size: int
    ranks: int
    pair: tuple[int, int] | None
    verdict: str
    reason: str
    blocks: Sequence[RankBlock]
    clocks: Sequence[Clock]
    link: Link | None

    @cached_property
    def summary(self) -> Summary | None:
        """Of the time of the operation, in nanoseconds; ``None`` without samples."""
        first = self.pair[0] if self.pair else None
        return summarize(operation_blocks(self.blocks, first, self.kind.messages)) if self.blocks else None

    @property
    def seconds(self) -> float | None:
        """The median time of the operation."""
        return None if self.summary is None else self.summary.median / 1e9

    @cached_property
    def rank_means(self) -> NDArray[np.float64] | None:
        """Each rank's mean time in seconds, as OSU reports its average, minimum and maximum; ``None`` for pairs."""
        if not self.blocks or self.pair:
            return None
        return np.concatenate([block.ns for block in self.blocks], axis=1).mean(axis=1) / 1e9

    @property
    def algorithm_bandwidth(self) -> float | None:
        """In bytes a second."""
        return None if self.seconds is None else algorithm_bandwidth(self.kind, self.ranks, self.size, self.seconds)

    @property
    def bus_bandwidth(self) -> float | None:
        """In bytes a second."""
        return None if self.seconds is None else bus_bandwidth(self.kind, self.ranks, self.size, self.seconds)

    @cached_property
    def predicted(self) -> Predicted | None:
        """What the cheapest algorithm costs under LogGP: not necessarily the one that the library takes."""
        return None if self.link is None else predictions(self.kind.name, self.ranks, self.size, self.link)[0]

    @cached_property
    def spread(self) -> float | None:
        """How far apart the ranks began by the common clock, in seconds: the median over the samples; ``None`` for pairs."""
        if not self.blocks or self.pair:
            return None
        clocks = common_origin(self.clocks)
        begins = [[c.on_rank_0(row) for c, row in zip(clocks, b.begin, strict=True)] for b in self.blocks]
        return float(np.median(np.concatenate([np.ptp(block, axis=0) for block in begins]))) / 1e9

    def as_json(self) -> dict[str, Any]:
        """All figures; times in seconds, bandwidths in bytes a second."""
        s, means, predicted = self.summary, self.rank_means, self.predicted
        interval = None if s is None or s.interval is None else [s.interval.low / 1e9, s.interval.high / 1e9]
        return {
            "collective": self.kind.name,
            "bytes": self.size,
            "system": self.system,
            "ranks": self.ranks,
            "median": self.seconds,
            "interval": interval,
            "n": 0 if s is None else s.n,
            "rank_average": None if means is None else float(means.mean()),
            "rank_minimum": None if means is None else float(means.min()),
            "rank_maximum": None if means is None else float(means.max()),
            "begin_spread": self.spread,
            "algorithm_bandwidth": self.algorithm_bandwidth,
            "bus_bandwidth": self.bus_bandwidth,
            "predicted": None if predicted is None else predicted.seconds,
            "predicted_algorithm": None if predicted is None else predicted.algorithm,
            "verdict": self.verdict,
            "reason": self.reason,
        }


class Result:
    """What was found; `str` prints the table.

    Args:
        record: The record.
        path: Its file, if it was written.

    Raises:
        InvalidRecord: The record is of something else.
    """

    def __init__(self, record: Record, path: Path | None = None) -> None:
        if not is_communication(record):
            raise InvalidRecord("the record is not of a communication benchmark", "what `deep-bench communicate` wrote")
        self.record, self.path = record, path

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a record."""
        return cls(load(Path(path)), Path(path))

    @cached_property
    def rows(self) -> list[Row]:
        """Benchmark by benchmark and size by size, all systems of each together."""
        assert self.record.suite is not None
        return [
            _row(self.record, system, trial, case)
            for case in self.record.suite.cases
            for system in self.record.systems
            for trial in system.trials
            if trial.case == case.label
        ]

    @property
    def ok(self) -> bool:
        """Whether all results were right."""
        return bool(self.rows) and all(row.verdict == "right" for row in self.rows)

    @property
    def hosts(self) -> list[str]:
        """Of each rank."""
        places: Any = self.record.systems[0].facts["ranks"]
        return [place["host"] for place in places]

    @property
    def clocks(self) -> list[Clock]:
        """Of each rank."""
        return _clocks(self.record.systems[0])

    def as_json(self) -> list[dict[str, Any]]:
        """The figures of all rows."""
        return [row.as_json() for row in self.rows]

    def table(self, width: int | None = None) -> str:
        """All rows as a table, and how they were taken."""
        from deep_bench.distributed.collectives.report import as_text

        return as_text(self, width)

    def plot(self, file: str | Path) -> Path:
        """Times over bytes, measured and predicted."""
        from deep_bench.distributed.collectives.plot import draw

        return draw(self, file)

    def __str__(self) -> str:
        return self.table()


def is_communication(record: Record) -> bool:
    """Whether a record is of a communication benchmark."""
    return record.suite is not None and record.suite.name == MARK


def _row(record: Record, system: SystemRecord, trial: TrialRecord, case: CaseFacts) -> Row:
    kind, options, facts = KINDS[case.operator], record.recipe.options, system.facts
    verdict = ("failed", "") if trial.verdict is None else (trial.verdict.verdict, trial.verdict.reason)
    if trial.error is not None:
        verdict = ("failed", trial.error.message)
    link = facts.get("link")
    return Row(
        system=system.label,
        kind=kind,
        size=int(case.attributes["bytes"]),  # type: ignore[arg-type]
        ranks=len(facts["ranks"]),  # type: ignore[arg-type]
        pair=tuple(options["pair"]) if kind.pair else None,  # type: ignore[arg-type]
        verdict=verdict[0],
        reason=verdict[1],
        blocks=_blocks(trial),
        clocks=_clocks(system),
        link=None if link is None else Link.model_validate(link),
    )


def _clocks(system: SystemRecord) -> list[Clock]:
    return [Clock(**clock) for clock in system.facts.get("clocks", [])]  # type: ignore[arg-type,union-attr]


def _blocks(trial: TrialRecord) -> list[RankBlock]:
    """The samples of all ranks together, block by block."""
    sets = {samples.quantity: samples.blocks for samples in trial.samples}
    ranks = range(len(sets) // 2)
    return [
        RankBlock(
            begin=np.stack([b.start_ns + b.ns for b in (sets[begin_name(rank)][number] for rank in ranks)]),
            ns=np.stack([sets[rank_name(rank)][number].ns for rank in ranks]),
            preempted=np.stack([sets[rank_name(rank)][number].preempted for rank in ranks]),
            batch=sets[rank_name(0)][number].batch,
        )
        for number in range(len(sets.get(rank_name(0), ())))
    ]
