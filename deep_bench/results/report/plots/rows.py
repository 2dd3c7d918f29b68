"""Panels with a row for each system: medians with their intervals, and how the raw samples are distributed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray
from scipy import ndimage

from deep_bench.measure.statistics import Times
from deep_bench.results.report.model import Picture
from deep_bench.results.report.plots.axes import Looks, value_axis
from deep_bench.results.report.plots.svg import picture
from deep_bench.results.result import Figure
from deep_bench.results.table import amount, limits

_FEW = 20
"""So many samples are drawn one by one; of more, their density."""

_BINS = 128
_STROKES = 400
_HALF = 0.26
_ROW, _FRAME = 0.44, 0.75


@dataclass(frozen=True)
class Row:
    """What is drawn in one row.

    Args:
        system: Which.
        label: Its name in the plot.
        figure: What was measured.
        raw: What its samples are drawn of: the same, unless that is a single value beside others that have samples.
        remark: Such as ``"wrong"``; empty for what is right.
    """

    system: str
    label: str
    figure: Figure
    raw: Figure
    remark: str = ""

    @property
    def samples(self) -> Times:
        """All samples that count, above 0: others have no place on a logarithmic axis."""
        return _drawable(group for groups in self.raw.launches for group in groups)

    @property
    def aside(self) -> Times:
        """Those of them that count in no median as they were taken."""
        return _drawable(self.raw.aside)

    @property
    def unseen(self) -> int:
        """How many have no place on the axis."""
        return self.raw.count + sum(map(len, self.raw.aside)) - len(self.samples) - len(self.aside)


def _drawable(groups: Iterable[Times]) -> Times:
    every = np.concatenate([np.empty(0), *groups])
    return every[np.isfinite(every) & (every > 0)]


def intervals(name: str, title: str, rows: Sequence[Row], looks: Looks) -> Picture | None:
    """The median of each row with its interval; ``None`` where no median is a number."""
    finite_rows = [row for row in rows if isfinite(row.figure.median)]
    if not finite_rows:
        return None
    unit = finite_rows[0].figure.unit
    ends = [value for row in finite_rows for value in _reach(row.figure)]

    def draw(drawing: Drawing) -> None:
        axes = _begin(drawing, title, finite_rows, [_value(row) for row in finite_rows])
        for number, row in enumerate(finite_rows):
            low, high = _reach(row.figure)
            middle = row.figure.median
            axes.errorbar(
                [middle], [-number], xerr=[[middle - low], [high - middle]], capsize=4, markersize=6, **_style(row, looks)
            )
        value_axis(axes, min(ends), max(ends), unit)
        axes.set_xlabel(f"{finite_rows[0].figure.name}, {finite_rows[0].figure.direction} is better")

    alt = f"{title}: " + "; ".join(f"{_named(row)}: median {amount(row.figure.median, unit)}, "
                                   f"95 % interval {limits(row.figure)}" for row in finite_rows)  # fmt: skip
    caption = "Medians with their 95 % intervals; a marker without a bar has too few samples for one."
    return picture(name, _FRAME + _ROW * len(finite_rows), draw, alt=alt, caption=caption)


def distribution(name: str, title: str, rows: Sequence[Row], looks: Looks) -> Picture | None:
    """The density of all raw samples of each row; ``None`` where no row has several samples."""
    sampled_rows = [row for row in rows if len(row.samples) > 1]
    if not sampled_rows:
        return None
    raw = sampled_rows[0].raw
    every = np.concatenate([part for row in sampled_rows for part in (row.samples, row.aside)])

    def draw(drawing: Drawing) -> None:
        axes = _begin(drawing, title, sampled_rows, [_counts(row) for row in sampled_rows])
        for number, row in enumerate(sampled_rows):
            _spread(axes, -number, row.samples, looks.colour(row.system))
            _strokes(axes, -number, row.aside, looks.colour(row.system))
        value_axis(axes, float(every.min()), float(every.max()), raw.unit)
        axes.set_xlabel(f"{raw.name}, all samples")

    alt = f"{title}, all samples: " + "; ".join(f"{_named(row)}: {_told(row)}" for row in sampled_rows)
    caption = (
        f"How the raw samples are distributed: a line from the least to the largest, the density of more than {_FEW} "
        "samples, fewer one by one; the upright stroke is the median."
    )
    aside = np.concatenate([row.aside for row in sampled_rows])
    if len(aside):
        caption += (
            f" Short strokes below a line are {len(aside)} samples {_ends(aside, raw.unit)} during which another process "
            "had the processor: no median is of these times."
        )
    return picture(name, _FRAME + _ROW * len(sampled_rows), draw, alt=alt, caption=caption)


def _counts(row: Row) -> str:
    return f"n = {len(row.samples)}{f', and {len(row.aside)} preempted' if len(row.aside) else ''}"


def _told(row: Row) -> str:
    """How many samples a row has, and their ends."""
    text = f"{len(row.samples)} {_ends(row.samples, row.raw.unit)}"
    return text if not len(row.aside) else f"{text} that count, and {len(row.aside)} {_ends(row.aside, row.raw.unit)} aside"


def _ends(samples: Times, unit: str) -> str:
    return f"from {amount(float(samples.min()), unit)} to {amount(float(samples.max()), unit)}"


def _begin(drawing: Drawing, title: str, rows: Sequence[Row], right: Sequence[str]) -> Axes:
    """Axes whose rows have their name above them, and a figure at the right."""
    axes = drawing.subplots()
    axes.set_title(title, loc="left")
    axes.set_ylim(-len(rows) + 0.55, 0.72)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for number, (row, text) in enumerate(zip(rows, right, strict=True)):
        where: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8.5}
        axes.text(0, 0.46 - number, _short(_named(row), 44), ha="left", **where)
        axes.text(1, 0.46 - number, text, ha="right", **where)
    return axes


def _reach(figure: Figure) -> tuple[float, float]:
    """The ends of what is drawn of a figure."""
    interval = figure.interval
    ends = (figure.median, figure.median) if interval is None else (interval.low, interval.high)
    low, high = (end if isfinite(end) else figure.median for end in ends)
    return min(low, figure.median), max(high, figure.median)


def _value(row: Row) -> str:
    few = "" if row.figure.interval is not None else ", no interval"
    return f"{amount(row.figure.median, row.figure.unit)}{few}"


def _style(row: Row, looks: Looks) -> dict[str, Any]:
    """Filled where nothing is against the figure."""
    style = {"color": looks.colour(row.system), "fmt": looks.marker(row.system)}
    return {**style, "markerfacecolor": "white"} if row.remark else style


def _named(row: Row) -> str:
    return f"{row.label} ({row.remark})" if row.remark else row.label


def _spread(axes: Axes, at: float, samples: Times, colour: str) -> None:
    low, middle, high = float(samples.min()), float(np.median(samples)), float(samples.max())
    axes.plot([low, high], [at, at], color=colour, linewidth=0.8)
    if len(samples) <= _FEW:
        axes.plot(samples, np.full(len(samples), at), "|", color=colour, markersize=7, markeredgewidth=1)
    else:
        edges, density = densities(samples)
        axes.fill_between(edges, at - _HALF * density, at + _HALF * density, color=colour, alpha=0.4, linewidth=0)
    axes.plot([middle, middle], [at - _HALF, at + _HALF], color="black", linewidth=1.4)


def _strokes(axes: Axes, at: float, samples: Times, colour: str) -> None:
    """Each sample; those that no eye could tell apart are one stroke."""
    logs = np.log(samples)
    step = (float(np.ptp(logs)) / _STROKES if len(logs) else 0.0) or 1.0
    places = np.unique(np.round(logs / step), return_index=True)[1]
    axes.plot(samples[places], np.full(len(places), at - _HALF), "|", color=colour, markersize=5, markeredgewidth=0.7)


def densities(samples: Times) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values, and how densely samples lie there, the densest of them 1: a Gaussian kernel over their logarithms.

    Example:
        >>> values, density = densities(np.array([1.0, 2.0, 2.0, 2.0, 4.0]))
        >>> bool(1.8 < values[density.argmax()] < 2.2)
        True
    """
    logs = np.log(samples)
    quarter, third = np.quantile(logs, (0.25, 0.75))
    spread = min(float(logs.std()), float(third - quarter) / 1.34) or float(logs.std()) or 1e-3
    bandwidth = max(0.9 * spread * len(logs) ** -0.2, float(np.ptp(logs)) / 200)
    low, high = float(logs.min()) - bandwidth, float(logs.max()) + bandwidth
    counts, edges = np.histogram(logs, np.linspace(low, high, _BINS + 1))
    smooth = ndimage.gaussian_filter1d(counts.astype(float), bandwidth / (edges[1] - edges[0]), mode="constant")
    middle = (edges[1:] + edges[:-1]) / 2
    inside = smooth > 1e-3 * smooth.max()
    return np.exp(middle[inside]), smooth[inside] / smooth.max()


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
