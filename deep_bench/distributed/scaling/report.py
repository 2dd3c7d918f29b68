"""A prediction as tables and sentences; the word *predicted* is on each."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from deep_bench.distributed.scaling.assumptions import SHARED
from deep_bench.distributed.scaling.record import ScalingRecord
from deep_bench.distributed.scaling.result import apart, where_it_stops
from deep_bench.distributed.scaling.rows import Rows, beside, steps
from deep_bench.measure.risks import risks
from deep_bench.measure.tables import columns, print_line, print_note, print_table
from deep_bench.measure.units import duration, in_bytes, significant

_KINDS = 12
"""Rows of calls for each number of ranks at most."""


def as_text(record: ScalingRecord, width: int | None = None) -> str:
    """Tables, and below them what they rest on.

    Args:
        record: What was predicted.
        width: Characters in a line; those of the terminal by default.
    """
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), highlight=False, color_system=None)
    print_table(console, _table(steps(record)))
    print_table(console, _calls(record), keys=2)
    if record.measured:
        print_table(console, _table(beside(record)))
        print_table(console, _messages(record), keys=2)
    for line in [*where_it_stops(record), *_below(record)]:
        print_line(console, line)
    print_line(console, "assumptions:")
    for line in record.assumptions:
        print_note(console, f"- {line}")
    for line in record.notes:
        print_note(console, line)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _table(rows: Rows) -> Table:
    table = Table(title=rows.title)
    for name in rows.columns:
        table.add_column(name, justify="right")
    for row in rows.cells:
        table.add_row(*row)
    return table


def _calls(record: ScalingRecord) -> Table:
    """The calls of the fewest and the most ranks."""
    table = Table(title="predicted cost of each call in a step, by closed LogGP formulas")
    table.add_column("ranks", justify="right")
    for name in ("call", "algorithm"):
        table.add_column(name)
    for name in ("time", "of it hidden by gradients"):
        table.add_column(name, justify="right")
    for point in dict.fromkeys((0, len(record.points) - 1)):
        entry = record.points[point]
        for cost in entry.costs[:_KINDS]:
            table.add_row(str(entry.ranks), cost.what, cost.algorithm, duration(cost.seconds), duration(cost.hidden))
    return table


def _messages(record: ScalingRecord) -> Table:
    table = Table(title="predicted against measured: what rank 0 hands over in a step")
    table.add_column("ranks", justify="right")
    table.add_column("operation")
    for name in ("calls, measured", "calls, predicted", "bytes, measured", "bytes, predicted"):
        table.add_column(name, justify="right")
    for measurement in record.measured:
        for name, (calls, expected) in measurement.calls.items():
            sent, expected_bytes = measurement.payload[name]
            table.add_row(
                str(measurement.ranks), name, f"{calls:.2f}", f"{expected:.2f}", in_bytes(sent), in_bytes(expected_bytes)
            )
    return table


def _below(record: ScalingRecord) -> list[str]:
    lines = [f"messages, found in traces of {_numbers(record.fitted)} ranks and checked with {_numbers(record.checked)}:"]
    lines += [f"  {line}" for line in record.pattern]
    lines.append(f"machine: {record.machine}")
    lines.append(f"simulator: {record.simulator}")
    if ratios := apart(record):
        lines.append(
            f"the two predictions: messages that nothing hides take {significant(min(ratios))} to "
            f"{significant(max(ratios))} times as long by SimGrid as by the formulas, over the ranks that both have"
        )
    if any(point.beyond for point in record.points):
        lines.append("*: more ranks than measured steps; see the assumptions")
    lines += [f"measured on {measurement.ranks} ranks: {measurement.file}" for measurement in record.measured]
    lines += [str(risk) for risk in risks(record.environment, None) if risk.name == "load"]
    if any(measurement.hosts == 1 for measurement in record.measured):
        lines.append(f"measured on one machine: {SHARED}")
    return lines


def _numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
