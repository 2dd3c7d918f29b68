"""Errors of optimizers over the steps. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.measure.pictures import colour, new_figure, tidy, whole_ticks, write

if TYPE_CHECKING:
    from deep_bench.training.comparison.result import Mode, OptimizerComparison

_TITLES: dict[str, str] = {"lock-step": "on the same gradients", "free": "on its own gradients"}
_MARKERS = "osv^Dx"


def plot(found: OptimizerComparison, file: Path) -> Path:
    """See `OptimizerComparison.plot`."""
    shown = {row.mode for row in found.rows}
    modes: list[Mode] = [mode for mode in ("lock-step", "free") if mode in shown]
    figure = new_figure(4.4, 5.2 * len(modes) + 0.8)
    panels = np.atleast_1d(figure.subplots(1, len(modes), sharey=True))
    for number, (mode, axes) in enumerate(zip(modes, panels, strict=True)):
        _draw(axes, found, mode)
        axes.set(title=_TITLES[mode], xlabel="step", yscale="log")
        if not number:
            axes.set_ylabel("error over what rounding is estimated to make,\nthe worst parameter")
        tidy(axes)
        whole_ticks(axes)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize="small", loc="outside lower center", ncols=3)
    figure.suptitle(f"{found.dtype}; the reference is {found.reference}")
    return write(figure, file)


def _draw(axes: Any, comparison: OptimizerComparison, mode: Mode) -> None:
    axes.axhspan(1e-3, 2.0**2.5, color="0.9", label="explained by rounding")
    highest = 10.0
    for number, verdict in enumerate(comparison.verdicts):
        steps: dict[int, float] = {}
        for row in comparison.rows:
            if row.label == verdict.label and row.mode == mode:
                ratio = row.error / row.estimate if row.estimate else 0.0
                steps[row.step] = max(steps.get(row.step, 0.0), ratio)
        heights = np.clip(list(steps.values()), 1e-2, None)
        style = {"color": colour(number), "marker": _MARKERS[number % len(_MARKERS)], "markersize": 3.5, "linewidth": 0.9}
        axes.plot(list(steps), heights, label=f"{verdict.label}: {verdict.word}", alpha=0.85, **style)
        highest = max(highest, float(heights.max()))
    axes.set_ylim(1e-2, 3 * highest)
    axes.margins(x=0.02)
