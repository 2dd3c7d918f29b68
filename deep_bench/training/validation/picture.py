"""The distances of trainings from the oracle's, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deep_bench.check.thresholds import END_TO_END_RATIO, INFORMATION
from deep_bench.measure.pictures import SMALL, colour, marker, new_figure, tidy, whole_ticks, write

if TYPE_CHECKING:
    from deep_bench.training.validation.result import Validation


def draw(validation: Validation, path: str | Path) -> Path:
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
