"""What a communication benchmark found, computed from its record, and its table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.distributed.collectives.operations import KINDS, BenchmarkKind, algorithm_bandwidth, bus_bandwidth
from deep_bench.distributed.collectives.timing import RankBlock, RankClock, common_origin
from deep_bench.distributed.loggp import PredictedTime, predictions
from deep_bench.distributed.machine import Link
from deep_bench.errors import InvalidRecord
from deep_bench.measure.environment import risks
from deep_bench.measure.statistics import Summary, summarize
from deep_bench.measure.timing import Block
from deep_bench.measure.units import amount, duration, duration_range, in_bytes, share, significant
from deep_bench.records.fields import MOMENTS
from deep_bench.records.model import CaseFacts, Record, SystemRecord, TrialRecord
from deep_bench.records.store import load
from deep_bench.records.table import columns, print_line, print_table

MARK = "communicate"
"""The name of the suite in such a record."""


def case_label(kind: BenchmarkKind, size: int) -> str:
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
class BenchmarkRow:
    """One benchmark of one size over one communicator.

    Args:
        system: The communicator.
        kind: The benchmark.
        size: Bytes, as `deep_bench.distributed.collectives.operations` counts them.
        ranks: How many.
        pair: The ranks of a benchmark of pairs; ``None`` for others.
        verdict: ``"right"``, ``"wrong"`` or ``"failed"``.
        reason: Why.
        blocks: All samples of all ranks.
        clocks: Of all ranks.
        link: What messages cost; ``None`` if that is not known.
    """

    system: str
    kind: BenchmarkKind
    size: int
    ranks: int
    pair: tuple[int, int] | None
    verdict: str
    reason: str
    blocks: Sequence[RankBlock]
    clocks: Sequence[RankClock]
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
    def predicted(self) -> PredictedTime | None:
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


class CommunicationResult:
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
    def load(cls, path: str | Path) -> CommunicationResult:
        """Read a record."""
        return cls(load(Path(path)), Path(path))

    @cached_property
    def rows(self) -> list[BenchmarkRow]:
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
    def clocks(self) -> list[RankClock]:
        """Of each rank."""
        return _recorded_clocks(self.record.systems[0])

    def as_json(self) -> list[dict[str, Any]]:
        """The figures of all rows."""
        return [row.as_json() for row in self.rows]

    def table(self, width: int | None = None) -> str:
        """All rows as a table, and how they were taken."""

        return as_text(self, width)

    def plot(self, file: str | Path) -> Path:
        """Times over bytes, measured and predicted."""
        from deep_bench.distributed.plots import draw_communication

        return draw_communication(self, file)

    def __str__(self) -> str:
        return self.table()


def is_communication(record: Record) -> bool:
    """Whether a record is of a communication benchmark."""
    return record.suite is not None and record.suite.name == MARK


def _row(record: Record, system: SystemRecord, trial: TrialRecord, case: CaseFacts) -> BenchmarkRow:
    kind, options, facts = KINDS[case.operator], record.recipe.options, system.facts
    verdict = ("failed", "") if trial.verdict is None else (trial.verdict.verdict, trial.verdict.reason)
    if trial.error is not None:
        verdict = ("failed", trial.error.message)
    link = facts.get("link")
    return BenchmarkRow(
        system=system.label,
        kind=kind,
        size=int(case.attributes["bytes"]),  # type: ignore[arg-type]
        ranks=len(facts["ranks"]),  # type: ignore[arg-type]
        pair=tuple(options["pair"]) if kind.pair else None,  # type: ignore[arg-type]
        verdict=verdict[0],
        reason=verdict[1],
        blocks=_blocks(trial),
        clocks=_recorded_clocks(system),
        link=None if link is None else Link.model_validate(link),
    )


def _recorded_clocks(system: SystemRecord) -> list[RankClock]:
    return [RankClock(**clock) for clock in system.facts.get("clocks", [])]  # type: ignore[arg-type,union-attr]


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


def as_text(result: CommunicationResult, width: int | None = None) -> str:
    """A table for each operation, and below them what they do not say.

    Args:
        result: What was found.
        width: Characters in a line; those of the terminal by default.
    """
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), highlight=False, color_system=None)
    for kind in dict.fromkeys(row.kind.name for row in result.rows):
        print_table(console, _table(result, [row for row in result.rows if row.kind.name == kind]), keys=3)
    for line in lines_below(result):
        print_line(console, line)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _table(result: CommunicationResult, rows: list[BenchmarkRow]) -> Table:
    """One operation: only the columns that mean something for it."""
    kind, hosts = rows[0].kind, result.hosts
    where = f"host {hosts[0]}" if len(set(hosts)) == 1 else f"{len(set(hosts))} hosts"
    of = f" of {result.record.recipe.options['dtype']}" if kind.sized else ""
    table = Table(title=f"{kind.name}{of} among {len(hosts)} ranks on {where}")
    cells = [_cells(row) for row in rows]
    for name in cells[0]:
        table.add_column(name, justify="left" if name in ("over", "result", "by") else "right")
    for row in cells:
        table.add_row(*map(Text, row.values()))
    return table


def _cells(row: BenchmarkRow) -> dict[str, str]:
    """Column to what is in it."""
    s, predicted, means = row.summary, row.predicted, row.rank_means
    interval = "–" if s is None else "too few samples"
    if s is not None and s.interval is not None:
        interval = duration_range(s.interval.low / 1e9, s.interval.high / 1e9)
    ranks = [None] * 3 if means is None else [float(v) for v in (means.mean(), means.min(), means.max())]
    return {
        **({"bytes": in_bytes(row.size, digits=None)} if row.kind.sized else {}),
        "over": row.system,
        "result": row.verdict,
        "time": duration(row.seconds),
        "95 % interval": interval,
        "predicted": duration(None if predicted is None else predicted.seconds),
        "by": "–" if predicted is None else predicted.algorithm,
        **({} if row.pair else dict(zip(("average", "least", "most"), map(duration, ranks), strict=True))),
        **_bandwidths(row),
    }


def _bandwidths(row: BenchmarkRow) -> dict[str, str]:
    """One for pairs, where both are the same, and none where nothing is moved."""
    if not row.kind.sized:
        return {}
    rate = _rate(row.algorithm_bandwidth)
    return {"bandwidth": rate} if row.pair else {"algorithm": rate, "bus": _rate(row.bus_bandwidth)}


def _named(row: BenchmarkRow) -> str:
    return f"{row.kind.name}{f' {in_bytes(row.size, digits=None)}' if row.kind.sized else ''} over {row.system}"


def _rate(value: float | None) -> str:
    return "–" if value is None else amount(value, "B/s", digits=3)


def lines_below(result: CommunicationResult) -> list[str]:
    """How the figures were taken, what is wrong or missing, and where the record is."""
    rows, record = result.rows, result.record
    lines = []
    if any(row.pair is None for row in rows):
        lines.append(
            "time: a barrier, then the operation, on every rank; the maximum over the ranks of each repetition, and the "
            "median of these; average, least, most: of each rank's mean time, as OSU reports them"
        )
    pair = next((row.pair for row in rows if row.pair), None)
    if pair:
        lines.append(
            f"latency: half of a round trip between ranks {pair[0]} and {pair[1]}, by the clock of rank {pair[0]}; "
            "bandwidth: a window of 64 messages until its answer is there"
        )
    if any(row.bus_bandwidth and not row.pair for row in rows):
        lines.append("algorithm and bus: bandwidths as nccl-tests defines them")
    if any(row.predicted for row in rows):
        lines.append(
            "predicted: the cheapest known algorithm under LogGP, fitted to single messages; the library may take another"
        )
        lines += _machine_lines(result)
    lines += _clock_lines(result)
    lines += [f"{_named(row)}: {row.verdict}: {row.reason}".replace("\n", "; ") for row in rows if row.verdict != "right"]
    lines += _unsteadiness_lines(rows) + list(record.notes)
    lines += _crowding_lines(result)
    lines += [str(risk) for risk in risks(record.environment, record.steal) if risk.name in ("load", "steal")]
    if result.path is not None:
        lines.append(f"record: {result.path}")
    return lines


def _machine_lines(result: CommunicationResult) -> list[str]:
    links = {row.system: row.link for row in result.rows if row.link is not None}
    lines = []
    for system, link in links.items():
        parts: list[str] = []
        for segment in link.segments:
            p = segment.parameters
            to = f"up to {in_bytes(segment.up_to)}" if segment.up_to is not None else "larger" if parts else "all sizes"
            rate = f", G {_rate(1 / p.G)}" if p.G else ""
            parts.append(f"{to}: L {duration(p.L)}, o {duration(p.o)}, g {duration(p.g)}{rate}")
        lines.append(
            f"messages over {system} on {link.between}: {'; '.join(parts)} (fit within {share(link.residual)} on average, "
            f"{share(link.worst)} at most)"
        )
        lines += [f"messages over {system}: {note}" for note in link.notes]
    return lines


def _clock_lines(result: CommunicationResult) -> list[str]:
    clocks = result.clocks[1:]
    if not clocks:
        return []
    spreads = [row.spread for row in result.rows if row.spread is not None]
    begun = f"; ranks began within {duration(max(spreads))} of each other (the largest median)" if spreads else ""
    return [
        f"clocks: compared by the shortest of 50 round trips, several times; they drift by at most "
        f"{significant(max(abs(c.drift) for c in clocks) * 1e6)} µs a second, and a skew of at most "
        f"{duration(max(c.skew for c in clocks) / 1e9)} remains{begun}"
    ]


def _crowding_lines(result: CommunicationResult) -> list[str]:
    """Ranks that take turns on a CPU: then no formula holds."""
    hosts, cpus = result.hosts, len(result.record.environment.cpus_allowed or ())
    ranks = hosts.count(hosts[0])
    if not cpus or ranks <= cpus:
        return []
    return [f"{ranks} ranks share {cpus} CPUs of {hosts[0]}: they wait for each other, which no prediction knows of"]


def _unsteadiness_lines(rows: list[BenchmarkRow]) -> list[str]:
    """Times that one median does not tell well."""
    lines = []
    few = [row for row in rows if row.summary is not None and row.summary.interval is None]
    split = [row for row in rows if row.summary is not None and len(row.summary.modes) > 1]
    preempted = [row for row in rows if row.summary is not None and row.summary.preempted >= 0.01]
    for symptom, affected in (("too few samples for an interval", few), ("several modes", split),
                        ("the kernel took a CPU away in 1 % of the samples or more", preempted)):  # fmt: skip
        if affected:
            names = [_named(row) for row in affected[:4]]
            suffix = f" and {len(affected) - 4} more" if len(affected) > 4 else ""
            lines.append(f"{symptom}: {', '.join(names)}{suffix}")
    return lines
