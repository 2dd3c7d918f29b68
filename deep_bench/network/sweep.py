"""A latency-throughput curve: the same run for several sizes of one dimension."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.errors import InvalidArgument, NotKept
from deep_bench.measure.tables import columns, print_table
from deep_bench.measure.units import duration, duration_range, significant
from deep_bench.network.result import Result, SystemResult
from deep_bench.network.run import run


@dataclass(frozen=True)
class SweepResult:
    """Results by size.

    Args:
        dimension: What was varied: ``batch``, or the name of an open dimension.
        results: Size to result.
        plot: The picture's file, if one was drawn.
        remark: Why there is none, if there is none.
        left: Sizes that were not measured, since the sweep was interrupted, or no record could be written.
    """

    dimension: str
    results: Mapping[int, Result]
    plot: Path | None = None
    remark: str = ""
    left: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed or was wrong at any size."""
        return all(r.ok for r in self.results.values())

    @property
    def interrupted(self) -> bool:
        """Whether it was ended early."""
        return any(r.interrupted for r in self.results.values())

    @property
    def failures(self) -> list[SystemResult]:
        """The systems that failed, at any size."""
        return [s for r in self.results.values() for s in r.failures]

    def rows(self) -> list[tuple[str, ...]]:
        """System, size, verdict, median with interval, and items (sizes of the dimension) a second."""
        return [
            (label, str(size), system.verdict, _latency(system), _throughput(system, size))
            for label in self.labels
            for size, result in self.results.items()
            for system in [result[label]]
        ]

    @property
    def labels(self) -> list[str]:
        """The systems."""
        return list(next(iter(self.results.values())))

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of `rows`."""
        return ("system", self.dimension, "verdict", "median (95 % interval)", "items a second")

    def table(self) -> str:
        """The curve as text."""
        out = io.StringIO()
        table = Table(*self.columns)
        for row in self.rows():
            table.add_row(*map(Text, row))
        console = Console(file=out, width=columns(), highlight=False)
        print_table(console, table)
        if self.plot is not None or self.remark:
            console.print(Text(f"plot: {self.plot}" if self.plot is not None else self.remark))
        if self.interrupted or self.left:
            message = f"not measured: {', '.join(map(str, self.left)) or 'none'}"
            console.print(Text(f"interrupted; {message}" if self.interrupted else message))
        for size, result in self.results.items():
            if result.path is not None:
                console.print(Text(f"record for {self.dimension}={size}: {result.path}"))
        return out.getvalue().rstrip("\n")

    def as_json(self) -> dict[str, Any]:
        """The derived figures of every size in plain JSON types."""
        return {
            "dimension": self.dimension,
            "sizes": {str(size): result.as_json() for size, result in self.results.items()},
            "plot": None if self.plot is None else str(self.plot),
        }

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in self.rows())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def run_sweep(network: Any, dimension: str, values: Sequence[int], **options: Any) -> SweepResult:
    """`run` once for each size; the budget holds for each.

    Args:
        network: As in `run`.
        dimension: ``"batch"`` for the open first dimensions, or the name of an open dimension.
        values: Its sizes.
        options: As in `run`. With ``output``, a plot is written there if matplotlib is installed.

    Raises:
        InvalidArgument: No size, or one twice; or inputs are given, which have their sizes already.
        NotKept: A record or the picture could not be written; ``found`` of the error is what was measured until then.
    """
    if not values or len(set(values)) < len(values):
        raise InvalidArgument(f"sizes {list(values)} for {dimension}", "each size once, at least one")
    if options.get("inputs") is not None:
        raise InvalidArgument("a sweep with given inputs", "drawn inputs", "leave --input or --sweep out")
    results: dict[int, Result] = {}
    for value in values:
        try:
            results[value] = run(network, **_with_size(options, dimension, value))
        except NotKept as error:
            results[value] = error.found
            raise _not_kept(error, _so_far(dimension, results, values)) from error
        if results[value].interrupted:
            break
    sweep, output = _so_far(dimension, results, values), options.get("output")
    return sweep if output is None or sweep.interrupted else _drawn(sweep, Path(output))


def _so_far(dimension: str, results: Mapping[int, Result], values: Sequence[int]) -> SweepResult:
    return SweepResult(dimension, results, left=tuple(value for value in values if value not in results))


def _not_kept(failure: InvalidArgument, sweep: SweepResult) -> NotKept:
    return NotKept(failure.came, failure.expected, found=sweep)


def _with_size(options: Mapping[str, Any], dimension: str, value: int) -> dict[str, Any]:
    if dimension == "batch":
        return {**options, "batch": value}
    return {**options, "sizes": {**(options.get("sizes") or {}), dimension: value}}


def _drawn(sweep: SweepResult, folder: Path) -> SweepResult:
    try:
        from deep_bench.network.plot import plot_sweep
    except ImportError:
        remark = "no plot: matplotlib is not installed (pip install 'deep-bench[report]')"
        return replace(sweep, remark=remark)
    first = next(iter(sweep.results.values()))
    stem = first.path.stem if first.path is not None else "sweep"
    try:
        return replace(sweep, plot=plot_sweep(sweep, folder / f"{stem}.sweep.png"))
    except InvalidArgument as error:
        raise _not_kept(error, sweep) from error


def _latency(system: SystemResult) -> str:
    if system.median is None:
        return "–"
    interval = system.interval
    return duration(system.median) + (f" ({duration_range(interval.low, interval.high)})" if interval is not None else "")


def _throughput(system: SystemResult, size: int) -> str:
    return "–" if system.median is None else significant(size / system.median, 4)
