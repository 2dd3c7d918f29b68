"""The time to the target as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.measure.units import time_unit
from deep_bench.training.runs.result import Runs


def draw(runs: Runs, file: str | Path) -> Path:
    """Above the time of each run, below the share of runs that have not reached the target yet.

    Raises:
        InvalidArgument: The file cannot be written, or there was no target.
        Unsupported: matplotlib is not installed.
    """
    try:
        from deep_bench.measure import pictures
    except ImportError as error:
        raise Unsupported("a picture without matplotlib", advice="pip install deep-bench[report]") from error
    parts = [Runs(runs.record, label=label) for label in dict.fromkeys(run.label for run in runs.finished)]
    times = runs.to_target
    scale, unit = time_unit(max((t.seconds for t in times), default=1.0))
    rows = 0.22 * len(times)
    figure = pictures.new_figure(4.8 + rows)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1 + rows, 2.6))
    _dots(upper, parts, scale)
    for number, part in enumerate(parts):
        _curve(lower, part, scale, number)
    lower.set_ylim(-0.03, 1.03)
    lower.set_ylabel("share still going (Kaplan-Meier)")
    pictures.tidy(lower)
    target = runs.target
    sign = "≥" if target.direction == "higher" else "≤"
    lower.set_xlabel(f"time to {target.score} {sign} {target.value:g} ({unit}), lower is better")
    lower.set_xlim(left=0)
    figure.legend(*lower.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=len(parts) + 2)
    return pictures.write(figure, file)


def _dots(axes: Any, parts: list[Runs], scale: float) -> None:
    from deep_bench.measure import pictures

    names: list[str] = []
    for number, part in enumerate(parts):
        for reached, style in ((True, {"marker": "o"}), (False, {"marker": ">", "markerfacecolor": "none"})):
            rows = [(len(names) + row, t.seconds / scale) for row, t in enumerate(part.to_target) if t.reached is reached]
            axes.plot(
                [x for _, x in rows],
                [row for row, _ in rows],
                linestyle="",
                color=pictures.colour(number),
                label=("reached", "went on without reaching it")[not reached] if number == 0 else None,
                **style,
            )
        names += [f"{part.label} seed {run.seed}".strip() for run in part.finished]
    axes.set_yticks(range(len(names)), names, fontsize=pictures.SMALL)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    pictures.tidy(axes, axis="x")


def _curve(axes: Any, runs: Runs, scale: float, number: int) -> None:
    from deep_bench.measure import pictures

    survival, last = runs.survival(), max(t.seconds for t in runs.to_target) / scale
    times = np.concatenate([[0.0], survival.times / scale, [last]])
    colour = pictures.colour(number)
    if len(survival.low):
        low, high = (_filled(end) for end in (survival.low, survival.high))
        label = "95 % band, pointwise" if number == 0 else None
        axes.fill_between(times, low, high, step="post", color=colour, alpha=0.15, linewidth=0, label=label)
    going = np.concatenate([[1.0], survival.going, survival.going[-1:] if len(survival.going) else [1.0]])
    axes.plot(times, going, drawstyle="steps-post", color=colour, label=runs.label or "estimate")
    if survival.median is not None:
        median = survival.median / scale
        label = "median" if number == 0 else None
        axes.plot([0, median, median], [0.5, 0.5, 0], ":", color=colour, linewidth=1, label=label)


def _filled(end: np.ndarray) -> np.ndarray:
    """One end of the band from time 0 to the last; where the formula has no value, what it had before."""
    values = [1.0]
    for value in end:
        values.append(values[-1] if np.isnan(value) else float(value))
    return np.array([*values, values[-1]])
