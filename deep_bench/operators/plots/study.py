"""Pictures of studies. Importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deep_bench.errors import InvalidArgument
from deep_bench.measure.pictures import SMALL, colour, marker, new_figure, tidy, write
from deep_bench.measure.statistics import select
from deep_bench.measure.units import time_unit
from deep_bench.operators.studies.trial import CaseResult, Trial

if TYPE_CHECKING:
    from deep_bench.operators.studies.result import Study

_VIOLINS = 8
"""So many cases are readable beside each other."""
_FORMATS = (("float64", 53), ("float32", 24), ("float16", 11), ("bfloat16", 8))


def draw(study: Study, file: Path, kind: str, cases: Sequence[str] | None = None) -> Path:
    """Draw a picture of a study; see `deep_bench.operators.studies.result.Study.plot`."""
    kinds: Mapping[str, Callable[[Study, Path, Sequence[str]], None]] = {
        "time": _times, "error": _errors, "violin": _violins, "roofline": _roofline,
    }  # fmt: skip
    if kind not in kinds:
        raise InvalidArgument(f"a picture of kind {kind!r}", f"one of {', '.join(kinds)}")
    chosen = study.cases if cases is None else tuple(cases)
    kinds[kind](study, file, chosen)
    return file


def _times(study: Study, file: Path, cases: Sequence[str]) -> None:
    """The median time with its 95 % interval over the size, both logarithmic."""
    figure, axes = _figure(study, cases, "median time of a call, 95 % interval")
    timed = _of(study, cases, lambda trial: trial.median() is not None)
    _require(timed, "was timed")
    size, what = _sizes(study, cases)
    scale, unit = _unit([t.median() or 0.0 for trials in timed.values() for t in trials])
    for number, (label, trials) in enumerate(timed.items()):
        x = [size(t.case) for t in trials]
        y = np.array([t.median() for t in trials], dtype=float) / scale
        ends = [t.interval() for t in trials]
        low = [m - (e.low / scale if e is not None else m) for m, e in zip(y, ends, strict=True)]
        high = [(e.high / scale if e is not None else m) - m for m, e in zip(y, ends, strict=True)]
        axes.errorbar(x, y, yerr=[np.maximum(low, 0), np.maximum(high, 0)], capsize=3, label=label, **_style(number))
        wrong = [(a, b) for a, b, t in zip(x, y, trials, strict=True) if not t.ok]
        if wrong:
            axes.plot(*zip(*wrong, strict=True), "x", color="red", markersize=10, markeredgewidth=1.5, zorder=4)
    if any(not t.ok for trials in timed.values() for t in trials):
        axes.plot([], [], "x", color="red", markersize=9, markeredgewidth=1.5, label="wrong, or of reduced precision")
    axes.set(xlabel=what, ylabel=f"median time of a call, 95 % interval ({unit})", xscale="log", yscale="log")
    _finish(figure, axes, file)


def _errors(study: Study, file: Path, cases: Sequence[str]) -> None:
    """The significant bits over the size."""
    figure, axes = _figure(study, cases, "precision of the results")
    judged = _of(study, cases, lambda trial: trial.significant_bits is not None and np.isfinite(trial.significant_bits))
    _require(judged, "has an error that was judged")
    size, what = _sizes(study, cases)
    highest = 0.0
    for number, (label, trials) in enumerate(judged.items()):
        bits = [float(t.significant_bits or 0.0) for t in trials]
        highest = max(highest, *bits)
        axes.plot([size(t.case) for t in trials], bits, label=label, **_style(number))
    for name, precision in _FORMATS:
        if precision <= highest + 6:
            axes.axhline(precision, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
            place = (1.01, precision)
            axes.annotate(name, place, xycoords=("axes fraction", "data"), fontsize=SMALL, color="0.4", va="center")
    axes.set(xlabel=what, ylabel="significant bits", xscale="log", ylim=(0, highest + 4))
    _finish(figure, axes, file)


def _violins(study: Study, file: Path, cases: Sequence[str]) -> None:
    """All samples that the medians are of, with the medians; of the cases that take longest, if there are many."""
    timed = _of(study, cases, lambda trial: trial.median() is not None)
    _require(timed, "was timed")
    weights = {case: max(_weight(study, label, case) for label in study.contestants) for case in cases}
    shown = [c for c in cases if c in sorted(weights, key=lambda c: -weights[c])[:_VIOLINS] and weights[c]]
    trials = [[t for t in ts if t.case.label in shown] for ts in timed.values()]
    scale, unit = _unit([t.median() or 0.0 for ts in trials for t in ts])
    figure = new_figure(5)
    axes = figure.subplots()
    count, width = len(timed), 0.8 / len(timed)
    for number, (label, these) in enumerate(zip(timed, trials, strict=True)):
        shade = colour(number)
        for trial in these:
            place = shown.index(trial.case.label) + (number - (count - 1) / 2) * width
            samples = np.concatenate(select(trial.blocks())[0]) / 1e9 / scale
            _violin(axes, samples, place, 0.9 * width, shade)
        axes.plot([], [], color=shade, linewidth=6, alpha=0.5, label=label)
    names = [study[study.contestants[0], case].case.name for case in shown]
    slanted: dict[str, Any] = {"rotation": 20, "ha": "right"} if max(map(len, names)) * len(names) > 90 else {}
    axes.set_xticks(range(len(shown)), labels=names, fontsize=SMALL, **slanted)
    axes.set(ylabel=f"time of a call ({unit}); line: median", yscale="log")
    left_out = f", the {len(shown)} that take longest of {len(cases)} cases" if len(shown) < len(cases) else ""
    axes.set_title(f"{_name(study)}: all samples{left_out}", loc="left", fontsize=11)
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
    from deep_bench.operators.plots.roofline import Point, plot

    if study.roofline is None:
        raise InvalidArgument(
            "no roofline of this machine was measured before this study",
            "one",
            "deep-bench roofline measures it; then run the study again",
        )
    points = []
    for trial in (t for t in study.trials if t.case.label in cases):
        median, cost, interval = trial.median(), trial.case.cost, trial.interval()
        if median is not None and cost is not None:
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            dtype = trial.case.facts.dtype or "float32"
            points.append(Point(trial.case.name, cost, median, low, high, dtype, trial.label))
    if not points:
        raise InvalidArgument("no case has a known cost and was timed", "operators with FLOPs and bytes that can be counted")
    plot(study.roofline, file, points)


def _figure(study: Study, cases: Sequence[str], what: str) -> tuple[Figure, Axes]:
    figure = new_figure(4.5)
    axes = figure.subplots()
    axes.set_title(f"{_name(study)}: {what}, {len(cases)} cases", loc="left", fontsize=11)
    return figure, axes


def _finish(figure: Figure, axes: Axes, file: Path) -> None:
    tidy(axes)
    axes.legend(frameon=False, fontsize=9)
    write(figure, file)


def _of(study: Study, cases: Sequence[str], fits: Callable[[Trial], bool]) -> dict[str, list[Trial]]:
    """The trials of each contestant that has some."""
    found = {
        label: [t for case in cases if (t := study[label].get(case)) is not None and fits(t)] for label in study.contestants
    }
    return {label: trials for label, trials in found.items() if trials}


def _require(found: Mapping[str, Sequence[Trial]], what: str) -> None:
    if not found:
        raise InvalidArgument(f"no contestant {what}", "at least one, on one case")


def _sizes(study: Study, cases: Sequence[str]) -> tuple[Callable[[CaseResult], float], str]:
    """What to call the size of a case: its FLOPs if all have some, else its bytes, else its elements."""
    costs = [study[study.contestants[0], case].case.cost for case in cases]
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
