"""Pictures of a phase. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from deep_bench.errors import InvalidArgument
from deep_bench.measure.pictures import colour, new_figure, tidy, whole_ticks, write
from deep_bench.measure.units import duration, time_unit
from deep_bench.training.timeline.phase import REST, Phase

Kind = Literal["steps", "violin"]

_MOST_COLUMNS = 400
_GREY = "#BBBBBB"


def plot(phase: Phase, path: Path, kind: Kind) -> Path:
    """Draw a picture of a phase; see `TimelineResult.plot`."""
    drawn = {"steps": _steps, "violin": _violin}
    if kind not in drawn:
        raise InvalidArgument(f"kind of picture {kind!r}", f"one of {', '.join(drawn)}")
    if not phase.n_steps:
        raise InvalidArgument(f"phase {phase.name!r} has no step that counts", "a loop of more steps than are kept apart")
    return write(drawn[kind](phase), path)


def _steps(phase: Phase) -> Figure:
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


def _violin(phase: Phase) -> Figure:
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
