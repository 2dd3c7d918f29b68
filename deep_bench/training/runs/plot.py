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
    found = runs.to_target
    scale, unit = time_unit(max((t.seconds for t in found), default=1.0))
    figure = pictures.new_figure(2.2 + 0.22 * len(found) + 2.6)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1 + 0.22 * len(found), 2.6))
    _dots(upper, runs, scale)
    _curve(lower, runs, scale)
    target = runs.target
    sign = "≥" if target.direction == "higher" else "≤"
    lower.set_xlabel(f"time to {target.score} {sign} {target.value:g} ({unit}), lower is better")
    lower.set_xlim(left=0)
    return pictures.write(figure, file)


def _dots(axes: Any, runs: Runs, scale: float) -> None:
    from deep_bench.measure import pictures

    for reached, label, style in (
        (True, "reached", {"marker": "o", "color": pictures.colour(0)}),
        (False, "went on without reaching it", {"marker": ">", "color": pictures.colour(1), "markerfacecolor": "none"}),
    ):
        rows = [(row, t.seconds / scale) for row, t in enumerate(runs.to_target) if t.reached is reached]
        if rows:
            axes.plot([x for _, x in rows], [row for row, _ in rows], linestyle="", label=label, **style)
    axes.set_yticks(range(len(runs.finished)), [f"seed {run.seed}" for run in runs.finished], fontsize=pictures.SMALL)
    axes.set_ylim(-0.7, len(runs.finished) - 0.3)
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    pictures.tidy(axes, axis="x")


def _curve(axes: Any, runs: Runs, scale: float) -> None:
    from deep_bench.measure import pictures

    found, last = runs.survival(), max(t.seconds for t in runs.to_target) / scale
    times = np.concatenate([[0.0], found.times / scale, [last]])
    if len(found.low):
        low, high = (_filled(end) for end in (found.low, found.high))
        axes.fill_between(
            times, low, high, step="post", color=pictures.colour(0), alpha=0.15, linewidth=0, label="95 % band, pointwise"
        )
    going = np.concatenate([[1.0], found.going, found.going[-1:] if len(found.going) else [1.0]])
    axes.plot(times, going, drawstyle="steps-post", color=pictures.colour(0), label="Kaplan-Meier estimate")
    if found.median is not None:
        axes.plot(
            [0, found.median / scale, found.median / scale], [0.5, 0.5, 0], ":", color="grey", linewidth=1, label="median"
        )
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("share still going")
    axes.legend(frameon=False)
    pictures.tidy(axes)


def _filled(end: np.ndarray) -> np.ndarray:
    """One end of the band from time 0 to the last; where the formula has no value, what it had before."""
    values = [1.0]
    for value in end:
        values.append(values[-1] if np.isnan(value) else float(value))
    return np.array([*values, values[-1]])
