"""Training runs: scores over time, and how many still go on without having reached the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from deep_bench.measure.pictures import tidy
from deep_bench.measure.units import duration, time_unit
from deep_bench.results.report.model import Picture
from deep_bench.results.report.plots.axes import Looks
from deep_bench.results.report.plots.svg import picture
from deep_bench.training.record import RunRecord, TrainingRecord
from deep_bench.training.runs import Runs

MOST_RUNS = 30
"""So many runs of a system are drawn at most."""

_SCORES = 2
_POINTS = 200


def pictures_of(record: TrainingRecord, name: str, title: str, looks: Looks) -> list[Picture]:
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
    pictures = [_score(record, f"{name}-score-{i}", title, score, looks) for i, score in enumerate(scores[:_SCORES])]
    if record.target is not None:
        pictures.append(_going(record, f"{name}-target", title, looks))
    return [panel for panel in pictures if panel is not None]


def drawn(record: TrainingRecord, label: str) -> list[RunRecord]:
    """The runs of a system that are drawn: the first of them."""
    return [run for run in record.runs if run.label == label][:MOST_RUNS]


def _score(record: TrainingRecord, name: str, title: str, score: str, looks: Looks) -> Picture | None:
    curves = [(run, _curve(run, score)) for label in record.labels() for run in drawn(record, label)]
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
            look: dict[str, Any] = {
                "color": looks.colour(label),
                "linestyle": looks.line(label),
                "marker": looks.marker(label),
            }
            for number, curve in enumerate(label_curves):
                shown = f"{label or 'run'}, {len(label_curves)} run{'s' * (len(label_curves) != 1)}" if number == 0 else None
                axes.plot(curve[:, 0] / scale, curve[:, 1], **look, markersize=3, linewidth=1, alpha=0.75, label=shown)
        if record.target is not None and record.target.score == score:
            axes.axhline(record.target.value, color="black", linewidth=1, linestyle=(0, (1, 2)), label="target")
        axes.set_xlim(left=0)
        axes.set_title(f"{title}: {score}", loc="left")
        axes.set_xlabel(f"time since training began ({unit})")
        axes.set_ylabel(f"{score} ({facts.unit})" if facts.unit else score)
        _finish(axes)

    last = "; ".join(f"{run.label} seed {run.seed}: {float(curve[-1, 1]):.4g} after {duration(float(curve[-1, 0]))}"
                     for run, curve in curves[:12])  # fmt: skip
    alt = f"{score} of {title} over time, a line for each of {len(curves)} runs; at the end {last}"
    caption = (
        f"{score}, {facts.direction} is better; each point is an evaluation, lines connect those of one run and say "
        "nothing of what was between them."
    )
    return picture(name, 3.1, draw, alt=alt, caption=caption)


def _curve(run: RunRecord, score: str) -> np.ndarray:
    """Seconds and values of the evaluations, not more than can be told apart."""
    points = np.array([(e.time_ns / 1e9, e.figures[score]) for e in run.evaluations if score in e.figures]).reshape(-1, 2)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) <= _POINTS:
        return points
    return points[np.unique(np.linspace(0, len(points) - 1, _POINTS).astype(int))]


def _going(record: TrainingRecord, name: str, title: str, looks: Looks) -> Picture | None:
    parts = [part for label in record.labels() if (part := Runs(record, label=label)).finished]
    if not parts:
        return None
    target = Runs(record).target
    scale, unit = time_unit(max(t.seconds for part in parts for t in part.to_target))
    goal = f"{target.score} {'≥' if target.direction == 'higher' else '≤'} {target.value:g}"

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        for part in parts:
            _steps(axes, part, scale, looks)
        axes.set_title(f"{title}: time to target", loc="left")
        axes.set_ylim(-0.03, 1.05)
        axes.set_xlim(left=0)
        axes.set_ylabel("share still going")
        axes.set_xlabel(f"time to {goal} ({unit})")
        _finish(axes)

    alt = f"Share of runs of {title} that have not reached {goal} yet, over time: " + "; ".join(map(_told, parts))
    caption = (
        "The Kaplan-Meier estimate; a cross marks a run that went on for so long without reaching the target. The band is "
        "the 95 % interval at each time, where there are runs enough."
    )
    return picture(name, 3.1, draw, alt=alt, caption=caption)


def _steps(axes: Axes, part: Runs, scale: float, looks: Looks) -> None:
    label = part.label or ""
    survival, every = part.survival(), part.to_target
    look: dict[str, Any] = {"color": looks.colour(label), "linestyle": looks.line(label)}
    end = max(t.seconds for t in every) / scale
    times = np.concatenate([[0.0], survival.times / scale, [end]])
    going = np.concatenate([[1.0], survival.going, survival.going[-1:] if len(survival.going) else [1.0]])
    axes.plot(
        times,
        going,
        drawstyle="steps-post",
        label=f"{label or 'runs'}, {survival.reached} of {survival.n} reached it",
        **look,
    )
    if len(survival.low):
        low, high = (np.concatenate([[1.0], _known(ends), _known(ends)[-1:]]) for ends in (survival.low, survival.high))
        axes.fill_between(times, low, high, step="post", color=look["color"], alpha=0.13, linewidth=0)
    late = np.array([t.seconds for t in every if not t.reached]) / scale
    heights = going[np.searchsorted(times[:-1], late, side="right") - 1]
    axes.plot(late, heights, "x", color=look["color"], markersize=6)


def _known(ends: np.ndarray) -> np.ndarray:
    """The ends of the band; where the formula has no value, what it had before."""
    values = [1.0]
    for value in ends:
        values.append(values[-1] if np.isnan(value) else float(value))
    return np.array(values[1:])


def _told(part: Runs) -> str:
    survival = part.survival()
    median = "no median" if survival.median is None else f"median {duration(survival.median)}"
    return f"{part.label or 'runs'}: {survival.reached} of {survival.n} reached it, {median}"


def _finish(axes: Axes) -> None:
    tidy(axes)
    axes.legend(frameon=False, loc="best")


def left_out(records: Sequence[TrainingRecord]) -> list[str]:
    """What is not drawn of these records, in sentences."""
    counts = [len([run for run in r.runs if run.label == label]) - MOST_RUNS for r in records for label in r.labels()]
    extra = sum(max(count, 0) for count in counts)
    return [f"{extra} runs are not drawn: of each system the first {MOST_RUNS} are"] if extra else []
