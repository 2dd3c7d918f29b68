"""A forest plot: each ratio with its interval, on a logarithmic axis. Importing this module needs matplotlib."""

from __future__ import annotations

from math import exp, log
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from deep_bench.errors import InvalidArgument, short_digests, shortened
from deep_bench.measure.pictures import COLOURS, SMALL, footnotes, new_figure, tidy, write
from deep_bench.results.comparing.comparison import Comparison
from deep_bench.results.comparing.comparisons import Comparisons
from deep_bench.results.comparing.pairing import RECORD

_LOOK = {
    "faster": (COLOURS[2], "v"),
    "better": (COLOURS[2], "v"),
    "slower": (COLOURS[1], "^"),
    "worse": (COLOURS[1], "^"),
    "no difference": (COLOURS[0], "o"),
    "cannot tell": ("#777777", "s"),
    "not comparable": ("#000000", "x"),
}
"""Word to colour and marker, so that colour is not all that tells them apart."""

_MOST = 200
_ROW = 0.28
_FARTHEST = 100.0
_SPACE = 0.15
"""Between two ticks, as a share of half the axis."""

_STEPS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)


def plot(found: Comparisons, file: str | Path) -> Path:
    """Draw it.

    Args:
        found: The comparisons.
        file: Where to write it; the end of the name tells the format.

    Raises:
        InvalidArgument: There is no ratio to show, or the file cannot be written.
    """
    rows = [
        comparison
        for comparison in found
        if comparison.estimate.scale == "ratio" and comparison.estimate.interval is not None
    ]
    if not rows:
        raise InvalidArgument("no ratio with an interval to show", "a time or rate with enough blocks or launches")
    shown = rows[:_MOST]
    figure = new_figure(1.6 + _ROW * len(shown))
    axes = figure.subplots()
    for place, comparison in enumerate(shown):
        _draw(axes, place, comparison)
    _scale(axes, shown, found.margin)
    named = any(comparison.name for comparison in shown)
    names = [shortened(f"{comparison.name} {comparison.metric}" if named else comparison.metric, 60) for comparison in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=SMALL)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    _describe(axes, found)
    omitted = sum(comparison.estimate.scale != "ratio" for comparison in found)
    lines = [f"95 % intervals of each alone; the words hold for all {found.tests} tests together ({found.correction})"]
    lines += [f"not shown: {omitted} figures that change by a difference"] * bool(omitted)
    lines += [f"not shown: {len(rows) - _MOST} further ratios"] * (len(rows) > _MOST)
    footnotes(figure, lines)
    return write(figure, file)


def _draw(axes: Axes, place: int, comparison: Comparison) -> None:
    ends = comparison.estimate.interval
    assert ends is not None
    colour, marker = _LOOK[comparison.word]
    low, high = (float(np.clip(end, 1 / _FARTHEST, _FARTHEST)) for end in ends)
    axes.plot([low, high], [place, place], color=colour, linewidth=1.6, solid_capstyle="butt", zorder=2)
    value = comparison.estimate.value
    if value == value:
        axes.plot(
            np.clip(value, 1 / _FARTHEST, _FARTHEST),
            place,
            marker,
            color=colour,
            markersize=6,
            label=comparison.word,
            zorder=3,
        )


def _scale(axes: Axes, rows: list[Comparison], margin: float) -> None:
    """A logarithmic axis that is as long on both sides of 1 as the farther end needs."""
    ends = [end for comparison in rows for end in (comparison.estimate.interval or ()) if 0 < end < float("inf")]
    far = min(max([abs(log(end)) for end in ends] + [log(1 + 2 * margin)]) * 1.08, log(_FARTHEST))
    axes.set_xscale("log")
    axes.set_xlim(exp(-far), exp(far))
    ticks: list[float] = []
    for step in _STEPS:
        if log(step) <= far and log(step) - log(ticks[-1] if ticks else 1.0) >= _SPACE * far:
            ticks.append(step)
    axes.set_xticks([1 / step for step in reversed(ticks)] + [1.0, *ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.3g}"))
    axes.axvline(1, color="black", linewidth=0.8, zorder=1)
    axes.axvspan(1 / (1 + margin), 1 + margin, color="black", alpha=0.07, linewidth=0, zorder=0)


def _describe(axes: Axes, comparisons: Comparisons) -> None:
    first = comparisons.pairings[0]
    before, after = (shortened(short_digests(value), 50) for value in first.values)
    prefix = "" if first.factor == RECORD else f"{first.factor}: "
    over = after if len(comparisons.pairings) == 1 else "each"
    axes.set_xlabel(f"ratio (shaded: within {100 * comparisons.margin:g} %)\n{prefix}{over} over {before}")
    handles, words = axes.get_legend_handles_labels()
    unique = dict(zip(words, handles, strict=True))
    axes.legend(unique.values(), unique.keys(), fontsize=SMALL, ncols=len(unique), frameon=False,
                loc="lower right", bbox_to_anchor=(1, 1))  # fmt: skip
    tidy(axes, axis="x")
