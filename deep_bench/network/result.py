"""What a run found, as typed objects, as a table in a terminal, in a notebook, and as JSON; all of it "
"computed from the record."""

from __future__ import annotations

import html
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.errors import UnknownName
from deep_bench.fault import Exposure, remarks
from deep_bench.measure.compare import BY_WALL, Estimate, ratio, twins_line
from deep_bench.measure.rules import check, kept_line
from deep_bench.measure.statistics import Interval, Summary, interval_over, median_over, select, summarize, without_interval
from deep_bench.measure.timing import Block
from deep_bench.measure.units import duration, duration_range, share, significant
from deep_bench.network.system import NATIVE, NUMPY
from deep_bench.records import store
from deep_bench.records.model import Record, SystemRecord

RIGHT_ENOUGH = frozenset({"right", "no information", "cannot tell"})
"""Verdicts that do not make a run fail: nothing was found wrong."""


@dataclass(frozen=True)
class SystemResult:
    """What was found of one system. Times are in seconds.

    Args:
        record: What was kept of it.
    """

    record: SystemRecord

    @property
    def label(self) -> str:
        """How it was asked for: the framework with its options."""
        return self.record.label

    @property
    def verdict(self) -> str:
        """*right*, *reduced precision*, *wrong*, *cannot tell* or *no information*; *unchecked*; or *failed*."""
        if self.record.error is not None:
            return "failed"
        return self.record.verdict.verdict if self.record.verdict is not None else "unchecked"

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.record.error is not None:
            return self.record.error.message
        return self.record.verdict.reason if self.record.verdict is not None else ""

    @property
    def significant_bits(self) -> float | None:
        """The precision that explains the error seen, in bits; ``None`` if it was not checked."""
        return self.record.verdict.significant_bits if self.record.verdict is not None else None

    @property
    def max_error(self) -> float | None:
        """The largest absolute error of any output element."""
        return self.record.verdict.max_abs_error if self.record.verdict is not None else None

    @property
    def findings(self) -> list[str]:
        """What is worth knowing and is no failure."""
        return self.record.verdict.findings if self.record.verdict is not None else []

    @property
    def exposures(self) -> list[Exposure]:
        """The known faults of the framework that nodes of the network may meet."""
        return [Exposure(f.name, f.severity, f.reason, tuple(f.nodes)) for f in self.record.known_faults]

    def launches(self, quantity: str = NATIVE) -> list[list[Block]]:
        """The raw samples, launch by launch, block by block."""
        return self.record.launches(quantity)

    @cached_property
    def _native(self) -> list[Summary]:
        return [summarize(blocks) for blocks in self.launches(NATIVE)]

    @property
    def summary(self) -> Summary | None:
        """All statistics of the call on native arrays, in nanoseconds; of the first launch where there are several."""
        return self._native[0] if self._native else None

    @property
    def median(self) -> float | None:
        """The median of the call on native arrays; the median over launches where there are several."""
        return median_over(self._native)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of `median` in seconds, and over what it was taken."""
        return interval_over(self._native)

    @cached_property
    def numpy_median(self) -> float | None:
        """The median of the call from and to NumPy arrays."""
        return median_over([summarize(blocks) for blocks in self.launches(NUMPY)])

    @property
    def p99(self) -> float | None:
        """The 99th percentile of the call on native arrays; ``None`` if there are too few samples to tell."""
        percentile = self.summary.percentiles["p99"] if self.summary is not None else None
        return None if percentile is None else percentile.value / 1e9


class Result(Mapping[str, SystemResult]):
    """What a run found: label to system. Printing it shows the table.

    Args:
        record: The run's record.
        path: The record's file, if it was written.

    Example:
        >>> import deep_bench as db
        >>> result = db.run("digits-cnn", on=["reference"], budget=0.5, twin=False, progress=False)
        >>> result["reference"].verdict
        'right'
    """

    def __init__(self, record: Record, path: Path | None = None) -> None:
        self.record = record
        self.path = path
        self._systems = {s.label: SystemResult(s) for s in record.systems}

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a record's file.

        Raises:
            InvalidRecord: It is none.
        """
        return cls(store.load(Path(path)), Path(path))

    def __getitem__(self, label: str) -> SystemResult:
        if label not in self._systems:
            raise UnknownName("system of this run", label, self._systems)
        return self._systems[label]

    def __iter__(self) -> Iterator[str]:
        return iter(s.label for s in self.record.systems if s.twin_of is None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def ok(self) -> bool:
        """Whether no system failed and no result was found wrong."""
        return all(s.verdict in RIGHT_ENOUGH or s.verdict == "unchecked" for s in self.values())

    @property
    def interrupted(self) -> bool:
        """Whether the run was ended early."""
        return self.record.interrupted

    @property
    def failures(self) -> list[SystemResult]:
        """The systems that failed."""
        return [s for s in self.values() if s.record.error is not None]

    @cached_property
    def fastest(self) -> SystemResult | None:
        """The system with the least median."""
        timed = [s for s in self.values() if s.median is not None]
        return min(timed, key=lambda s: s.median or 0.0) if timed else None

    def ratio(self, label: str, base: str | None = None) -> Estimate | None:
        """The time of one system over that of another (by default the fastest), with its interval."""
        against = self[base] if base is not None else self.fastest
        if against is None or not self[label].launches() or not against.launches():
            return None
        return ratio(self[label].launches(), against.launches())

    @cached_property
    def twins(self) -> Estimate | None:
        """One system against itself, measured twice in this run: the differences that mean nothing."""
        for system in self._systems.values():
            twin_of = system.record.twin_of
            if twin_of is not None and system.launches() and self[twin_of].launches():
                return ratio(system.launches(), self[twin_of].launches())
        return None

    def table(self, width: int | None = None) -> str:
        """The table as text.

        Args:
            width: Columns of text; by default those of the terminal, or 160 where there is none.
        """

        return as_text(self, width)

    def as_json(self) -> dict[str, Any]:
        """The derived figures as plain JSON types; raw samples are in the record."""

        return as_json(self)

    def save(self, folder: str | Path) -> Path:
        """Write the record to a folder, which is made if it is not there, and return its file.

        Raises:
            InvalidArgument: The folder cannot be made or written.
        """
        from deep_bench.records.folders import output_folder

        self.path = store.save(self.record, output_folder(folder))
        return self.path

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:

        return as_html(self)


_WIDTH = 160
_NARROW = 100
_COLUMNS = (
    "system",
    "device, threads",
    "nodes n/d/f",
    "verdict",
    "bits",
    "max error",
    "median (95 % interval)",
    "p99",
    "from NumPy",
    "ratio (95 % interval)",
)
_VERDICT = _COLUMNS.index("verdict")
_STYLES = {"right": "green", "wrong": "bold red", "failed": "bold red", "reduced precision": "yellow"}


def as_text(result: Result, width: int | None = None) -> str:
    """The table, and under it what else is worth knowing, as plain text or with a terminal's colours."""
    out = io.StringIO()
    terminal = sys.stdout.isatty()
    columns = width or (os.get_terminal_size().columns if terminal else _WIDTH)
    console = Console(file=out, width=columns, force_terminal=terminal, highlight=False)
    if columns < _NARROW:
        console.print(Text(_title(result)))
        for system in result.values():
            for name, cell in zip(_COLUMNS, _cells(result, system), strict=True):
                console.print(Text(f"{name}: {' '.join(cell.split())}"))
            console.print()
    else:
        console.print(_table(result))
    for line in lines_below(result):
        console.print(Text(line))
    return out.getvalue().rstrip("\n")


def _table(result: Result) -> Table:
    table = Table(title=Text(_title(result)), title_justify="left", pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, overflow="fold")
    for system in result.values():
        cells = [Text(cell) for cell in _cells(result, system)]
        cells[_VERDICT].stylize(_STYLES.get(system.verdict, ""))
        table.add_row(*cells)
    return table


def as_html(result: Result) -> str:
    """The same for a notebook; every text in it is escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in _COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(result, system)) + "</tr>"
        for system in result.values()
    )
    below = "".join(f"<p>{html.escape(line)}</p>" for line in lines_below(result))
    return f"<p>{html.escape(_title(result))}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"


def as_json(result: Result) -> dict[str, Any]:
    """The derived figures in plain JSON types; times in seconds."""
    twins = result.twins
    return {
        "record": str(result.path) if result.path is not None else None,
        "network": result.record.network.model_dump() if result.record.network is not None else None,
        "interrupted": result.record.interrupted,
        "ok": result.ok,
        "systems": {system.label: _system_json(result, system) for system in result.values()},
        "twins": None if twins is None else {"ratio": twins.value, "interval": twins.interval, "word": twins.word},
        "notes": list(lines_below(result)),
    }


def lines_below(result: Result) -> list[str]:
    """What is said under the table: reasons, findings, errors, the A/A pair, notes, and where the record lies."""
    lines = []
    for system in result.values():
        if system.verdict not in ("right", "unchecked"):
            reason = system.reason.removeprefix(f"{system.label}: ")
            lines.append(f"{system.label}: {system.verdict}: {reason}")
        lines += [f"{system.label}: {finding}" for finding in system.findings]
        lines += [f"{system.label}: {remark}" for remark in remarks(system.exposures)]
        lines += [f"{system.label}: {remark}" for remark in _remarks(system)]
    lines += _without_interval(result)
    if result.twins is not None:
        twin_of = next(s.twin_of for s in result.record.systems if s.twin_of is not None)
        lines.append(twins_line(result.twins, twin_of))
    launches = {sample.launch for system in result.record.systems for sample in system.samples}
    if len(launches) > 1:
        lines.append(f"{len(launches)} launches: medians, intervals and ratios are over the medians of fresh processes")
    lines += result.record.notes
    if any(sample.blocks for system in result.record.systems for sample in system.samples):
        lines.append(kept_line(result.record))
    if result.record.in_process:
        lines.append("measured in one process: the systems could disturb each other")
    if result.record.interrupted:
        lines.append("interrupted: the figures are of what was measured until then")
    elif not result.record.complete:
        lines.append("this run did not finish: the figures are of what was measured until then")
    if result.path is not None:
        lines.append(f"record: {result.path}")
    return lines


def _title(result: Result) -> str:
    network = result.record.network
    if network is None:
        return "deep_bench"
    sizes = ", ".join(f"{name}={size}" for name, size in network.sizes.items())
    data = result.record.data.source if result.record.data is not None else "unknown"
    return f"{network.name}{f' ({sizes})' if sizes else ''} · inputs: {data}"


def _cells(result: Result, system: SystemResult) -> list[str]:
    facts, forms = system.record.facts, system.record.forms
    error, bits = system.max_error, system.significant_bits
    return [
        f"{system.label}\n{facts['version']}" if "version" in facts else system.label,
        ", ".join(str(facts[name]) for name in ("device", "threads") if name in facts) or "–",
        "–" if forms is None else f"{len(forms.native)}/{len(forms.decomposed)}/{len(forms.fallback)}",
        system.verdict,
        "–" if bits is None else f"{bits:.1f}",
        "–" if error is None else f"{error:.1e}",
        _median(system),
        _p99(system),
        duration(system.numpy_median),
        _ratio(result, system),
    ]


def _ratio(result: Result, system: SystemResult) -> str:
    if system.median is None:
        return "–"
    if result.fastest is not None and system.label == result.fastest.label:
        return "1 (base)"
    compared = result.ratio(system.label)
    if compared is None:
        return "–"
    ends = compared.interval
    limits = f"too few {compared.basis}" if ends is None else f"{significant(ends[0])} to {significant(ends[1])}"
    return f"{significant(compared.value)} ({limits})"


def _median(system: SystemResult) -> str:
    if system.median is None:
        return "–"
    bounds = system.interval
    interval = "too few samples" if bounds is None else duration_range(bounds.low, bounds.high)
    return f"{duration(system.median)} ({interval})"


def _p99(system: SystemResult) -> str:
    if system.median is None:
        return "–"
    return "too few" if system.p99 is None else duration(system.p99)


def _remarks(system: SystemResult) -> list[str]:
    """What of the samples a reader must know to trust the median."""
    summary = system.summary
    if summary is None:
        return []
    remarks = []
    if summary.selection != "all samples":
        moved = f" (of all: {duration(summary.median_of_all / 1e9)})"
        remarks.append(
            f"{share(summary.preempted)} of the samples were preempted; the median is of {summary.selection}{moved}"
        )
    elif summary.preempted > 0.5:
        remarks.append(
            f"{share(summary.preempted)} of the samples were preempted, by others or by its own threads; all count"
        )
    if abs(summary.drift) > 0.02:
        remarks.append(f"drifted by {share(summary.drift)} during the run")
    if len(summary.modes) > 1:
        remarks.append(f"times cluster at {', '.join(duration(m / 1e9) for m in summary.modes)}")
    unsteady = [s for s in system.record.samples if s.warm_up is not None and s.warm_up.steady is False]
    if unsteady:
        remarks.append(f"never became steady: {unsteady[0].warm_up.reason if unsteady[0].warm_up else ''}")
    return remarks


def _without_interval(result: Result) -> list[str]:
    """Why medians and ratios have no interval, and what to do."""
    lines = []
    for system in result.values():
        if system.median is not None and system.interval is None:
            reason = without_interval([select(blocks)[0] for blocks in system.launches()])
            lines.append(f"{system.label}: no interval of the median: {reason}")
    timed = [label for label in result if result.fastest is not None and label != result.fastest.label]
    ratios = {label: compared for label in timed if (compared := result.ratio(label)) is not None}
    for label, compared in ratios.items():
        lines += [f"{label}: {BY_WALL}"] if compared.by_wall else []
        lines += [f"{label}: no interval of the ratio: {compared.why}"] if compared.why else []
    return lines


def rules_table(result: Result) -> str:
    """All twelve rules, whether the report keeps each, and why."""
    out = io.StringIO()
    table = Table("", "rule", "", "why")
    for c in check(result.record):
        table.add_row(str(c.number), Text(c.rule), c.state, Text(c.reason))
    Console(file=out, width=_WIDTH, highlight=False).print(table)
    return out.getvalue().rstrip("\n")


def _system_json(result: Result, system: SystemResult) -> dict[str, Any]:
    interval, compared, forms = system.interval, result.ratio(system.label), system.record.forms
    return {
        "framework": system.record.framework,
        "options": system.record.options,
        "facts": system.record.facts,
        "nodes": None
        if forms is None
        else {"native": len(forms.native), "decomposed": len(forms.decomposed), "fallback": len(forms.fallback)},
        "verdict": system.verdict,
        "reason": system.reason,
        "significant_bits": system.significant_bits,
        "max_error": system.max_error,
        "findings": system.findings,
        "known_faults": [fault.model_dump() for fault in system.record.known_faults],
        "median": system.median,
        "interval": None if interval is None else [interval.low, interval.high],
        "interval_basis": None if interval is None else interval.basis,
        "p99": system.p99,
        "numpy_median": system.numpy_median,
        "ratio": None if compared is None else compared.value,
        "ratio_interval": None if compared is None else compared.interval,
        "stopped_because": _stops(system.record.samples),
    }


def _stops(samples: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(s.stopped_because for s in samples if s.stopped_because is not None))
