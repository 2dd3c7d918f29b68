"""A roofline plot: the roofs of this machine, and how near to them kernels come. Importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from deep_bench.measure.pictures import COLOURS, SMALL, colour, footnotes, marker, new_figure, tidy, write
from deep_bench.measure.roofline import Costed, Rate, Roofline
from deep_bench.operators.plots.marks import WRONG, mark_wrong

_POINTS = COLOURS[-2::-1]
"""From the other end than those of the roofs; black is the memory's."""

_LABELLED = 16
"""With more points than this their names would hide each other."""


@dataclass(frozen=True)
class Point:
    """Something that was timed.

    Args:
        label: What to call it.
        cost: What it computes and moves.
        seconds: What it took.
        low: The lower end of the time's interval.
        high: The upper end.
        dtype: The element type that it computes in.
        series: Points of one series look alike: a system.
        ok: Whether what it computes was not found wrong.
    """

    label: str
    cost: Costed
    seconds: float
    low: float | None = None
    high: float | None = None
    dtype: str = "float32"
    series: str = ""
    ok: bool = True


def plot(
    found: Roofline,
    file: Path,
    points: Sequence[Point] = (),
    *,
    threads: int | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """FLOP/s over FLOPs a byte, both logarithmic: a roof for each element type, and each point with its 95 % interval.

    What computes no FLOPs has no place there: its share of the bandwidth is written below.

    Args:
        found: The roofs.
        file: Where to write it; the name's end tells the format.
        points: What to show below them; with more than 16 they are not labelled.
        threads: The roofs of so many threads; by default of the most that were measured.
        notes: What else to write below.
    """
    counts = [rate.threads for rate in found.rates if rate.threads is not None and rate.value is not None]
    chosen = max(counts, default=None) if threads is None else threads
    bandwidth = found.bandwidth(threads=chosen)
    peaks = [found.peak(dtype, threads=chosen) for dtype in dict.fromkeys(r.dtype for r in found.rates if r.kind == "gemm")]
    roofs = sorted((peak for peak in peaks if peak is not None), key=lambda peak: peak.value or 0.0)
    placed = [point for point in points if point.cost.flops and point.cost.bytes]
    figure = new_figure(5)
    axes = figure.subplots()
    left_edge, right = _range(bandwidth, roofs, placed)
    for place, roof in enumerate(roofs):
        _draw_roof(axes, roof, bandwidth, (left_edge, right), colour(place))
    slope = None if bandwidth is None else _draw_bandwidth(axes, bandwidth, roofs, left_edge)
    _draw_points(axes, placed)
    axes.set(xscale="log", yscale="log", xlim=(left_edge, right))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("arithmetic intensity (FLOP/byte of compulsory traffic)")
    axes.set_ylabel("GFLOP/s, median and 95 % interval" if placed else "GFLOP/s")
    tidy(axes)
    number = "" if chosen is None else f", {chosen} thread{'' if chosen == 1 else 's'}"
    model = str(found.machine.get("cpu_model") or "this machine")
    axes.set_title(f"Roofline of {model}{number}, measured", loc="left", fontsize=11)
    _name_roofs(axes, roofs)
    _write_others(figure, found, points, chosen, notes)
    figure.draw_without_rendering()  # the layout is known from here on
    if slope is not None:
        _turn(axes, slope)
    return write(figure, file)


def _range(bandwidth: Rate | None, roofs: Sequence[Rate], points: Sequence[Point]) -> tuple[float, float]:
    """The intensities to show: those of the points and of the ridges, with room around them."""
    intensities = [point.cost.flops / point.cost.bytes for point in points]
    if bandwidth is not None and bandwidth.value:
        intensities += [roof.value / bandwidth.value for roof in roofs if roof.value]
    return min([*intensities, 1.0]) / 4, max([*intensities, 1.0]) * 12


def _draw_roof(axes: Axes, roof: Rate, bandwidth: Rate | None, limits: tuple[float, float], colour: str) -> None:
    """The peak of one element type, from where the memory no longer limits it."""
    assert roof.value is not None
    begin = limits[0] if bandwidth is None or not bandwidth.value else roof.value / bandwidth.value
    ends = [begin, limits[1]]
    axes.plot(ends, [roof.value / 1e9] * 2, color=colour, linewidth=1.8, solid_capstyle="round")
    if roof.low is not None and roof.high is not None:
        axes.fill_between(ends, roof.low / 1e9, roof.high / 1e9, color=colour, alpha=0.2, linewidth=0)


def _name_roofs(axes: Axes, roofs: Sequence[Rate]) -> None:
    """The names of the roofs, on the right of the picture, the lower ones moved down where they would overlap."""
    low, high = np.log10(axes.get_ylim())
    below = np.inf
    for place in range(len(roofs) - 1, -1, -1):
        roof = roofs[place]
        height = min((np.log10((roof.value or 1.0) / 1e9) - low) / (high - low), below - 0.045)
        below = height
        text = f"{roof.dtype}  {_short(roof)}  ({roof.by})"
        axes.annotate(text, (1.01, height), xycoords="axes fraction", va="center", color=colour(place), fontsize=SMALL)


def _draw_bandwidth(axes: Axes, bandwidth: Rate, roofs: Sequence[Rate], left_edge: float) -> Annotation:
    """The diagonal: what the memory feeds, up to the highest peak."""
    assert bandwidth.value is not None
    top = max((roof.value or 0.0 for roof in roofs), default=bandwidth.value * 10)
    ends = np.array([left_edge, top / bandwidth.value])
    axes.plot(ends, ends * bandwidth.value / 1e9, color="black", linewidth=1.8, solid_capstyle="round")
    if bandwidth.low is not None and bandwidth.high is not None:
        axes.fill_between(
            ends, ends * bandwidth.low / 1e9, ends * bandwidth.high / 1e9, color="black", alpha=0.15, linewidth=0
        )
    text = f"memory  {bandwidth.value / 1e9:.3g} GB/s  ({bandwidth.kind}, {bandwidth.by})"
    place = (left_edge * 1.15, left_edge * 1.15 * bandwidth.value / 1e9)
    return axes.annotate(
        text, place, (-3, 5), textcoords="offset points", fontsize=SMALL, rotation=45, rotation_mode="anchor"
    )


def _turn(axes: Axes, text: Annotation) -> None:
    """Lay a text along the diagonal through its place."""
    x, y = text.xy
    begin, end = axes.transData.transform([(x, y), (2 * x, 2 * y)])
    text.set_rotation(float(np.degrees(np.arctan2(end[1] - begin[1], end[0] - begin[0]))))


def _draw_points(axes: Axes, points: Sequence[Point]) -> None:
    series = list(dict.fromkeys(point.series for point in points))
    for number, name in enumerate(series):
        group = [point for point in points if point.series == name]
        x = [point.cost.flops / point.cost.bytes for point in group]
        y = np.array([point.cost.flops / point.seconds / 1e9 for point in group])
        slowest = np.array([point.cost.flops / (point.high or point.seconds) / 1e9 for point in group])
        fastest = np.array([point.cost.flops / (point.low or point.seconds) / 1e9 for point in group])
        axes.errorbar(
            x, y, yerr=[np.maximum(y - slowest, 0), np.maximum(fastest - y, 0)], fmt=marker(number),
            color="0.15", markerfacecolor=_POINTS[number % len(_POINTS)], markersize=6, capsize=3, linewidth=1,
            label=name or None, zorder=3,
        )  # fmt: skip
    if len(points) <= _LABELLED:
        for point, offset in zip(points, _offsets(points), strict=True):
            place = (point.cost.flops / point.cost.bytes, point.cost.flops / point.seconds / 1e9)
            axes.annotate(point.label, place, offset, textcoords="offset points", fontsize=SMALL, va="center", zorder=4)
    mark_wrong(axes, [(p.cost.flops / p.cost.bytes, p.cost.flops / p.seconds / 1e9) for p in points if not p.ok])
    if any(series) or not all(point.ok for point in points):
        axes.legend(frameon=False, loc="lower right", fontsize=SMALL)


def _offsets(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Where labels go, in typographic points from theirs: to the right, and lower where the one above is too near."""
    order = sorted(range(len(points)), key=lambda i: -points[i].cost.flops / points[i].seconds)
    offsets = [(7.0, 0.0)] * len(points)
    placed: list[tuple[float, float]] = []
    for i in order:
        x = np.log10(points[i].cost.flops / points[i].cost.bytes)
        y = np.log10(points[i].cost.flops / points[i].seconds)
        lowest = min((b for a, b in placed if abs(a - x) < 0.5), default=np.inf)
        height = min(y, lowest - 0.12)
        placed.append((x, height))
        offsets[i] = (7.0, float(max((height - y) * 80, -40)))
    return offsets


def _write_others(
    figure: Figure, roofline: Roofline, points: Sequence[Point], threads: int | None, notes: Sequence[str]
) -> None:
    """What has no place in the picture."""
    parts = []
    for point in points:
        if point.cost.flops == 0 and point.cost.bytes:
            share = roofline.share(point.seconds, point.cost, dtype=point.dtype, threads=threads).memory
            statement = "unknown" if share is None else f"{100 * share:.0f} % of the bandwidth"
            parts.append(f"{point.label}: {statement}{'' if point.ok else f' ({WRONG})'}")
    if len(points) > _LABELLED:
        parts.append(f"{len(points)} points, not labelled")
    lines = [f"without FLOPs: {'; '.join(parts)}"] if parts and len(points) <= _LABELLED else parts
    lines += [note.partition(". ")[0] for note in roofline.notes]
    footnotes(figure, [*lines, *notes])


def _short(rate: Rate) -> str:
    value = rate.value or 0.0
    return f"{value / 1e12:.3g} T{rate.unit}" if value >= 1e12 else f"{value / 1e9:.3g} G{rate.unit}"
