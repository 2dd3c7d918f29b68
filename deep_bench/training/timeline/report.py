"""A timeline as text."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.measure.statistics import Percentile, Summary
from deep_bench.measure.tables import columns, print_line, print_note, print_table
from deep_bench.measure.units import duration, duration_range, in_bytes, share, significant
from deep_bench.training.timeline.codes import DEVICE_MEMORY, DONE, LEFT, PEAK_MEMORY, SWITCHES

if TYPE_CHECKING:
    from deep_bench.training.timeline.phase import Epoch, Phase, Row
    from deep_bench.training.timeline.result import TimelineResult

_FIGURES = ("a step", "median (95 % interval)", "p90", "p99", "share", "own")
_LISTED_EPOCHS = 12
_DRIFTS, _WEIGHTY, _MANY_STEPS = 0.02, 0.05, 40


def as_text(result: TimelineResult, width: int | None = None) -> str:
    """See `TimelineResult.as_text`."""
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), color_system=None, highlight=False)
    for phase in result.values():
        _print_phase(console, phase)
    if result.outside:
        table = _table("regions outside of steps; shares are of the whole timeline", "calls")
        _fill(table, result.outside, lambda row: f"{row.n + row.raised}")
        print_table(console, table)
        _print_lines(console, (line for row in result.outside for line in _about_row(row)))
    _print_lines(console, _about_all(result))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _print_phase(console: Console, phase: Phase) -> None:
    apart = len(phase.warm_up)
    title = f"{phase.name}: {_counted(len(phase.epochs), 'epoch')}, {_counted(phase.n_steps + apart, 'step')}"
    if not phase.n_steps:
        print_line(console, f"{title}: too few to say more")
    else:
        table = _table(title, *_FIGURES[:1])
        _fill(table, phase.rows, lambda row: "–" if row.per_step is None else significant(row.per_step))
        print_table(console, table)
    _print_lines(console, _about_phase(phase))
    if 1 < len(phase.epochs) <= _LISTED_EPOCHS:
        print_table(console, _epoch_table(phase.epochs))
    console.print()


def _table(title: str, first: str) -> Table:
    table = Table("region", title=Text(title))
    for name in (first, *_FIGURES[1:]):
        table.add_column(name, justify="right")
    return table


def _fill(table: Table, rows: Iterable[Row], first: Callable[[Row], str]) -> None:
    for row in rows:
        indent = 0 if row.path == ("step",) else 2 * len(row.path)
        summary = row.summary
        exclusive = share(row.own_share) if row.own_share != row.share else ""
        figures = ("–", "–", "–") if summary is None else (_median(summary), *(_tail(summary, p) for p in ("p90", "p99")))
        table.add_row(Text(" " * indent + row.name), first(row), *figures, share(row.share), exclusive)


def _median(summary: Summary) -> str:
    bounds = summary.interval
    interval = "too few" if bounds is None else duration_range(bounds.low / 1e9, bounds.high / 1e9)
    return f"{duration(summary.median / 1e9)} ({interval})"


def _tail(summary: Summary, name: str) -> str:
    percentile: Percentile | None = summary.percentiles[name]
    return "too few" if percentile is None else duration(percentile.value / 1e9)


def _epoch_table(epochs: list[Epoch]) -> Table:
    table = Table("epoch")
    for name in ("steps", "time", "its first step", "samples/s"):
        table.add_column(name, justify="right")
    for number, epoch in enumerate(epochs):
        rate = "–" if epoch.samples is None else significant(epoch.samples / epoch.seconds)
        how = "" if epoch.ending == DONE else " (left early)" if epoch.ending == LEFT else " (exception)"
        table.add_row(f"{number}{how}", str(epoch.n_steps), duration(epoch.seconds), duration(epoch.first_step), rate)
    return table


def _about_phase(phase: Phase) -> Iterable[str]:
    yield from _about_warm_up(phase)
    if phase.throughput is not None:
        yield f"throughput: {significant(phase.throughput)} samples a second (all samples over all steps' time)"
    elif phase.n_steps:
        rate = phase.n_steps / (phase.durations_ns.sum() / 1e9)
        yield f"throughput: {significant(rate)} steps a second; batches did not say how many samples they had"
    for row in phase.rows:
        if row.share >= _WEIGHTY or row.raised:
            yield from _about_row(row)
    longest, total = int(phase.durations_ns.max(initial=0)), int(phase.durations_ns.sum())
    if phase.n_steps >= _MANY_STEPS and longest > _WEIGHTY * total:
        yield f"the longest step took {duration(longest / 1e9)}, {share(longest / total)} of all steps' time"
    if phase.left or phase.raised:
        yield f"not counted: {_counted(phase.left, 'step')} left early, {_counted(phase.raised, 'step')} whose batch failed"
    if len(phase.epochs) > _LISTED_EPOCHS:
        times = [epoch.seconds for epoch in phase.epochs if epoch.ending == DONE]
        if times:
            yield f"epochs: median {duration(float(np.median(times)))}, {duration_range(min(times), max(times))}"
    yield from _about_memory(phase)
    switches = phase.noted(SWITCHES)
    if len(switches) > 1 and (switch_count := int(switches[-1] - switches[0])):
        yield f"other processes took a CPU {switch_count:,} times between the first step's end and the last; all steps count"


def _about_warm_up(phase: Phase) -> Iterable[str]:
    if phase.warm_up and phase.rows and phase.rows[0].summary is not None:
        which = "first step" if len(phase.warm_up) == 1 else f"first {len(phase.warm_up)} steps"
        times = ", ".join(duration(t) for t in phase.warm_up[:5])
        ratio = phase.warm_up[0] * 1e9 / phase.rows[0].summary.median
        yield f"{which}, kept apart: {times} ({significant(ratio)} times the median)"
        firsts = [e.first_step * 1e9 for e in phase.epochs[1:] if e.first_step is not None]
        if firsts and (ratio := float(np.median(firsts)) / phase.rows[0].summary.median) > 1.5:
            yield f"the first step of a later epoch takes {significant(ratio)} times the median; it counts"


def _about_row(row: Row) -> Iterable[str]:
    if row.raised:
        yield f"{row.name}: {row.raised} of {row.n + row.raised} ended by an exception; their times are in the shares only"
    if row.summary is None:
        return
    if abs(row.summary.drift) > _DRIFTS:
        yield f"{row.name}: drifted by {share(row.summary.drift)} during the run"
    if len(row.summary.modes) > 1:
        yield f"{row.name}: times cluster at {', '.join(duration(m / 1e9) for m in row.summary.modes)}"
    if row.threads > 1:
        yield f"{row.name}: in {row.threads} threads, whose times add up"


def _about_memory(phase: Phase) -> Iterable[str]:
    for name, label in ((PEAK_MEMORY, "peak memory of the process"), (DEVICE_MEMORY, "device memory in use at steps' ends")):
        readings = phase.noted(name)
        if len(readings):
            yield f"{label}: {in_bytes(float(readings.max()))} ({in_bytes(float(readings[0]))} after the first step)"


def _about_all(result: TimelineResult) -> Iterable[str]:
    record, spans = result.record, result.spans
    yield _clocks(result)
    yield from _looking(result)
    if spans.open:
        yield f"{_counted(spans.open, 'span')} had not ended: they are in no figure"
    if spans.straddling.any():
        names = sorted({record.names[n].name for n in spans.number[spans.straddling]})
        yield f"{', '.join(names)}: ended after the region they began in, whose own time is therefore too small"
    if record.lost:
        yield f"the last {record.lost} events were beyond the limit and are missing: give timeline() save= or limit="
    if record.error is not None:
        yield f"the loop ended with {record.error}"
    if not record.complete:
        yield "this run did not finish, or goes on: the figures are of what was written until then"
    yield from record.notes
    if result.path is not None:
        yield f"record: {result.path}"


def _clocks(result: TimelineResult) -> str:
    """Of what the times are."""
    record = result.record
    if record.synchronize is not None:
        return f"times are of finished work: {record.synchronize} waited for the device at the end of each region and step"
    if record.asynchronous:
        devices = "; ".join(f"{name}: {where}" for name, where in record.asynchronous.items())
        return (
            "times are of launching, not of finished work, where the loop uses what works asynchronously here "
            f"({devices}): give timeline() synchronize="
        )
    return "times are of finished work on the CPU; no device that works asynchronously was seen"


def _looking(result: TimelineResult) -> Iterable[str]:
    cost = result.record.cost
    if cost is None:
        return
    for phase in result.values():
        if phase.n_steps:
            regions = sum(row.per_step or 0 for row in phase.rows[1:-1])
            spent = cost.step + max(regions - 1, 0) * cost.region  # the region of waiting is in the cost of a step
            part = spent / (phase.durations_ns.sum() / phase.n_steps)
            yield (
                f"looking cost {significant(100 * part, 2)} % of a step of {phase.name} ({duration(spent / 1e9)}: "
                f"{duration(cost.region / 1e9)} a region, {duration(cost.step / 1e9)} a step)"
            )


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        print_note(console, line)
