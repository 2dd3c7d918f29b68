"""Pictures of studies. Importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deep_bench.errors import InvalidArgument
from deep_bench.measure.pictures import SMALL, colour, footnotes, marker, new_figure, tidy, write
from deep_bench.measure.statistics import select
from deep_bench.measure.units import time_unit
from deep_bench.operators.plots.marks import FAILED, mark_wrong, not_shown, number_of
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
    labels = study.cases if cases is None else [study[study.contestants[0], case].case.label for case in cases]
    kinds[kind](study, file, labels)
    return file


def _times(study: Study, file: Path, cases: Sequence[str]) -> None:
    """The median time with its 95 % interval over the size, both logarithmic."""
    timed = _of(study, cases, _unsized)
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
    footnotes(figure, not_shown(_asked(study, cases), _unsized))
    _finish(figure, axes, file)


def _errors(study: Study, file: Path, cases: Sequence[str]) -> None:
    """The significant bits over the size."""
    judged = _of(study, cases, _unjudged)
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
    footnotes(figure, not_shown(_asked(study, cases), _unjudged))
    _finish(figure, axes, file)


def _violins(study: Study, file: Path, cases: Sequence[str]) -> None:
    """All samples that the medians are of, with the medians; of the cases that take longest, if there are many."""
    timed = _of(study, cases, _untimed)
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
    footnotes(figure, not_shown(_asked(study, cases), _untimed))
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
    for trial in _asked(study, cases):
        median, cost, interval = trial.median(), trial.case.cost, trial.interval()
        if median is not None and cost is not None and not _uncounted(trial):
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            dtype = trial.case.facts.dtype or "float32"
            points.append(Point(trial.case.name, cost, median, low, high, dtype, trial.label, trial.ok))
    if not points:
        raise InvalidArgument("no case has a known cost and was timed", "operators with FLOPs and bytes that can be counted")
    plot(study.roofline, file, points, notes=not_shown(_asked(study, cases), _uncounted))


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


def _asked(study: Study, cases: Sequence[str]) -> list[Trial]:
    """All trials on these cases."""
    return [trial for trial in study.trials if trial.case.label in cases]


def _of(study: Study, cases: Sequence[str], unfit: Callable[[Trial], str]) -> dict[str, list[Trial]]:
    """The trials of each contestant that has some that can be shown."""
    fit = [trial for trial in _asked(study, cases) if not unfit(trial)]
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
