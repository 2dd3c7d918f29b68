"""Predictions of how training scales: each line is marked as predicted, what was measured as measured."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from deep_bench.distributed.scaling.record import ScalingRecord
from deep_bench.distributed.scaling.result import fastest, speed_up
from deep_bench.measure.pictures import colour, marker, tidy
from deep_bench.measure.units import duration, significant
from deep_bench.results.report.model import Picture
from deep_bench.results.report.plots.axes import label, ticks
from deep_bench.results.report.plots.svg import picture

_MOST_RANKS = 7


def pictures_of(record: ScalingRecord, name: str, title: str) -> list[Picture]:
    """The time of a step, and the speed-up, over the number of ranks.

    Args:
        record: The prediction.
        name: With which the names of the plots begin.
        title: What is trained, and how.
    """
    points = record.points
    if not points:
        return []
    summary = "; ".join(f"{p.ranks} ranks {duration(p.mean)}, speed-up {significant(speed_up(record, p))}" for p in points)
    caption = (
        "Predicted from traces of few ranks, not measured: a dashed line with hollow markers, the band holds 90 % of steps. "
        "Filled black crosses are measured."
    )
    speeds = "Predicted samples a second over those of one rank alone, which was measured: "
    return [
        picture(f"{name}-step", 3.2, lambda drawing: _steps(drawing, record, title),
                alt=f"Predicted time of a step of {title} over ranks: {summary}", caption=caption),
        picture(f"{name}-speed-up", 3.2, lambda drawing: _speeds(drawing, record, title),
                alt=f"Predicted speed-up of {title} over ranks, beside the ideal one: {summary}",
                caption=f"{speeds}{duration(record.alone)} a step. Dotted: the ideal, an upper bound."),
    ]  # fmt: skip


def _steps(drawing: Drawing, record: ScalingRecord, title: str) -> None:
    axes = drawing.subplots()
    ranks, points = [p.ranks for p in record.points], record.points
    axes.fill_between(ranks, [p.least for p in points], [p.most for p in points], color=colour(0), alpha=0.15, linewidth=0)
    _predicted(axes, ranks, [p.mean for p in points], 0, "formulas, predicted")
    replayed = [(p.ranks, p.replayed) for p in points if p.replayed is not None]
    if replayed:
        _predicted(axes, [rank for rank, _ in replayed], [time for _, time in replayed], 1, "SimGrid, predicted")
    for number, run in enumerate(record.measured):
        ends = [[max(run.mean - run.least, 0.0)], [max(run.most - run.mean, 0.0)]]
        axes.errorbar([run.ranks], [run.mean], yerr=ends, fmt="X", color="black", markersize=6, capsize=3,
                      label="measured" if number == 0 else None)  # fmt: skip
    values = [v for p in points for v in (p.least, p.most, p.mean)] + [v for m in record.measured for v in (m.least, m.most)]
    low, high = min(v for v in values if v > 0) / 1.15, max(values) * 1.5
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_yticks(marks := ticks(low, high), [label(mark, "s") for mark in marks])
    _finish(axes, record, f"{title}: step, predicted", "time of a step")


def _speeds(drawing: Drawing, record: ScalingRecord, title: str) -> None:
    axes = drawing.subplots()
    ranks, points = [p.ranks for p in record.points], record.points
    axes.plot(ranks, ranks, ":", color="black", linewidth=1, label="ideal")
    _predicted(axes, ranks, [speed_up(record, p) for p in points], 0, "formulas, predicted")
    best = fastest(record)
    if best is not points[-1] and speed_up(record, best) > 1:
        axes.axvline(best.ranks, color=colour(1), linewidth=1, linestyle="-.", label=f"most at {best.ranks} ranks")
    values = [*ranks, *(speed_up(record, p) for p in points)]
    low, high = min(values) / 1.3, max(values) * 1.8
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_yticks(marks := ticks(low, high), [label(mark, "") for mark in marks])
    _finish(axes, record, f"{title}: speed-up, predicted", "times the samples a second of one")


def _predicted(axes: Axes, ranks: list[int], values: list[float], number: int, series: str) -> None:
    axes.plot(
        ranks, values, "--", color=colour(number), marker=marker(number), markerfacecolor="white", markersize=5, label=series
    )


def _finish(axes: Axes, record: ScalingRecord, title: str, axis_label: str) -> None:
    ranks = sorted({p.ranks for p in record.points} | {m.ranks for m in record.measured})
    axes.set_xscale("log")
    axes.minorticks_off()
    every = -(-len(ranks) // _MOST_RANKS)
    axes.set_xticks(ranks[::every], [str(count) for count in ranks[::every]])
    axes.set_xlabel("ranks")
    axes.set_ylabel(axis_label)
    axes.set_title(title, loc="left")
    tidy(axes)
    axes.legend(frameon=False, loc="upper left")
