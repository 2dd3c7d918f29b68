"""A prediction as tables and sentences; the word *predicted* is on each."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from deep_bench.distributed.scaling.assumptions import SHARED
from deep_bench.distributed.scaling.record import MeasuredRecord, PointRecord, ScalingRecord
from deep_bench.distributed.scaling.result import apart, efficiency, in_bytes, speed_up, where_it_stops
from deep_bench.measure.risks import risks
from deep_bench.measure.tables import columns, print_line, print_note, print_table
from deep_bench.measure.units import duration, duration_range, share, significant

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
    print_table(console, _steps(record))
    print_table(console, _calls(record), keys=2)
    if record.measured:
        print_table(console, _measured(record))
        print_table(console, _messages(record), keys=2)
    for line in [*where_it_stops(record), *_below(record)]:
        print_line(console, line)
    print_line(console, "assumptions:")
    for line in record.assumptions:
        print_note(console, f"- {line}")
    for line in record.notes:
        print_note(console, line)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _steps(record: ScalingRecord) -> Table:
    batch = f"a batch of {record.whole_batch} {'together' if record.scaling == 'strong' else 'on each rank'}"
    table = Table(
        title=f"predicted, not measured: {record.title} with {record.scheme} on {record.framework}; {record.scaling} "
        f"scaling, {batch}; one rank alone takes {duration(record.alone)} a step (measured)"
    )
    for name in ("ranks", "samples", "step, predicted", "95 % interval", "90 % of steps", "computing", "messages",
                 "speed-up", "efficiency", "a rank sends", "SimGrid, predicted", "its messages"):  # fmt: skip
        table.add_column(name, justify="right")
    for point in record.points:
        table.add_row(*_cells(record, point))
    return table


def _cells(record: ScalingRecord, point: PointRecord) -> list[str]:
    least, most = (in_bytes(sent) for sent in (point.sent_least, point.sent_most))
    return [
        f"{point.ranks}{'*' if point.beyond else ''}",
        f"{point.batch}{' or fewer' if point.uneven else ''}",
        duration(point.mean),
        duration_range(point.low, point.high),
        duration_range(point.least, point.most),
        duration(point.computing),
        duration(point.communicating),
        significant(speed_up(record, point)),
        share(efficiency(record, point)),
        most if least == most else f"{least} to {most}",
        duration(point.replayed),
        duration(None if point.replayed is None else max(point.replayed - point.computing, 0.0)),
    ]


def _calls(record: ScalingRecord) -> Table:
    """The calls of the fewest and the most ranks."""
    table = Table(title="predicted cost of each call in a step, by closed LogGP formulas")
    table.add_column("ranks", justify="right")
    for name in ("call", "algorithm"):
        table.add_column(name)
    for name in ("time", "of it hidden by gradients"):
        table.add_column(name, justify="right")
    for point in dict.fromkeys((0, len(record.points) - 1)):
        found = record.points[point]
        for one in found.costs[:_KINDS]:
            table.add_row(str(found.ranks), one.what, one.algorithm, duration(one.seconds), duration(one.hidden))
    return table


def _measured(record: ScalingRecord) -> Table:
    table = Table(
        title="predicted against measured: a step on as many ranks; computing: of the slowest rank, without messages; the "
        "last two are predicted from the computing of the measured run itself"
    )
    for name in ("ranks", "samples", "measured, mean", "90 % of steps", "computing", "formulas, predicted", "off",
                 "computing, predicted", "SimGrid, predicted", "off ", "from its own computing", "off  "):  # fmt: skip
        table.add_column(name, justify="right")
    for one in record.measured:
        table.add_row(
            str(one.ranks), str(one.batch), duration(one.mean), duration_range(one.least, one.most), duration(one.computing),
            duration(one.predicted), _off(one.predicted, one), duration(one.predicted_computing), duration(one.replayed),
            _off(one.replayed, one), duration(one.predicted_own), _off(one.predicted_own, one),
        )  # fmt: skip
    return table


def _off(predicted: float | None, one: MeasuredRecord) -> str:
    return "–" if predicted is None else f"{100 * (predicted / one.mean - 1):+.1f} %"


def _messages(record: ScalingRecord) -> Table:
    table = Table(title="predicted against measured: what rank 0 hands over in a step")
    table.add_column("ranks", justify="right")
    table.add_column("operation")
    for name in ("calls, measured", "calls, predicted", "bytes, measured", "bytes, predicted"):
        table.add_column(name, justify="right")
    for one in record.measured:
        for name, (calls, expected) in one.calls.items():
            sent, wanted = one.payload[name]
            table.add_row(str(one.ranks), name, f"{calls:.2f}", f"{expected:.2f}", in_bytes(sent), in_bytes(wanted))
    return table


def _below(record: ScalingRecord) -> list[str]:
    found = [f"messages, found in traces of {_numbers(record.fitted)} ranks and checked with {_numbers(record.checked)}:"]
    found += [f"  {line}" for line in record.pattern]
    found.append(f"machine: {record.machine}")
    found.append(f"simulator: {record.simulator}")
    if ratios := apart(record):
        found.append(
            f"the two predictions: messages that nothing hides take {significant(min(ratios))} to "
            f"{significant(max(ratios))} times as long by SimGrid as by the formulas, over the ranks that both have"
        )
    if any(point.beyond for point in record.points):
        found.append("*: more ranks than measured steps; see the assumptions")
    found += [f"measured on {one.ranks} ranks: {one.file}" for one in record.measured]
    found += [str(risk) for risk in risks(record.environment, None) if risk.name == "load"]
    if any(one.hosts == 1 for one in record.measured):
        found.append(f"measured on one machine: {SHARED}")
    return found


def _numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
