"""Pictures of operators: studies, the roofline of this machine, heat maps of errors. Importing it needs matplotlib."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator

from deep_bench.check.thresholds import LARGEST_RATIO
from deep_bench.errors import InvalidArgument
from deep_bench.measure.roofline import Costed, Rate, Roofline
from deep_bench.measure.statistics import select
from deep_bench.measure.units import time_unit
from deep_bench.operators.checks.backward import ErrorMap
from deep_bench.operators.studies.trial import CaseResult, Trial
from deep_bench.records.pictures import COLOURS, SMALL, colour, footnotes, marker, new_figure, shrunk, tidy, write

if TYPE_CHECKING:
    from deep_bench.operators.studies.result import Study

WRONG = "wrong, or of reduced precision"
"""What a cross means."""


FAILED = "failed"
"""The reason that comes first."""


_NAMES = 3
_LINES = 6
"""So many cases are named in a line, and so many lines are written, before the rest is counted."""


def mark_wrong(axes: Axes, places: Iterable[tuple[float, float]]) -> None:
    """A cross on each result that is not right, and what crosses mean in the legend; nothing where there is none."""
    wrong = list(places)
    if wrong:
        x, y = zip(*wrong, strict=True)
        look: dict[str, Any] = {"color": "red", "markersize": 10, "markeredgewidth": 1.5, "linestyle": "none", "zorder": 5}
        axes.plot(x, y, marker="x", label=WRONG, **look)


def not_shown(trials: Sequence[Trial], unfit: Callable[[Trial], str]) -> list[str]:
    """A line for each reason for which some of these are not in the picture: whose they are, and of which cases.

    Args:
        trials: All that was asked for.
        unfit: Why a trial cannot be shown; empty if it is.
    """
    cases: dict[tuple[str, str], list[str]] = defaultdict(list)
    for trial in trials:
        if reason := unfit(trial):
            cases[reason, trial.label].append(trial.case.name)
    labels = defaultdict(list)
    for (reason, label), names in cases.items():
        labels[reason, tuple(names)].append(label)
    every = {trial.label for trial in trials}
    lines = [
        f"not shown: {'all' if len(contestants) == len(every) > 1 else ', '.join(contestants)} on {_some(names)}: {reason}"
        for (reason, names), contestants in sorted(labels.items(), key=lambda item: item[0][0] != FAILED)
    ]
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"not shown: {len(lines) - _LINES + 1} more such"]


def number_of(cases: Collection[object]) -> str:
    """How many cases.

    Example:
        >>> number_of(["4x8"]), number_of(["4x8", "8x8"])
        ('1 case', '2 cases')
    """
    return f"{len(cases)} case{'' if len(cases) == 1 else 's'}"


def _some(names: Sequence[str]) -> str:
    return (
        ", ".join(names)
        if len(names) <= _NAMES
        else f"{', '.join(names[: _NAMES - 1])} and {len(names) - _NAMES + 1} more cases"
    )


_POINTS = COLOURS[-2::-1]
"""From the other end than those of the roofs; black is the memory's."""


_LABELLED = 16
"""With more points than this their names would hide each other."""


@dataclass(frozen=True)
class RooflinePoint:
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


def plot_roofline(
    found: Roofline,
    file: Path,
    points: Sequence[RooflinePoint] = (),
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
    # the intensities to show: those of the points and of the ridges, with room around them
    intensities = [point.cost.flops / point.cost.bytes for point in placed]
    if bandwidth is not None and bandwidth.value:
        intensities += [roof.value / bandwidth.value for roof in roofs if roof.value]
    left_edge, right = min([*intensities, 1.0]) / 4, max([*intensities, 1.0]) * 12
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
    # what has no place in the picture
    parts = []
    for point in points:
        if point.cost.flops == 0 and point.cost.bytes:
            share = found.share(point.seconds, point.cost, dtype=point.dtype, threads=chosen).memory
            statement = "unknown" if share is None else f"{100 * share:.0f} % of the bandwidth"
            parts.append(f"{point.label}: {statement}{'' if point.ok else f' ({WRONG})'}")
    if len(points) > _LABELLED:
        parts.append(f"{len(points)} points, not labelled")
    lines = [f"without FLOPs: {'; '.join(parts)}"] if parts and len(points) <= _LABELLED else parts
    lines += [note.partition(". ")[0] for note in found.notes]
    footnotes(figure, [*lines, *notes])
    figure.draw_without_rendering()  # the layout is known from here on
    if slope is not None:
        _turn(axes, slope)
    return write(figure, file)


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
        text = f"{roof.dtype}  {_short_label(roof)}  ({roof.by})"
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


def _draw_points(axes: Axes, points: Sequence[RooflinePoint]) -> None:
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
        for point, offset in zip(points, _label_offsets(points), strict=True):
            place = (point.cost.flops / point.cost.bytes, point.cost.flops / point.seconds / 1e9)
            axes.annotate(point.label, place, offset, textcoords="offset points", fontsize=SMALL, va="center", zorder=4)
    mark_wrong(axes, [(p.cost.flops / p.cost.bytes, p.cost.flops / p.seconds / 1e9) for p in points if not p.ok])
    if any(series) or not all(point.ok for point in points):
        axes.legend(frameon=False, loc="lower right", fontsize=SMALL)


def _label_offsets(points: Sequence[RooflinePoint]) -> list[tuple[float, float]]:
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


def _short_label(rate: Rate) -> str:
    value = rate.value or 0.0
    return f"{value / 1e12:.3g} T{rate.unit}" if value >= 1e12 else f"{value / 1e9:.3g} G{rate.unit}"


_VIOLINS = 8
"""So many cases are readable beside each other."""


_FORMATS = (("float64", 53), ("float32", 24), ("float16", 11), ("bfloat16", 8))


def plot_study(study: Study, file: Path, kind: str, cases: Sequence[str] | None = None) -> Path:
    """Draw a picture of a study; see `deep_bench.operators.studies.result.Study.plot`."""
    kinds: Mapping[str, Callable[[Study, Path, Sequence[str]], None]] = {
        "time": _times, "error": _errors, "violin": _violins, "roofline": _roofline,
    }  # fmt: skip
    if kind not in kinds:
        raise InvalidArgument(f"a picture of kind {kind!r}", f"one of {', '.join(kinds)}")
    labels = study.cases if cases is None else [study[study.contestants[0], case].case.label for case in cases]
    kinds[kind](study, file, labels)
    return file


def _times(study: Study, file: Path, cases: Sequence[str]) -> None:
    """The median time with its 95 % interval over the size, both logarithmic."""
    timed = _fit_trials(study, cases, _unsized)
    _require(timed, "was timed on a case that has a size")
    figure, axes = _figure(study, timed, "median time of a call, 95 % interval")
    size, quantity = _sizes(timed)
    scale, unit = _unit([t.median() or 0.0 for trials in timed.values() for t in trials])
    for number, (label, trials) in enumerate(timed.items()):
        x = [size(t.case) for t in trials]
        y = np.array([t.median() for t in trials], dtype=float) / scale
        ends = [t.interval() for t in trials]
        low = [m - (e.low / scale if e is not None else m) for m, e in zip(y, ends, strict=True)]
        high = [(e.high / scale if e is not None else m) - m for m, e in zip(y, ends, strict=True)]
        axes.errorbar(x, y, yerr=[np.maximum(low, 0), np.maximum(high, 0)], capsize=3, label=label, **_style(number))
    mark_wrong(axes, [(size(t.case), (t.median() or 0.0) / scale) for ts in timed.values() for t in ts if not t.ok])
    axes.set(xlabel=quantity, ylabel=f"median time of a call, 95 % interval ({unit})", xscale="log", yscale="log")
    footnotes(figure, not_shown(_trials_on(study, cases), _unsized))
    _finish(figure, axes, file)


def _errors(study: Study, file: Path, cases: Sequence[str]) -> None:
    """The significant bits over the size."""
    judged = _fit_trials(study, cases, _unjudged)
    _require(judged, "has an error that was judged")
    figure, axes = _figure(study, judged, "precision of the results")
    size, quantity = _sizes(judged)
    for number, (label, trials) in enumerate(judged.items()):
        axes.plot([size(t.case) for t in trials], [_bits(t) for t in trials], label=label, **_style(number))
    mark_wrong(axes, [(size(t.case), _bits(t)) for trials in judged.values() for t in trials if not t.ok])
    bits = [_bits(t) for trials in judged.values() for t in trials]
    for name, precision in _FORMATS:
        if precision <= max(bits) + 6:
            axes.axhline(precision, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
            place = (1.01, precision)
            axes.annotate(name, place, xycoords=("axes fraction", "data"), fontsize=SMALL, color="0.4", va="center")
    axes.set(xlabel=quantity, ylabel="significant bits", xscale="log", ylim=(min(0, min(bits) - 4), max(0, *bits) + 4))
    footnotes(figure, not_shown(_trials_on(study, cases), _unjudged))
    _finish(figure, axes, file)


def _violins(study: Study, file: Path, cases: Sequence[str]) -> None:
    """All samples that the medians are of, with the medians; of the cases that take longest, if there are many."""
    timed = _fit_trials(study, cases, _untimed)
    _require(timed, "was timed")
    weights = {case: max(_weight(study, label, case) for label in study.contestants) for case in cases}
    shown = [c for c in cases if c in sorted(weights, key=lambda c: -weights[c])[:_VIOLINS] and weights[c]]
    trials = [[t for t in ts if t.case.label in shown] for ts in timed.values()]
    scale, unit = _unit([t.median() or 0.0 for ts in trials for t in ts])
    figure = new_figure(5)
    axes = figure.subplots()
    count, width, wrong = len(timed), 0.8 / len(timed), []
    for number, (label, group) in enumerate(zip(timed, trials, strict=True)):
        shade = colour(number)
        for trial in group:
            place = shown.index(trial.case.label) + (number - (count - 1) / 2) * width
            samples = np.concatenate(select(trial.blocks())[0]) / 1e9 / scale
            _violin(axes, samples, place, 0.9 * width, shade)
            wrong += [] if trial.ok else [(place, float(np.median(samples)))]
        axes.plot([], [], color=shade, linewidth=6, alpha=0.5, label=label)
    mark_wrong(axes, wrong)
    names = [study[study.contestants[0], case].case.name for case in shown]
    slanted: dict[str, Any] = {"rotation": 20, "ha": "right"} if max(map(len, names)) * len(names) > 90 else {}
    axes.set_xticks(range(len(shown)), labels=names, fontsize=SMALL, **slanted)
    axes.set(ylabel=f"time of a call ({unit}); line: median", yscale="log")
    left_out = f", the {len(shown)} that take longest of {number_of(cases)}" if len(shown) < len(cases) else ""
    axes.set_title(f"{_name(study)}: all samples{left_out}", loc="left", fontsize=11)
    footnotes(figure, not_shown(_trials_on(study, cases), _untimed))
    _finish(figure, axes, file)


def _violin(axes: Axes, samples: np.ndarray, place: float, width: float, shade: str) -> None:
    """The density of samples on a logarithmic axis, up to the 0.5th and 99.5th percentile; the median as a line."""
    low, high = np.quantile(samples, (0.005, 0.995))
    median = float(np.median(samples))
    logs = np.log(samples[(samples >= low) & (samples <= high)])
    if len(logs) > 1 and logs.max() > logs.min():
        edges = np.linspace(logs.min(), logs.max(), 61)
        counts, _ = np.histogram(logs, edges)
        kernel = np.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
        density = np.convolve(counts, kernel / kernel.sum(), mode="same")
        half = width / 2 * density / density.max()
        heights = np.exp((edges[1:] + edges[:-1]) / 2)
        axes.fill_betweenx(heights, place - half, place + half, color=shade, alpha=0.5, linewidth=0)
    axes.plot([place - width / 2, place + width / 2], [median, median], color=shade, linewidth=1.5, solid_capstyle="butt")


def _roofline(study: Study, file: Path, cases: Sequence[str]) -> None:
    """FLOP/s below the roofs of the machine."""

    if study.roofline is None:
        raise InvalidArgument(
            "no roofline of this machine was measured before this study",
            "one",
            "deep-bench roofline measures it; then run the study again",
        )
    points = []
    for trial in _trials_on(study, cases):
        median, cost, interval = trial.median(), trial.case.cost, trial.interval()
        if median is not None and cost is not None and not _uncounted(trial):
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            dtype = trial.case.facts.dtype or "float32"
            points.append(RooflinePoint(trial.case.name, cost, median, low, high, dtype, trial.label, trial.ok))
    if not points:
        raise InvalidArgument("no case has a known cost and was timed", "operators with FLOPs and bytes that can be counted")
    plot_roofline(study.roofline, file, points, notes=not_shown(_trials_on(study, cases), _uncounted))


def _figure(study: Study, shown: Mapping[str, Sequence[Trial]], subject: str) -> tuple[Figure, Axes]:
    figure = new_figure(4.5)
    axes = figure.subplots()
    number = number_of({trial.case.label for trials in shown.values() for trial in trials})
    axes.set_title(f"{_name(study)}: {subject}, {number}", loc="left", fontsize=11)
    return figure, axes


def _finish(figure: Figure, axes: Axes, file: Path) -> None:
    tidy(axes)
    axes.legend(frameon=False, fontsize=9)
    write(figure, file)


def _trials_on(study: Study, cases: Sequence[str]) -> list[Trial]:
    """All trials on these cases."""
    return [trial for trial in study.trials if trial.case.label in cases]


def _fit_trials(study: Study, cases: Sequence[str], unfit: Callable[[Trial], str]) -> dict[str, list[Trial]]:
    """The trials of each contestant that has some that can be shown."""
    fit = [trial for trial in _trials_on(study, cases) if not unfit(trial)]
    by_label = {label: [trial for trial in fit if trial.label == label] for label in study.contestants}
    return {label: trials for label, trials in by_label.items() if trials}


def _untimed(trial: Trial) -> str:
    """Why there is no time; empty if there is one."""
    if trial.median() is not None:
        return ""
    return FAILED if trial.record.error is not None else "not timed"


def _unsized(trial: Trial) -> str:
    """Why there is no time, or no size to show it at."""
    return _untimed(trial) or _empty(trial)


def _uncounted(trial: Trial) -> str:
    """Why there are no FLOP/s, or no B/s."""
    return _unsized(trial) or ("" if trial.case.cost is not None else "its cost is not known")


def _unjudged(trial: Trial) -> str:
    """Why there are no bits, or no size to show them at."""
    if trial.record.error is not None:
        return FAILED
    if _empty(trial) or trial.verdict in ("unchecked", "no information"):
        return _empty(trial) or trial.verdict
    return "" if trial.significant_bits is not None and np.isfinite(trial.significant_bits) else "nothing of it rounds"


def _empty(trial: Trial) -> str:
    """That a case has no size, if its outputs have no elements."""
    shapes = [tensor.shape for tensor in trial.case.facts.outputs or trial.case.facts.inputs]
    return "no elements" if shapes and all(0 in shape for shape in shapes) else ""


def _bits(trial: Trial) -> float:
    assert trial.significant_bits is not None
    return trial.significant_bits


def _require(by_label: Mapping[str, Sequence[Trial]], condition: str) -> None:
    if not by_label:
        raise InvalidArgument(f"no contestant {condition}", "at least one, on one case")


def _sizes(shown: Mapping[str, Sequence[Trial]]) -> tuple[Callable[[CaseResult], float], str]:
    """What to call the size of a case: its FLOPs if all have some, else its bytes, else its elements."""
    costs = [trial.case.cost for trials in shown.values() for trial in trials]
    if all(cost is not None and cost.flops for cost in costs):
        return lambda case: float(case.cost.flops) if case.cost is not None else 1.0, "size (FLOP)"
    if all(cost is not None and cost.bytes for cost in costs):
        return lambda case: float(case.cost.bytes) if case.cost is not None else 1.0, "size (bytes of compulsory traffic)"
    return lambda case: float(max(case.elements, 1)), "size (elements of all inputs and outputs)"


def _weight(study: Study, label: str, case: str) -> float:
    trial = study[label].get(case)
    return 0.0 if trial is None else (trial.median() or 0.0) * trial.case.facts.count


def _unit(seconds: Sequence[float]) -> tuple[float, str]:
    """In what to give times: what suits the middle one."""
    return time_unit(float(np.median(seconds)))


def _style(number: int) -> dict[str, Any]:
    """Markers without lines: between the sizes of a suite there is nothing to read."""
    return {"color": colour(number), "marker": marker(number), "linestyle": "none", "markersize": 6}


def _name(study: Study) -> str:
    assert study.record.suite is not None
    return study.record.suite.name


_MOST_CELLS = 200
"""So many rows and columns of colour at most; further ones share a cell, which shows the largest of them."""


_FLOOR = 0.1
_TOP = (1e4, 1e12)
"""The least and the greatest error that the colours end at."""


_BLACK = "#000000"


def plot_heat_map(maps: Sequence[ErrorMap], file: str | Path) -> Path:
    """Every element's error in units of what rounding explains, logarithmic, as a picture for each result.

    The last dimension runs to the right, all others downwards. Blue: up to 24 times, which rounding may give. Orange to red:
    more. Black: NaN, infinite or finite where the oracle is not. The largest error has a ring.

    Args:
        maps: From `deep_bench.operators.error_maps`.
        file: Where to write it; the name's end tells the format.

    Raises:
        InvalidArgument: There is nothing to show, or the file cannot be written.
    """
    shown = [error_map for error_map in maps if error_map.ratio.size]
    if not shown:
        raise InvalidArgument("no errors to show", "a result with floating-point elements")
    largest = max(float(np.max(f.ratio[np.isfinite(f.ratio)], initial=0.0)) for f in shown)
    norm = LogNorm(_FLOOR, float(np.clip(largest, *_TOP)))
    # blues as far as rounding goes, oranges and reds beyond
    assert norm.vmax is not None
    split = float(np.log(LARGEST_RATIO / _FLOOR) / np.log(norm.vmax / _FLOOR))
    low = [(split * t, colormaps["Blues"](0.05 + 0.65 * t)) for t in np.linspace(0, 1, 8)]
    high = [(split + (1 - split) * t, colormaps["YlOrRd"](0.35 + 0.65 * t)) for t in np.linspace(0, 1, 8)]
    colour_map = LinearSegmentedColormap.from_list("errors", [*low, *high], N=512)
    colours = colour_map.with_extremes(over=_BLACK, bad=_BLACK, under=colormaps["Blues"](0.0))
    figure = new_figure(0.6 + 2.6 * len(shown))
    rows = figure.subplots(len(shown), squeeze=False)[:, 0]
    for axes, error_map in zip(rows, shown, strict=True):
        _draw_heat_map(axes, error_map, norm, colours)
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=list(rows), pad=0.02, extend="max")
    bar.set_label(f"error / what rounding explains (line: {LARGEST_RATIO:g})", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.ax.axhline(LARGEST_RATIO, color="black", linewidth=1.2)
    return write(figure, file)


def _draw_heat_map(axes: Axes, error_map: ErrorMap, norm: LogNorm, colours: Colormap) -> None:
    shape = error_map.ratio.shape
    folded = error_map.ratio.reshape(prod(shape[:-1]), shape[-1]) if shape else error_map.ratio.reshape(1, 1)
    height, width = folded.shape
    cells = np.ma.masked_invalid(np.maximum(shrunk(folded, _MOST_CELLS), _FLOOR))
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(cells, norm=norm, cmap=colours, aspect="auto", interpolation="nearest", extent=extent)
    row, column = np.unravel_index(int(np.argmax(folded)), folded.shape)
    axes.plot(column, row, "o", markersize=11, markerfacecolor="none", markeredgecolor="black", clip_on=False)
    value = float(folded[row, column])
    place = list(error_map.worst)
    message = f"largest: {value:.3g} at {place}" if np.isfinite(value) else f"NaN or infinite at {place}"
    beyond = int(np.sum(folded > LARGEST_RATIO))
    axes.set_title(f"{error_map.title}\n{message}; {beyond} of {folded.size} beyond rounding", fontsize=SMALL, loc="left")
    axes.set_xlabel("last dimension" if len(shape) > 1 else "element", fontsize=SMALL)
    outer_sizes = " x ".join(map(str, shape[:-1]))
    axes.set_ylabel(f"row ({outer_sizes})" if len(shape) > 1 else "", fontsize=SMALL)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    if height == 1:
        axes.set_yticks([])
    axes.tick_params(labelsize=SMALL)
