"""A prediction as tables and sentences, with all that it takes for granted; the word *predicted* is on each."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from deep_bench.distributed.machine import Link
from deep_bench.distributed.scaling.pattern import Pattern
from deep_bench.distributed.scaling.record import (
    MeasuredRecord,
    RanksPointRecord,
    ScalingRecord,
    efficiency,
    relative_deviation,
    speed_up,
    where_it_stops,
)
from deep_bench.distributed.scaling.trace import TracedScheme
from deep_bench.measure.environment import risks
from deep_bench.measure.units import duration, duration_range, in_bytes, share, significant
from deep_bench.records.table import columns, print_line, print_note, print_table

SHARED = (
    "ranks that share the memory of one machine validate the pattern of messages, and not a network: they compete for its "
    "cores and caches, and no message crosses a wire"
)


def assumptions(
    record: ScalingRecord, link: Link, pattern: Pattern, scheme: TracedScheme, algorithms: Mapping[str, str]
) -> list[str]:
    """All of them, for what was predicted."""
    fitted, checked = (", ".join(map(str, numbers)) for numbers in (record.fitted, record.checked))
    statements = [
        f"messages: the pattern of {fitted} local ranks, which {checked} ranks were found to have too, holds for any "
        "number; the steps that were traced repeat themselves, and messages do not depend on how many samples a rank has",
        *_computing_assumptions(record),
        "a step: all ranks wait for the slowest at its agreement and after its gradients; a step ends when all have updated",
        "each rank has a node of its own, and each message costs the same between any two (formulas); nothing else uses the "
        "network",
        *_message_assumptions(link, algorithms),
        "what comes in a message is added up once, at the machine's cost a byte; all else that a scheme computes is that of "
        "one rank",
        "evaluations, checkpoints, starting and the data's storage, which all ranks share, are not in it",
    ]
    if pattern.uneven:
        worst = max(pattern.uneven.items())
        statements.append(
            f"blocks of an allgather are taken as equal: in the trace of {worst[0]} ranks the largest was "
            f"{significant(worst[1])} times the mean, which costs more"
        )
    if scheme.overlaps:
        statements.append(
            "overlap: messages were traced without it, since local ranks are of one thread; a bucket leaves when its "
            "gradients were measured to be there, and costs computing nothing"
        )
    return statements + _replay_assumptions(record, scheme)


def _computing_assumptions(record: ScalingRecord) -> list[str]:
    sources = "; ".join(f"{len(entry.gradients)} steps with {entry.batch} samples {entry.source}" for entry in record.times)
    statements = [
        f"computing: {sources}; every rank and step takes one of these times, independently of all others: noise that hits "
        "all ranks at once, and nodes that are always slow, are not in it",
    ]
    beyond = [point.ranks for point in record.points if point.beyond]
    if beyond:
        statements.append(
            f"with {beyond[0]} ranks and more there are more ranks than measured steps: each step is about as slow as the "
            "slowest that was observed, and slower ones, which so many ranks would see, are not in it"
        )
    return statements


def _message_assumptions(link: Link, algorithms: Mapping[str, str]) -> list[str]:
    declared = ", ".join(f"{name} by {algorithm}" for name, algorithm in algorithms.items())
    statements = [
        f"algorithms: {declared + '; others ' if declared else ''}the cheapest known one under LogGP for "
        "each size and number "
        "of ranks; the library may take another"
    ]
    if link.between == "one node" and link.system != "stated":
        statements.append(f"messages were measured within one node, over {link.system}: {SHARED}")
    if link.system == "stated":
        statements.append("latency and bandwidth are as they were stated: processors are busy with no message, at any rate")
    return statements


def _replay_assumptions(record: ScalingRecord, scheme: TracedScheme) -> list[str]:
    if record.network is None:
        return []
    overlap = "; without overlap" if scheme.overlaps else ""
    return [
        f"SimGrid: the same pattern and algorithms message by message on a network of kind {record.network}, a rank on each "
        "node, in their order; links share their bandwidth fairly; two nodes next to each other have the machine's latency, "
        "every link its bandwidth, both for the size that has most of the bytes; each rank and step has a measured step's "
        f"times; of a few steps, in which the mean computing of the slowest takes the place of what was drawn{overlap}"
    ]


@dataclass(frozen=True)
class FigureRows:
    """A table of figures.

    Args:
        title: What it shows.
        columns: Their names.
        cells: Row by row, a text for each column.
    """

    title: str
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]


def step_rows(record: ScalingRecord) -> FigureRows:
    """The step, its parts, the speed-up and what is sent, for each number of ranks."""
    batch = f"a batch of {record.whole_batch} {'together' if record.scaling == 'strong' else 'on each rank'}"
    title = (
        f"predicted, not measured: {record.title} with {record.scheme} on {record.framework}; {record.scaling} "
        f"scaling, {batch}; one rank alone takes {duration(record.alone)} a step (measured)"
    )
    columns = (
        "ranks",
        "samples",
        "step, predicted",
        "95 % interval",
        "90 % of steps",
        "computing",
        "messages",
        "speed-up",
        "efficiency",
        "a rank sends",
        "SimGrid, predicted",
        "its messages",
    )
    return FigureRows(title, columns, tuple(_step_row(record, point) for point in record.points))


def _step_row(record: ScalingRecord, point: RanksPointRecord) -> tuple[str, ...]:
    least, most = (in_bytes(sent) for sent in (point.sent_least, point.sent_most))
    return (
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
    )


def measured_rows(record: ScalingRecord) -> FigureRows:
    """What was measured, beside what is predicted for as many ranks."""
    title = (
        "predicted against measured: a step on as many ranks; computing: of the slowest rank, without messages; the "
        "last two are predicted from the computing of the measured run itself"
    )
    columns = (
        "ranks",
        "samples",
        "measured, mean",
        "90 % of steps",
        "computing",
        "formulas, predicted",
        "off",
        "computing, predicted",
        "SimGrid, predicted",
        "off ",
        "from its own computing",
        "off  ",
    )
    return FigureRows(title, columns, tuple(map(_measured_row, record.measured)))


def _measured_row(measurement: MeasuredRecord) -> tuple[str, ...]:
    return (
        str(measurement.ranks),
        str(measurement.batch),
        duration(measurement.mean),
        duration_range(measurement.least, measurement.most),
        duration(measurement.computing),
        duration(measurement.predicted),
        _deviation(measurement.predicted, measurement),
        duration(measurement.predicted_computing),
        duration(measurement.replayed),
        _deviation(measurement.replayed, measurement),
        duration(measurement.predicted_own),
        _deviation(measurement.predicted_own, measurement),
    )


def _deviation(predicted: float | None, measurement: MeasuredRecord) -> str:
    return "–" if predicted is None else f"{100 * (predicted / measurement.mean - 1):+.1f} %"


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
    print_table(console, _figure_table(step_rows(record)))
    # the calls of the fewest and the most ranks
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
    print_table(console, table, keys=2)
    if record.measured:
        print_table(console, _figure_table(measured_rows(record)))
        print_table(console, _message_table(record), keys=2)
    for line in [*where_it_stops(record), *_lines_below(record)]:
        print_line(console, line)
    print_line(console, "assumptions:")
    for line in record.assumptions:
        print_note(console, f"- {line}")
    for line in record.notes:
        print_note(console, line)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _figure_table(rows: FigureRows) -> Table:
    table = Table(title=rows.title)
    for name in rows.columns:
        table.add_column(name, justify="right")
    for row in rows.cells:
        table.add_row(*row)
    return table


def _message_table(record: ScalingRecord) -> Table:
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


def _lines_below(record: ScalingRecord) -> list[str]:
    lines = [f"messages, found in traces of {_numbers(record.fitted)} ranks and checked with {_numbers(record.checked)}:"]
    lines += [f"  {line}" for line in record.pattern]
    lines.append(f"machine: {record.machine}")
    lines.append(f"simulator: {record.simulator}")
    if ratios := relative_deviation(record):
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
