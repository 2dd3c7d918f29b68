"""Pictures of communication benchmarks and of predictions. Importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator, PercentFormatter

from deep_bench.distributed.scaling.record import HALF, ScalingRecord, efficiency, fastest, speed_up, where_it_stops
from deep_bench.distributed.scaling.report import SHARED
from deep_bench.measure.units import in_bytes, time_unit
from deep_bench.records.pictures import SMALL, colour, footnotes, marker, new_figure, tidy, write

if TYPE_CHECKING:
    from deep_bench.distributed.collectives.result import BenchmarkRow, CommunicationResult

_COLUMNS = 2
_HEIGHT = 3.6


def draw_communication(result: CommunicationResult, file: str | Path) -> Path:
    """A picture for each benchmark: the median time of each size with its 95 % interval, and what is predicted, dashed.

    Args:
        result: What was found.
        file: Where to; the end of the name tells the format.
    """
    names = list(dict.fromkeys(row.kind.name for row in result.rows))
    across = min(_COLUMNS, len(names))
    down = -(-len(names) // across)
    figure = new_figure(_HEIGHT * down + 0.6)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for name, axes in zip(names, grid.flat, strict=False):
        _benchmark_panel(axes, name, [row for row in result.rows if row.kind.name == name])
    lines = {label: line for axes in grid.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines.keys(), fontsize=SMALL, loc="outside upper center", ncols=4)
    footnotes(figure, _communication_notes(result))
    return write(figure, file)


def _benchmark_panel(axes: Axes, name: str, rows: list[BenchmarkRow]) -> None:
    systems = list(dict.fromkeys(row.system for row in rows))
    draw_benchmark(axes, rows, lambda system: colour(systems.index(system)), lambda system: marker(systems.index(system)))
    axes.set_title(name)
    axes.set_yscale("log")
    axes.set_ylabel("time in s")
    if rows[0].kind.sized:
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bytes")
        axes.xaxis.set_major_formatter(lambda value, _: in_bytes(round(value)).replace(" ", "\u202f"))
        axes.tick_params(axis="x", labelsize=SMALL)
    else:
        axes.set_xticks(range(len(systems)), systems)
        axes.set_xlim(-0.5, len(systems) - 0.5)
    tidy(axes)


def draw_benchmark(
    axes: Axes, rows: Sequence[BenchmarkRow], colour_of: Callable[[str], str], marker_of: Callable[[str], str]
) -> None:
    """The times of one operation: medians with 95 % intervals, hollow where not right; those that are predicted dashed.

    Args:
        axes: Over bytes, or, where the operation has no sizes, over the number of the system.
        rows: Of one operation.
        colour_of: The colour of a system.
        marker_of: Its marker.
    """
    for number, system in enumerate(dict.fromkeys(row.system for row in rows)):
        points = [(row.size if row.kind.sized else number, row) for row in rows if row.system == system]
        for right in (True, False):
            measured = [(x, row) for x, row in points if row.seconds is not None and (row.verdict == "right") is right]
            if not measured:
                continue
            middle = np.array([row.seconds for _, row in measured], float)
            low, high = np.array([interval_ends(row) for _, row in measured]).T
            axes.errorbar(
                [x for x, _ in measured], middle, yerr=[middle - np.minimum(low, middle), np.maximum(high, middle) - middle],
                fmt=marker_of(system), color=colour_of(system), markersize=4.5, capsize=2,
                markerfacecolor=colour_of(system) if right else "white",
                label=f"{system}, measured{'' if right else ', not right'}",
            )  # fmt: skip
        predicted = [(x, row.predicted.seconds) for x, row in points if row.predicted is not None]
        if predicted:
            style: dict[str, Any] = (
                {"linestyle": "--"} if rows[0].kind.sized else {"linestyle": "", "marker": "_", "markersize": 14}
            )
            label = f"{system}, predicted"
            axes.plot(*zip(*predicted, strict=True), color=colour_of(system), linewidth=1, label=label, **style)


def interval_ends(row: BenchmarkRow) -> tuple[float, float]:
    """The ends of the interval of a measured time in seconds; the time itself where there is none."""
    interval, middle = (None if row.summary is None else row.summary.interval), row.seconds or 0.0
    return (middle, middle) if interval is None else (max(interval.low / 1e9, 1e-9), interval.high / 1e9)


def _communication_notes(result: CommunicationResult) -> list[str]:
    hosts = result.hosts
    on = "1 host" if len(set(hosts)) == 1 else f"{len(set(hosts))} hosts"
    lines = [
        f"{len(hosts)} ranks on {on}",
        "points: medians of the maximum over the ranks, with 95 % intervals where the samples are enough; hollow: not right",
    ]
    if any(row.predicted for row in result.rows):
        lines.append("dashed: predicted by LogGP for the cheapest known algorithm, from single messages; not measured")
    return lines


_BAND = 0.18
_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def draw_scaling(record: ScalingRecord, file: str | Path) -> Path:
    """Step, speed-up, efficiency and volume over the number of ranks.

    Args:
        record: What was predicted.
        file: Where to; the end of the name tells the format.
    """
    figure = new_figure(8.2)
    grid = figure.add_gridspec(3, 2, height_ratios=[0.2, 1, 1])
    step, speed, share, volume = (figure.add_subplot(grid[row, column]) for row in (1, 2) for column in (0, 1))
    _step(step, record)
    _speed(speed, record)
    _share(share, record)
    _volume(volume, record)
    ranks = sorted({p.ranks for p in record.points} | {run.ranks for run in record.measured})
    for axes in (step, speed, share, volume):
        _ranks(axes, ranks)
    handles = {label: line for axes in (step, speed) for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    above = figure.add_subplot(grid[0, :])
    above.set_axis_off()
    above.legend(handles.values(), handles.keys(), fontsize=SMALL, loc="center", ncols=3, frameon=False)
    batch = f"batch of {record.whole_batch} {'together' if record.scaling == 'strong' else 'on each rank'}"
    figure.suptitle(
        f"predicted, not measured: {record.title}\n{record.scheme} on {record.framework}, {record.scaling} scaling, {batch}",
        fontsize=11,
    )
    notes = [*where_it_stops(record), f"machine: {record.machine}", f"simulator: {record.simulator}"]
    notes.append(
        f"messages as {', '.join(map(str, record.fitted))} local ranks were traced to have them, checked with "
        f"{' and '.join(map(str, record.checked))}; computing as measured on one rank; all assumptions are in the report"
    )
    if any(measurement.hosts == 1 for measurement in record.measured):
        notes.append(SHARED)
    notes.append("the band holds 90 % of steps")
    footnotes(figure, notes)
    return write(figure, file)


def _ranks(axes: Axes, ranks: list[int]) -> None:
    axes.set_xscale("log", base=2)
    every = -(-len(ranks) // 8)
    axes.set_xticks(ranks[::every], [_short(count) for count in ranks[::every]])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("ranks")
    axes.set_xlim(ranks[0] / 2**0.3, ranks[-1] * 2**0.3)
    tidy(axes)


def _time(seconds: float) -> str:
    scale, unit = time_unit(seconds)
    return f"{seconds / scale:g} {unit}"


def _short(count: int) -> str:
    return f"{count // 1024}Ki" if count >= 1024 and count % 1024 == 0 else str(count)


def _step(axes: Axes, record: ScalingRecord) -> None:
    points = record.points
    ranks = [point.ranks for point in points]
    draw_step(axes, record)
    slowest = [p.computing for p in points]
    axes.plot(ranks, slowest, color=colour(2), linestyle="--", label="of it the slowest rank's computing, predicted")
    axes.plot(ranks, [p.communicating for p in points], color=colour(4), linestyle=":", label="of it messages, predicted")
    messages = [(p.ranks, p.replayed - p.computing) for p in points if p.replayed is not None and p.replayed > p.computing]
    if messages:
        axes.plot(
            *zip(*messages, strict=True), color=colour(4), marker=marker(2), markersize=4, linestyle="none",
            markerfacecolor="none", label="of it messages by SimGrid, predicted",
        )  # fmt: skip
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _time(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    _beyond(axes, record)
    axes.set_title("time of a step, predicted", fontsize=10)


def draw_step(axes: Axes, record: ScalingRecord) -> None:
    """The time of a step over ranks: dashed what is predicted, with a band of 90 % of the steps, and what was measured."""
    ranks, points = [p.ranks for p in record.points], record.points
    axes.fill_between(ranks, [p.least for p in points], [p.most for p in points], color=colour(0), alpha=_BAND, linewidth=0)
    _draw_predicted(axes, ranks, [p.mean for p in points], 0, "formulas, predicted")
    replayed = [(p.ranks, p.replayed) for p in points if p.replayed is not None]
    if replayed:
        _draw_predicted(axes, [rank for rank, _ in replayed], [time for _, time in replayed], 1, "SimGrid, predicted")
    for number, run in enumerate(record.measured):
        ends = [[max(run.mean - run.least, 0.0)], [max(run.most - run.mean, 0.0)]]
        axes.errorbar([run.ranks], [run.mean], yerr=ends, fmt="X", color="black", markersize=6, capsize=3,
                      label="measured" if number == 0 else None)  # fmt: skip


def draw_speed_up(axes: Axes, record: ScalingRecord) -> None:
    """The speed-up over ranks: dashed what is predicted, dotted the ideal, and where it stops to grow."""
    ranks, points = [p.ranks for p in record.points], record.points
    axes.plot(ranks, ranks, ":", color="black", linewidth=1, label="ideal")
    _draw_predicted(axes, ranks, [speed_up(record, p) for p in points], 0, "formulas, predicted")
    best = fastest(record)
    if best is not points[-1] and speed_up(record, best) > 1:
        axes.axvline(best.ranks, color=colour(1), linewidth=1, linestyle="-.", label=f"most at {best.ranks} ranks")


def _draw_predicted(axes: Axes, ranks: list[int], values: list[float], number: int, series: str) -> None:
    axes.plot(
        ranks, values, "--", color=colour(number), marker=marker(number), markerfacecolor="white", markersize=5, label=series
    )


def _beyond(axes: Axes, record: ScalingRecord) -> None:
    """Where there are more ranks than measured steps."""
    affected = [point.ranks for point in record.points if point.beyond]
    if affected:
        begin, end = affected[0] / 2**0.5, record.points[-1].ranks * 2**0.3
        axes.axvspan(begin, end, color="grey", alpha=0.12, linewidth=0, label="more ranks than measured steps")


def _speed(axes: Axes, record: ScalingRecord) -> None:
    points = record.points
    whole = [record.alone * (p.ranks if record.scaling == "weak" else 1) for p in points]
    low, high = ([time / step for time, step in zip(whole, steps, strict=True)]
                 for steps in ([p.most for p in points], [p.least for p in points]))  # fmt: skip
    axes.fill_between([p.ranks for p in points], low, high, color=colour(0), alpha=_BAND, linewidth=0)
    draw_speed_up(axes, record)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_title("speed-up in samples a second, predicted", fontsize=10)


def _share(axes: Axes, record: ScalingRecord) -> None:
    ranks = [point.ranks for point in record.points]
    _draw_predicted(axes, ranks, [efficiency(record, p) for p in record.points], 0, "formulas, predicted")
    replayed = [p for p in record.points if p.replayed is not None]
    if replayed:
        values = [efficiency(record, p.model_copy(update={"mean": p.replayed})) for p in replayed]
        _draw_predicted(axes, [p.ranks for p in replayed], values, 1, "SimGrid, predicted")
    _beyond(axes, record)
    axes.axhline(HALF, color="grey", linestyle="--", linewidth=1)
    axes.set_ylim(0, max(1.05, *(1.05 * efficiency(record, p) for p in record.points)))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_title("efficiency, predicted", fontsize=10)


def _volume(axes: Axes, record: ScalingRecord) -> None:
    ranks = [point.ranks for point in record.points]
    largest = max(p.sent_most for p in record.points)
    factor, unit = next((pair for pair in _UNITS if largest >= pair[0]), _UNITS[-1])
    most = [p.sent_most / factor for p in record.points]
    least = [p.sent_least / factor for p in record.points]
    axes.plot(ranks, most, color=colour(0), marker=marker(0), markersize=4, label="of the rank that sends most")
    if any(a != b for a, b in zip(most, least, strict=True)):
        axes.plot(ranks, least, color=colour(2), marker=marker(2), markersize=4, label="of the one that sends least")
        axes.legend(fontsize=SMALL, loc="best", frameon=False)
    if max(most) > 20 * min(least) > 0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.1 * max(most))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_title(f"what a rank sends in a step in {unit}, predicted", fontsize=10)
