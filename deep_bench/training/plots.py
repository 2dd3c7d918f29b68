"""Pictures of timelines, of compared optimizers and of validated trainings. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.figure import Figure

from deep_bench.check.thresholds import END_TO_END_RATIO, INFORMATION
from deep_bench.errors import InvalidArgument
from deep_bench.measure.units import duration, time_unit
from deep_bench.records.pictures import SMALL, colour, marker, new_figure, tidy, whole_ticks, write
from deep_bench.training.timeline.phases import REST, Phase

if TYPE_CHECKING:
    from deep_bench.training.comparison import Mode, OptimizerComparison
    from deep_bench.training.validation import Validation

PhasePlotKind = Literal["steps", "violin"]

_MOST_COLUMNS = 400
_GREY = "#BBBBBB"


def plot_phase(phase: Phase, path: Path, kind: PhasePlotKind) -> Path:
    """Draw a picture of a phase; see `TimelineResult.plot`."""
    drawn = {"steps": _steps_figure, "violin": _violin_figure}
    if kind not in drawn:
        raise InvalidArgument(f"kind of picture {kind!r}", f"one of {', '.join(drawn)}")
    if not phase.n_steps:
        raise InvalidArgument(f"phase {phase.name!r} has no step that counts", "a loop of more steps than are kept apart")
    return write(drawn[kind](phase), path)


def _steps_figure(phase: Phase) -> Figure:
    """How the time of a step was split, stacked, over all steps; the mean of several steps where they are many."""
    split, first = phase.split_ns(), len(phase.warm_up)
    starts = np.unique(np.linspace(0, phase.n_steps, min(phase.n_steps, _MOST_COLUMNS), endpoint=False).astype(int))
    counts = np.diff(starts, append=phase.n_steps)
    scale, unit = time_unit(float(np.median(phase.durations_ns)) / 1e9)
    heights = [np.add.reduceat(times, starts) / counts / 1e9 / scale for times in split.values()]
    figure = new_figure(4)
    axes = figure.subplots()
    colours = [_GREY if name == REST else colour(i) for i, name in enumerate(split)]
    edges = np.append(starts, phase.n_steps) + first
    floor = np.zeros(len(starts))
    for name, height, shade in zip(split, heights, colours, strict=True):
        axes.stairs(floor + height, edges, baseline=floor, fill=True, color=shade, label=name)
        floor = floor + height
    most = float(np.quantile(floor, 0.995)) * 1.3
    above = int(np.sum(floor > most))
    axes.set(xlabel="step", ylabel=f"time of a step ({unit})", xlim=(edges[0], edges[-1]), ylim=(0, most))
    together = f", means of {counts.max()}" if counts.max() > 1 else ""
    cut = f"; {above} above the picture" if above else ""
    axes.set_title(f"{phase.name}: where the time of a step goes{together}{cut}")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False)
    tidy(axes, axis="y")
    whole_ticks(axes)
    return figure


def _violin_figure(phase: Phase) -> Figure:
    """The distribution of each region's time, on a logarithmic scale, with its median."""
    rows = [row for row in phase.rows if row.summary is not None]
    figure = new_figure(1.2 + 0.55 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        times = np.maximum(phase.durations_of(row), 1) / 1e9
        logs = np.log10(times)
        if np.ptp(logs) > 0:
            bodies: Any = axes.violinplot(logs, [place], orientation="horizontal", widths=0.8, showextrema=False)["bodies"]
            for body in bodies:
                body.set(facecolor=colour(0), alpha=0.5)
        median = float(np.median(times))
        axes.plot([np.log10(median)], [place], "|", color="black", markersize=12)
        axes.annotate(
            duration(median), (np.log10(median), place), xytext=(0, 9), textcoords="offset points", ha="center", fontsize=8
        )
    axes.set_yticks(range(len(rows)), labels=["/".join(row.path) for row in rows])
    axes.invert_yaxis()
    low, high = axes.get_xlim()
    ticks = np.arange(np.ceil(low), np.floor(high) + 1)
    axes.set_xticks(ticks, labels=[duration_label(10.0**t) for t in ticks])
    axes.set(xlabel="time of one entry", title=f"{phase.name}: {phase.n_steps} steps, median of each region")
    tidy(axes, axis="x")
    return figure


def duration_label(seconds: float) -> str:
    """A power of ten as a time.

    Example:
        >>> duration_label(1e-5), duration_label(1.0)
        ('10 µs', '1 s')
    """
    scale, unit = time_unit(seconds * 1.0001)
    return f"{seconds / scale:.0f} {unit}"


_ERROR_TITLES: dict[str, str] = {"lock-step": "on the same gradients", "free": "on its own gradients"}
_VERDICT_MARKERS = "osv^Dx"


def plot_optimizers(found: OptimizerComparison, file: Path) -> Path:
    """See `OptimizerComparison.plot`."""
    shown = {row.mode for row in found.rows}
    modes: list[Mode] = [mode for mode in ("lock-step", "free") if mode in shown]
    figure = new_figure(4.4, 5.2 * len(modes) + 0.8)
    panels = np.atleast_1d(figure.subplots(1, len(modes), sharey=True))
    for number, (mode, axes) in enumerate(zip(modes, panels, strict=True)):
        _draw_errors(axes, found, mode)
        axes.set(title=_ERROR_TITLES[mode], xlabel="step", yscale="log")
        if not number:
            axes.set_ylabel("error over what rounding is estimated to make,\nthe worst parameter")
        tidy(axes)
        whole_ticks(axes)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize="small", loc="outside lower center", ncols=3)
    figure.suptitle(f"{found.dtype}; the reference is {found.reference}")
    return write(figure, file)


def _draw_errors(axes: Any, comparison: OptimizerComparison, mode: Mode) -> None:
    axes.axhspan(1e-3, 2.0**2.5, color="0.9", label="explained by rounding")
    highest = 10.0
    for number, verdict in enumerate(comparison.verdicts):
        steps: dict[int, float] = {}
        for row in comparison.rows:
            if row.label == verdict.label and row.mode == mode:
                ratio = row.error / row.estimate if row.estimate else 0.0
                steps[row.step] = max(steps.get(row.step, 0.0), ratio)
        heights = np.clip(list(steps.values()), 1e-2, None)
        style = {
            "color": colour(number),
            "marker": _VERDICT_MARKERS[number % len(_VERDICT_MARKERS)],
            "markersize": 3.5,
            "linewidth": 0.9,
        }
        axes.plot(list(steps), heights, label=f"{verdict.label}: {verdict.word}", alpha=0.85, **style)
        highest = max(highest, float(heights.max()))
    axes.set_ylim(1e-2, 3 * highest)
    axes.margins(x=0.02)


def draw_validation(validation: Validation, path: str | Path) -> Path:
    """Above, how many times as far each system is from the oracle as rounding explains; below, the reference from itself."""
    figure = new_figure(5.5)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    for number, trained in enumerate(validation.systems):
        steps = [d.step for d in trained.distances]
        ratios = [max(d.ratio, 1e-3) for d in trained.distances]
        label = f"{trained.system}: {trained.word}"
        above.plot(steps, ratios, color=colour(number), marker=marker(number), markersize=3.5, linewidth=1, label=label)
    above.axhline(END_TO_END_RATIO, color="0.4", linewidth=1, linestyle="--")
    above.annotate("beyond: no rounding", (0.01, END_TO_END_RATIO), xycoords=("axes fraction", "data"), xytext=(0, 2),
                   textcoords="offset points", fontsize=SMALL, color="0.3")  # fmt: skip
    above.set_yscale("log")
    above.set_ylabel("distance from the oracle\nover that of rounding")
    above.set_title("Training against the oracle's: the worst parameter after each step", loc="left", fontsize=10)
    above.legend(fontsize=SMALL, frameon=False, loc="best")
    below.plot([c.step for c in validation.chaos], [max(c.share, 1e-12) for c in validation.chaos], color="0.3", linewidth=1)
    below.axhline(INFORMATION, color="0.4", linewidth=1, linestyle="--")
    below.set_yscale("log")
    below.set_ylabel("reference from itself,\nof the way come")
    below.set_xlabel("steps taken")
    if validation.parts is not None:
        for axes in (above, below):
            axes.axvspan(validation.parts, validation.chaos[-1].step, color="0.92", zorder=0)
    for axes in (above, below):
        tidy(axes)
        whole_ticks(axes)
    return write(figure, path)
