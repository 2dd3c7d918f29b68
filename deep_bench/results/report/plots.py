"""The plots of reports, as SVG that can stand within a page. Importing this module needs matplotlib.

Rows: for each system a median with its interval, and how the raw samples are distributed. Communication: times over bytes,
measured and predicted. Scaling: each line is marked as predicted, what was measured as measured. Training: scores over time,
and how many runs still go on without having reached the target.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, exp, floor, isfinite, log, log10
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray
from scipy import ndimage

from deep_bench.distributed.collectives.result import BenchmarkRow, CommunicationResult
from deep_bench.distributed.plots import draw_benchmark, draw_speed_up, draw_step, interval_ends
from deep_bench.distributed.scaling.record import ScalingRecord, speed_up
from deep_bench.measure.statistics import Times
from deep_bench.measure.units import amount, duration, in_bytes, significant, time_unit
from deep_bench.records.pictures import colour, marker, new_figure, tidy
from deep_bench.results.report.model import Picture, clean
from deep_bench.results.result import Figure
from deep_bench.results.results import amount_text, interval_text
from deep_bench.training.record import RunRecord, TrainingRecord
from deep_bench.training.results import Runs

WIDTH = 4.7
"""Of a panel, in inches: two stand beside each other on a page, and one fits a telephone."""


_LONGEST, _LONGEST_UPRIGHT = 62, 34
"""Characters of a text in a panel, and of one that stands beside a vertical axis."""


_SVG_NAMESPACE = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONTS = "system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif"
_SVG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_LOCAL_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_SVG_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and enlarged
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.unicode_minus": False,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
}


def svg_picture(name: str, height: float, draw: Callable[[Drawing], None], *, alt: str, caption: str) -> Picture:
    """Draw a panel.

    Args:
        name: Of the plot: the same name and data give the same bytes.
        height: In inches.
        draw: Fills the empty figure that it is given.
        alt: What it shows.
        caption: Below it.
    """
    with mpl.rc_context({**_SVG_SETTINGS, "svg.hashsalt": name}):
        figure = new_figure(height, WIDTH)
        draw(figure)
        for text in figure.findobj(Text):
            # see that a text is one that can be shown, and leaves room for what is drawn
            text.set_text(_short_title(clean(text.get_text()), _LONGEST_UPRIGHT if text.get_rotation() else _LONGEST))
        out = io.StringIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # the page's fonts show the text, not matplotlib's
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Picture(name, within_page(out.getvalue(), name, alt), clean(alt), clean(caption))


def within_page(source: str, name: str, alt: str) -> str:
    """SVG as matplotlib writes it, made fit to stand in a page beside others.

    Names get that of the plot in front, those to which nothing refers go; so do style sheets, which would reach out to the
    page, and the fonts, so that the page's own is taken.
    """
    root = ElementTree.fromstring(source)
    for parent in root.iter():
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    numbers = {reference: f"{name}-{number}" for number, reference in enumerate(_references(root))}
    for element in root.iter():
        _rename_references(element, numbers)
    width, height = (float(part) for part in root.attrib["viewBox"].split()[2:])
    root.attrib |= {
        "width": f"{width * 4 / 3:.0f}", "height": f"{height * 4 / 3:.0f}", "role": "img", "aria-label": clean(alt),
        "font-family": _FONTS, "fill": "#1b1f24", "style": "stroke-linejoin:round;stroke-linecap:butt",
    }  # fmt: skip
    root.attrib.pop("version", None)
    ElementTree.register_namespace("", _SVG_NAMESPACE[1:-1])
    return ElementTree.tostring(root, encoding="unicode")


def _references(root: ElementTree.Element) -> list[str]:
    """The names to which something refers, in their order."""
    references: dict[str, None] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            references |= dict.fromkeys([value[1:]] if key == _HREF else _LOCAL_REFERENCE.findall(value))
    return list(references)


def _rename_references(element: ElementTree.Element, numbers: dict[str, str]) -> None:
    attributes: dict[str, Any] = {}
    for key, value in element.attrib.items():
        if key == "id":
            if value in numbers:
                attributes["id"] = numbers[value]
        elif key == _HREF:
            attributes["href"] = f"#{numbers[value[1:]]}"
        elif key == "style":
            # without the family of the font
            style = _LOCAL_REFERENCE.sub(lambda match: f"url(#{numbers[match[1]]})", value)
            parts = [re.sub(r"^font:\s*", "font:", part.strip()) for part in style.split(";")]
            declarations = []
            for part in parts:
                if part.startswith("font:"):
                    declarations += [f"font-size:{size}" for size in re.findall(r"[\d.]+px", part)[:1]]
                elif part and not part.startswith("font-family"):
                    declarations.append(part)
            attributes["style"] = ";".join(declarations)
        else:
            value = _LOCAL_REFERENCE.sub(lambda match: f"url(#{numbers[match[1]]})", value)
            attributes[key] = _SVG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}", value)
    element.attrib.clear()
    element.attrib.update(attributes)


_SPREAD = 4.0
"""From this ratio of the largest to the smallest value on, an axis is logarithmic."""


_MOST_TICKS = 6
_LEAST_SPREAD = 1e-305
_LINE_STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Looks:
    """Colour, marker and line of each system, the same in all plots of a report.

    Args:
        numbers: System to its number.
    """

    numbers: Mapping[str, int]

    def colour(self, system: str) -> str:
        """Its colour."""
        return colour(self.numbers.get(system, 0))

    def marker(self, system: str) -> str:
        """Its marker."""
        return marker(self.numbers.get(system, 0))

    def stroke(self, system: str) -> dict[str, Any]:
        """The colour and kind of its lines."""
        return {"color": self.colour(system), "linestyle": _LINE_STYLES[self.numbers.get(system, 0) % len(_LINE_STYLES)]}


def value_axis(axes: Axes, low: float, high: float, unit: str) -> None:
    """Set the limits, scale and ticks of the horizontal axis for values between two.

    Args:
        axes: Which.
        low: The least value that is drawn.
        high: The largest.
        unit: Of the values.
    """
    span = log(high) - log(low) if low > 0 else 0.0
    logarithmic = span >= log(_SPREAD)
    if logarithmic:
        axes.set_xscale("log")
        room = exp(0.06 * span)
        low, high = max(low / room, _LEAST_SPREAD), min(high * room, 1 / _LEAST_SPREAD)
    else:
        room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = low - room, high + room
    axes.set_xlim(low, high)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(set_ticks(low, high) if logarithmic else _linear_axis(low, high, unit))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: set_label(value, unit)))
    tidy(axes, axis="x")


def set_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis between two values above 0.

    Example:
        >>> set_ticks(0.9, 120), set_ticks(3.1, 3.9), [f"{tick:g}" for tick in set_ticks(1e-9, 1.0)]
        ([1.0, 3.0, 10.0, 30.0, 100.0], [3.2, 3.4, 3.6, 3.8], ['1e-09', '1e-07', '1e-05', '0.001', '0.1'])
    """
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        positions = [step * 10.0**decade for decade in decades for step in steps]
        positions = [value for value in positions if low <= value <= high]
        if len(positions) <= _MOST_TICKS:
            break
    else:
        positions = positions[:: ceil(len(positions) / _MOST_TICKS)]
    if len(positions) >= 3:
        return positions
    return [float(f"{value:.12g}") for value in MaxNLocator(4).tick_values(low, high) if low <= value <= high]


def _linear_axis(low: float, high: float, unit: str) -> list[float]:
    scale = time_unit(high)[0] if unit == "s" else 1.0  # whole numbers of the unit that is shown
    return [value * scale for value in MaxNLocator(4).tick_values(low / scale, high / scale) if low <= value * scale <= high]


def set_label(value: float, unit: str) -> str:
    """A value at a tick.

    Example:
        >>> from itertools import starmap
        >>> values = [(0.0005, "s"), (25e6, "B/s"), (0.25, ""), (0, "s"), (5e9, "samples/s")]
        >>> tuple(starmap(set_label, values))
        ('500 µs', '25 MB/s', '0.25', '0', '5e+09')
    """
    if value == 0:
        return "0"
    if unit == "s":
        scale, name = time_unit(abs(value))
        return f"{value / scale:.4g} {name}"
    if unit in ("B", "B/s"):
        return amount(value, unit, digits=None)
    return f"{value:.4g}"


_FEW_SAMPLES = 20
"""So many samples are drawn one by one; of more, their density."""


_BINS = 128
_STROKES = 400
_HALF_HEIGHT = 0.26
_ROW_HEIGHT, _FRAME_HEIGHT = 0.44, 0.75


@dataclass(frozen=True)
class PlotRow:
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


def interval_picture(name: str, title: str, rows: Sequence[PlotRow], looks: Looks) -> Picture | None:
    """The median of each row with its interval; ``None`` where no median is a number."""
    finite_rows = [row for row in rows if isfinite(row.figure.median)]
    if not finite_rows:
        return None
    unit = finite_rows[0].figure.unit
    ends = [value for row in finite_rows for value in _figure_ends(row.figure)]

    def draw(drawing: Drawing) -> None:
        axes = _row_axes(
            drawing,
            title,
            finite_rows,
            [
                f"{amount_text(row.figure.median, unit)}{'' if row.figure.interval is not None else ', no interval'}"
                for row in finite_rows
            ],
        )
        for number, row in enumerate(finite_rows):
            low, high = _figure_ends(row.figure)
            middle, colour = row.figure.median, looks.colour(row.system)
            axes.errorbar(
                [middle],
                [-number],
                xerr=[[middle - low], [high - middle]],
                fmt=looks.marker(row.system),
                color=colour,
                markerfacecolor="white" if row.remark else colour,  # filled where nothing is against the figure
                capsize=4,
                markersize=6,
            )
        value_axis(axes, min(ends), max(ends), unit)
        axes.set_xlabel(f"{finite_rows[0].figure.name}, {finite_rows[0].figure.direction} is better")

    alt = f"{title}: " + "; ".join(f"{_row_title(row)}: median {amount_text(row.figure.median, unit)}, "
                                   f"95 % interval {interval_text(row.figure)}" for row in finite_rows)  # fmt: skip
    caption = "Medians with their 95 % intervals; a marker without a bar has too few samples for one."
    return svg_picture(name, _FRAME_HEIGHT + _ROW_HEIGHT * len(finite_rows), draw, alt=alt, caption=caption)


def distribution_picture(name: str, title: str, rows: Sequence[PlotRow], looks: Looks) -> Picture | None:
    """The density of all raw samples of each row; ``None`` where no row has several samples."""
    sampled_rows = [row for row in rows if len(row.samples) > 1]
    if not sampled_rows:
        return None
    raw = sampled_rows[0].raw
    every = np.concatenate([part for row in sampled_rows for part in (row.samples, row.aside)])

    def draw(drawing: Drawing) -> None:
        counts = [
            f"n = {len(row.samples)}{f', and {len(row.aside)} preempted' if len(row.aside) else ''}" for row in sampled_rows
        ]
        axes = _row_axes(drawing, title, sampled_rows, counts)
        for number, row in enumerate(sampled_rows):
            at = -number
            colour = looks.colour(row.system)
            low, middle, high = float(row.samples.min()), float(np.median(row.samples)), float(row.samples.max())
            axes.plot([low, high], [at, at], color=colour, linewidth=0.8)
            if len(row.samples) <= _FEW_SAMPLES:
                axes.plot(row.samples, np.full(len(row.samples), at), "|", color=colour, markersize=7, markeredgewidth=1)
            else:
                edges, density = densities(row.samples)
                axes.fill_between(
                    edges, at - _HALF_HEIGHT * density, at + _HALF_HEIGHT * density, color=colour, alpha=0.4, linewidth=0
                )
            axes.plot([middle, middle], [at - _HALF_HEIGHT, at + _HALF_HEIGHT], color="black", linewidth=1.4)
            # samples aside that no eye could tell apart are one stroke
            logs = np.log(row.aside)
            step = (float(np.ptp(logs)) / _STROKES if len(logs) else 0.0) or 1.0
            strokes = row.aside[np.unique(np.round(logs / step), return_index=True)[1]]
            below = np.full(len(strokes), at - _HALF_HEIGHT)
            axes.plot(strokes, below, "|", color=colour, markersize=5, markeredgewidth=0.7)
        value_axis(axes, float(every.min()), float(every.max()), raw.unit)
        axes.set_xlabel(f"{raw.name}, all samples")

    lines = []
    for row in sampled_rows:
        line = f"{_row_title(row)}: {len(row.samples)} {_sample_range(row.samples, row.raw.unit)}"
        aside = f" that count, and {len(row.aside)} {_sample_range(row.aside, row.raw.unit)} aside" if len(row.aside) else ""
        lines.append(line + aside)
    alt = f"{title}, all samples: " + "; ".join(lines)
    caption = (
        "How the raw samples are distributed: a line from the least to the largest, the density of more "
        f"than {_FEW_SAMPLES} "
        "samples, fewer one by one; the upright stroke is the median."
    )
    preempted = np.concatenate([row.aside for row in sampled_rows])
    if len(preempted):
        caption += (
            f" Short strokes below a line are {len(preempted)} samples {_sample_range(preempted, raw.unit)} during "
            "which another process "
            "had the processor: no median is of these times."
        )
    return svg_picture(name, _FRAME_HEIGHT + _ROW_HEIGHT * len(sampled_rows), draw, alt=alt, caption=caption)


def _sample_range(samples: Times, unit: str) -> str:
    return f"from {amount_text(float(samples.min()), unit)} to {amount_text(float(samples.max()), unit)}"


def _row_axes(drawing: Drawing, title: str, rows: Sequence[PlotRow], right: Sequence[str]) -> Axes:
    """Axes whose rows have their name above them, and a figure at the right."""
    axes = drawing.subplots()
    axes.set_title(title, loc="left")
    axes.set_ylim(-len(rows) + 0.55, 0.72)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for number, (row, text) in enumerate(zip(rows, right, strict=True)):
        where: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8.5}
        axes.text(0, 0.46 - number, _short_title(_row_title(row), 44), ha="left", **where)
        axes.text(1, 0.46 - number, text, ha="right", **where)
    return axes


def _figure_ends(figure: Figure) -> tuple[float, float]:
    """The ends of what is drawn of a figure."""
    interval = figure.interval
    ends = (figure.median, figure.median) if interval is None else (interval.low, interval.high)
    low, high = (end if isfinite(end) else figure.median for end in ends)
    return min(low, figure.median), max(high, figure.median)


def _row_title(row: PlotRow) -> str:
    return f"{row.label} ({row.remark})" if row.remark else row.label


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


def _short_title(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def communication_pictures(found: CommunicationResult, name: str, looks: Looks) -> list[Picture]:
    """A panel for each operation that has sizes.

    Args:
        found: The benchmark.
        name: With which the names of the plots begin.
        looks: Of the communicators.
    """
    pictures = []
    measured = [row for row in found.rows if row.kind.sized and row.seconds is not None]
    for kind in dict.fromkeys(row.kind.name for row in measured):
        rows = [row for row in measured if row.kind.name == kind]
        title, first, last = f"{kind}, {rows[0].ranks} ranks", rows[0], rows[-1]
        alt = (
            f"Time of {title} over bytes, measured on {', '.join(dict.fromkeys(row.system for row in rows))}: "
            f"{in_bytes(first.size)} in {duration(first.seconds)}, {in_bytes(last.size)} in {duration(last.seconds)}"
        )
        caption = (
            "Measured medians with 95 % intervals, not connected; dashed is what LogGP predicts for the cheapest known "
            "algorithm, not measured. A hollow marker stands for a wrong result."
        )
        draw = partial(_draw_operation, rows=rows, title=title, looks=looks)
        pictures.append(svg_picture(f"{name}-{kind}", 3.2, draw, alt=alt, caption=caption))
    return pictures


def _draw_operation(drawing: Drawing, rows: Sequence[BenchmarkRow], title: str, looks: Looks) -> None:
    axes = drawing.subplots()
    draw_benchmark(axes, rows, looks.colour, looks.marker)
    values = [value for row in rows for value in (*interval_ends(row), *([row.predicted.seconds] if row.predicted else []))]
    sizes = {max(row.size, 1): in_bytes(max(row.size, 1)) for row in rows}
    _finish_logarithmic(
        axes, title, ("bytes", sizes, 6), ("time of the operation", min(values) / 1.3, max(values) * 1.9, "s")
    )


def _finish_logarithmic(
    axes: Axes, title: str, across: tuple[str, Mapping[int, str], int], upright: tuple[str, float, float, str]
) -> None:
    """Scales, ticks and names of axes of which both are logarithmic.

    Args:
        axes: They are drawn on already.
        title: What is shown.
        across: The horizontal axis: its name, the label of each value, and how many have room.
        upright: The vertical axis: its name, its ends, and the unit.
    """
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    name, low, high, unit = upright
    axes.set_ylim(low, high)
    axes.set_yticks(marks := set_ticks(low, high), [set_label(mark, unit) for mark in marks])
    axes.set_ylabel(name)
    name, labels, most = across
    places = sorted(labels)
    every = -(-len(places) // most)
    axes.set_xticks(places[::every], [labels[place] for place in places[::every]])
    axes.set_xlabel(name)
    axes.set_title(title, loc="left")
    tidy(axes)
    axes.legend(frameon=False, loc="upper left")


def scaling_pictures(record: ScalingRecord, name: str, title: str) -> list[Picture]:
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
        svg_picture(f"{name}-step", 3.2, lambda drawing: _draw_steps(drawing, record, title),
                alt=f"Predicted time of a step of {title} over ranks: {summary}", caption=caption),
        svg_picture(f"{name}-speed-up", 3.2, lambda drawing: _draw_speed_ups(drawing, record, title),
                alt=f"Predicted speed-up of {title} over ranks, beside the ideal one: {summary}",
                caption=f"{speeds}{duration(record.alone)} a step. Dotted: the ideal, an upper bound."),
    ]  # fmt: skip


def _draw_steps(drawing: Drawing, record: ScalingRecord, title: str) -> None:
    axes, points = drawing.subplots(), record.points
    draw_step(axes, record)
    values = [v for p in points for v in (p.least, p.most, p.mean)] + [v for m in record.measured for v in (m.least, m.most)]
    upright = ("time of a step", min(v for v in values if v > 0) / 1.15, max(values) * 1.5, "s")
    _finish_logarithmic(axes, f"{title}: step, predicted", ("ranks", _rank_labels(record), 7), upright)


def _draw_speed_ups(drawing: Drawing, record: ScalingRecord, title: str) -> None:
    axes = drawing.subplots()
    draw_speed_up(axes, record)
    values = [v for p in record.points for v in (p.ranks, speed_up(record, p))]
    upright = ("times the samples a second of one", min(values) / 1.3, max(values) * 1.8, "")
    _finish_logarithmic(axes, f"{title}: speed-up, predicted", ("ranks", _rank_labels(record), 7), upright)


def _rank_labels(record: ScalingRecord) -> dict[int, str]:
    every = [*(point.ranks for point in record.points), *(run.ranks for run in record.measured)]
    return {ranks: str(ranks) for ranks in every}


MOST_RUNS = 30
"""So many runs of a system are drawn at most."""


_MOST_SCORES = 2
_MOST_POINTS = 200


def training_pictures(record: TrainingRecord, name: str, title: str, looks: Looks) -> list[Picture]:
    """A panel for each of the first scores, the target's before others, and one of the time to the target.

    Args:
        record: Of the runs.
        name: With which the names of the plots begin.
        title: What was trained.
        looks: Of the systems.
    """
    scores = list(dict.fromkeys(name for run in record.runs for name in run.scores))
    if record.target is not None:
        scores.sort(key=lambda score: record.target is not None and score != record.target.score)
    pictures = [
        _draw_score(record, f"{name}-score-{i}", title, score, looks) for i, score in enumerate(scores[:_MOST_SCORES])
    ]
    if record.target is not None:
        pictures.append(_going_panel(record, f"{name}-target", title, looks))
    return [panel for panel in pictures if panel is not None]


def drawn_runs(record: TrainingRecord, label: str) -> list[RunRecord]:
    """The runs of a system that are drawn: the first of them."""
    return [run for run in record.runs if run.label == label][:MOST_RUNS]


def _draw_score(record: TrainingRecord, name: str, title: str, score: str, looks: Looks) -> Picture | None:
    curves = [(run, _draw_curve(run, score)) for label in record.labels() for run in drawn_runs(record, label)]
    curves = [(run, curve) for run, curve in curves if len(curve)]
    if not curves:
        return None
    scale, unit = time_unit(max(float(curve[-1, 0]) for _, curve in curves))
    facts = next(run.scores[score] for run, _ in curves if score in run.scores)

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        labels = list(dict.fromkeys(run.label for run, _ in curves))
        for label in labels:
            label_curves = [curve for run, curve in curves if run.label == label]
            look: dict[str, Any] = {**looks.stroke(label), "marker": looks.marker(label)}
            for number, curve in enumerate(label_curves):
                shown = f"{label or 'run'}, {len(label_curves)} run{'s' * (len(label_curves) != 1)}" if number == 0 else None
                axes.plot(curve[:, 0] / scale, curve[:, 1], **look, markersize=3, linewidth=1, alpha=0.75, label=shown)
        if record.target is not None and record.target.score == score:
            axes.axhline(record.target.value, color="black", linewidth=1, linestyle=(0, (1, 2)), label="target")
        axes.set_xlim(left=0)
        axes.set_title(f"{title}: {score}", loc="left")
        axes.set_xlabel(f"time since training began ({unit})")
        axes.set_ylabel(f"{score} ({facts.unit})" if facts.unit else score)
        _finish_training(axes)

    last = "; ".join(f"{run.label} seed {run.seed}: {float(curve[-1, 1]):.4g} after {duration(float(curve[-1, 0]))}"
                     for run, curve in curves[:12])  # fmt: skip
    alt = f"{score} of {title} over time, a line for each of {len(curves)} runs; at the end {last}"
    caption = (
        f"{score}, {facts.direction} is better; each point is an evaluation, lines connect those of one run and say "
        "nothing of what was between them."
    )
    return svg_picture(name, 3.1, draw, alt=alt, caption=caption)


def _draw_curve(run: RunRecord, score: str) -> np.ndarray:
    """Seconds and values of the evaluations, not more than can be told apart."""
    points = np.array([(e.time_ns / 1e9, e.figures[score]) for e in run.evaluations if score in e.figures]).reshape(-1, 2)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) <= _MOST_POINTS:
        return points
    return points[np.unique(np.linspace(0, len(points) - 1, _MOST_POINTS).astype(int))]


def _going_panel(record: TrainingRecord, name: str, title: str, looks: Looks) -> Picture | None:
    parts = [part for label in record.labels() if (part := Runs(record, label=label)).finished]
    if not parts:
        return None
    target = Runs(record).target
    scale, unit = time_unit(max(t.seconds for part in parts for t in part.to_target))
    goal = f"{target.score} {'≥' if target.direction == 'higher' else '≤'} {target.value:g}"

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        for part in parts:
            _draw_survival(axes, part, scale, looks)
        axes.set_title(f"{title}: time to target", loc="left")
        axes.set_ylim(-0.03, 1.05)
        axes.set_xlim(left=0)
        axes.set_ylabel("share still going")
        axes.set_xlabel(f"time to {goal} ({unit})")
        _finish_training(axes)

    lines = []
    for part in parts:
        survival = part.survival()
        median = "no median" if survival.median is None else f"median {duration(survival.median)}"
        lines.append(f"{part.label or 'runs'}: {survival.reached} of {survival.n} reached it, {median}")
    alt = f"Share of runs of {title} that have not reached {goal} yet, over time: " + "; ".join(lines)
    caption = (
        "The Kaplan-Meier estimate; a cross marks a run that went on for so long without reaching the target. The band is "
        "the 95 % interval at each time, where there are runs enough."
    )
    return svg_picture(name, 3.1, draw, alt=alt, caption=caption)


def _draw_survival(axes: Axes, part: Runs, scale: float, looks: Looks) -> None:
    label = part.label or ""
    survival, every = part.survival(), part.to_target
    look = looks.stroke(label)
    times, going, *band = survival.curve(max(t.seconds for t in every))
    times = times / scale
    reached = f"{label or 'runs'}, {survival.reached} of {survival.n} reached it"
    axes.plot(times, going, drawstyle="steps-post", label=reached, **look)
    if band:
        low, high = band
        axes.fill_between(times, low, high, step="post", color=look["color"], alpha=0.13, linewidth=0)
    late = np.array([t.seconds for t in every if not t.reached]) / scale
    heights = going[np.searchsorted(times[:-1], late, side="right") - 1]
    axes.plot(late, heights, "x", color=look["color"], markersize=6)


def _finish_training(axes: Axes) -> None:
    tidy(axes)
    axes.legend(frameon=False, loc="best")


def runs_left_out(records: Sequence[TrainingRecord]) -> list[str]:
    """What is not drawn of these records, in sentences."""
    counts = [len([run for run in r.runs if run.label == label]) - MOST_RUNS for r in records for label in r.labels()]
    extra = sum(max(count, 0) for count in counts)
    return [f"{extra} runs are not drawn: of each system the first {MOST_RUNS} are"] if extra else []
