"""Pictures of runs, timelines, compared optimizers and validated trainings. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.figure import Figure

from deep_bench.check.thresholds import END_TO_END_RATIO, INFORMATION
from deep_bench.errors import InvalidArgument
from deep_bench.measure.units import duration, time_unit
from deep_bench.records.pictures import SMALL, colour, marker, new_figure, tidy, whole_ticks, write
from deep_bench.training.timeline.phases import REST, Phase

if TYPE_CHECKING:
    from deep_bench.training.comparison import Mode, OptimizerComparison
    from deep_bench.training.results import Runs
    from deep_bench.training.run_state import History
    from deep_bench.training.scores import Direction, Score
    from deep_bench.training.validation import Validation

PhasePlotKind = Literal["steps", "violin"]

_MOST_COLUMNS = 400
_GREY = "#BBBBBB"


def plot_phase(phase: Phase, path: Path, kind: PhasePlotKind) -> Path:
    """Draw a picture of a phase; see `TimelineResult.plot`."""
    drawn = {"steps": _steps_figure, "violin": _violin_figure}
    if kind not in drawn:
        raise InvalidArgument(f"kind of picture {kind!r}", f"one of {', '.join(drawn)}")
    if not phase.n_steps:
        raise InvalidArgument(f"phase {phase.name!r} has no step that counts", "a loop of more steps than are kept apart")
    return write(drawn[kind](phase), path)


def _steps_figure(phase: Phase) -> Figure:
    """How the time of a step was split, stacked, over all steps; the mean of several steps where they are many."""
    split, first = phase.split_ns(), len(phase.warm_up)
    starts = np.unique(np.linspace(0, phase.n_steps, min(phase.n_steps, _MOST_COLUMNS), endpoint=False).astype(int))
    counts = np.diff(starts, append=phase.n_steps)
    scale, unit = time_unit(float(np.median(phase.durations_ns)) / 1e9)
    heights = [np.add.reduceat(times, starts) / counts / 1e9 / scale for times in split.values()]
    figure = new_figure(4)
    axes = figure.subplots()
    colours = [_GREY if name == REST else colour(i) for i, name in enumerate(split)]
    edges = np.append(starts, phase.n_steps) + first
    floor = np.zeros(len(starts))
    for name, height, shade in zip(split, heights, colours, strict=True):
        axes.stairs(floor + height, edges, baseline=floor, fill=True, color=shade, label=name)
        floor = floor + height
    most = float(np.quantile(floor, 0.995)) * 1.3
    above = int(np.sum(floor > most))
    axes.set(xlabel="step", ylabel=f"time of a step ({unit})", xlim=(edges[0], edges[-1]), ylim=(0, most))
    together = f", means of {counts.max()}" if counts.max() > 1 else ""
    cut = f"; {above} above the picture" if above else ""
    axes.set_title(f"{phase.name}: where the time of a step goes{together}{cut}")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False)
    tidy(axes, axis="y")
    whole_ticks(axes)
    return figure


def _violin_figure(phase: Phase) -> Figure:
    """The distribution of each region's time, on a logarithmic scale, with its median."""
    rows = [row for row in phase.rows if row.summary is not None]
    figure = new_figure(1.2 + 0.55 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        times = np.maximum(phase.durations_of(row), 1) / 1e9
        logs = np.log10(times)
        if np.ptp(logs) > 0:
            bodies: Any = axes.violinplot(logs, [place], orientation="horizontal", widths=0.8, showextrema=False)["bodies"]
            for body in bodies:
                body.set(facecolor=colour(0), alpha=0.5)
        median = float(np.median(times))
        axes.plot([np.log10(median)], [place], "|", color="black", markersize=12)
        axes.annotate(
            duration(median), (np.log10(median), place), xytext=(0, 9), textcoords="offset points", ha="center", fontsize=8
        )
    axes.set_yticks(range(len(rows)), labels=["/".join(row.path) for row in rows])
    axes.invert_yaxis()
    low, high = axes.get_xlim()
    ticks = np.arange(np.ceil(low), np.floor(high) + 1)
    axes.set_xticks(ticks, labels=[duration_label(10.0**t) for t in ticks])
    axes.set(xlabel="time of one entry", title=f"{phase.name}: {phase.n_steps} steps, median of each region")
    tidy(axes, axis="x")
    return figure


def duration_label(seconds: float) -> str:
    """A power of ten as a time.

    Example:
        >>> duration_label(1e-5), duration_label(1.0)
        ('10 µs', '1 s')
    """
    scale, unit = time_unit(seconds * 1.0001)
    return f"{seconds / scale:.0f} {unit}"


_ERROR_TITLES: dict[str, str] = {"lock-step": "on the same gradients", "free": "on its own gradients"}
_VERDICT_MARKERS = "osv^Dx"


def plot_optimizers(found: OptimizerComparison, file: Path) -> Path:
    """See `OptimizerComparison.plot`."""
    shown = {row.mode for row in found.rows}
    modes: list[Mode] = [mode for mode in ("lock-step", "free") if mode in shown]
    figure = new_figure(4.4, 5.2 * len(modes) + 0.8)
    panels = np.atleast_1d(figure.subplots(1, len(modes), sharey=True))
    for number, (mode, axes) in enumerate(zip(modes, panels, strict=True)):
        _draw_errors(axes, found, mode)
        axes.set(title=_ERROR_TITLES[mode], xlabel="step", yscale="log")
        if not number:
            axes.set_ylabel("error over what rounding is estimated to make,\nthe worst parameter")
        tidy(axes)
        whole_ticks(axes)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize="small", loc="outside lower center", ncols=3)
    figure.suptitle(f"{found.dtype}; the reference is {found.reference}")
    return write(figure, file)


def _draw_errors(axes: Any, comparison: OptimizerComparison, mode: Mode) -> None:
    axes.axhspan(1e-3, 2.0**2.5, color="0.9", label="explained by rounding")
    highest = 10.0
    for number, verdict in enumerate(comparison.verdicts):
        steps: dict[int, float] = {}
        for row in comparison.rows:
            if row.label == verdict.label and row.mode == mode:
                ratio = row.error / row.estimate if row.estimate else 0.0
                steps[row.step] = max(steps.get(row.step, 0.0), ratio)
        heights = np.clip(list(steps.values()), 1e-2, None)
        style = {
            "color": colour(number),
            "marker": _VERDICT_MARKERS[number % len(_VERDICT_MARKERS)],
            "markersize": 3.5,
            "linewidth": 0.9,
        }
        axes.plot(list(steps), heights, label=f"{verdict.label}: {verdict.word}", alpha=0.85, **style)
        highest = max(highest, float(heights.max()))
    axes.set_ylim(1e-2, 3 * highest)
    axes.margins(x=0.02)


def draw_validation(validation: Validation, path: str | Path) -> Path:
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


def draw_runs(runs: Runs, file: str | Path) -> Path:
    """Above the time of each run, below the share of runs that have not reached the target yet.

    Raises:
        InvalidArgument: The file cannot be written, or there was no target.
    """
    parts = [part for part in runs.parts if part.finished]
    times = runs.to_target
    scale, unit = time_unit(max((t.seconds for t in times), default=1.0))
    rows = 0.22 * len(times)
    figure = new_figure(4.8 + rows)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1 + rows, 2.6))
    _dots(upper, parts, scale)
    for number, part in enumerate(parts):
        _curve(lower, part, scale, number)
    lower.set_ylim(-0.03, 1.03)
    lower.set_ylabel("share still going (Kaplan-Meier)")
    tidy(lower)
    target = runs.target
    sign = "≥" if target.direction == "higher" else "≤"
    lower.set_xlabel(f"time to {target.score} {sign} {target.value:g} ({unit}), lower is better")
    lower.set_xlim(left=0)
    figure.legend(*lower.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=len(parts) + 2)
    return write(figure, file)


def _dots(axes: Any, parts: list[Runs], scale: float) -> None:
    names: list[str] = []
    for number, part in enumerate(parts):
        for reached, style in ((True, {"marker": "o"}), (False, {"marker": ">", "markerfacecolor": "none"})):
            rows = [(len(names) + row, t.seconds / scale) for row, t in enumerate(part.to_target) if t.reached is reached]
            axes.plot(
                [x for _, x in rows],
                [row for row, _ in rows],
                linestyle="",
                color=colour(number),
                label=("reached", "went on without reaching it")[not reached] if number == 0 else None,
                **style,
            )
        names += [f"{part.label} seed {run.seed}".strip() for run in part.finished]
    axes.set_yticks(range(len(names)), names, fontsize=SMALL)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    tidy(axes, axis="x")


def _curve(axes: Any, runs: Runs, scale: float, number: int) -> None:
    survival = runs.survival()
    times, going, *band = survival.curve(max(t.seconds for t in runs.to_target))
    times = times / scale
    shade = colour(number)
    if band:
        low, high = band
        label = "95 % band, pointwise" if number == 0 else None
        axes.fill_between(times, low, high, step="post", color=shade, alpha=0.15, linewidth=0, label=label)
    axes.plot(times, going, drawstyle="steps-post", color=shade, label=runs.label or "estimate")
    if survival.median is not None:
        median = survival.median / scale
        label = "median" if number == 0 else None
        axes.plot([0, median, median], [0.5, 0.5, 0], ":", color=shade, linewidth=1, label=label)


def history_figure(history: History, scores: dict[str, Score], loss: str) -> Any:
    """The figure of a run.

    Args:
        history: The run.
        scores: What was evaluated; those with the same unit and direction share a panel.
        loss: Name of the loss; a score of this name is drawn beside that of training.
    """
    panels: dict[tuple[str, Direction], list[str]] = {}
    for name, score in scores.items():
        if name != loss:
            panels.setdefault((score.unit, score.direction), []).append(name)
    figure = new_figure(2.6 * (1 + len(panels)))
    axes = figure.subplots(1 + len(panels), 1, sharex=True, squeeze=False)[:, 0]
    _draw_loss(axes[0], history, loss if loss in scores else None)
    for panel, ((unit, direction), names) in zip(axes[1:], panels.items(), strict=True):
        for number, name in enumerate(names):
            _draw_score(panel, history, name, number + 1)
        label = names[0] if len(names) == 1 else "scores"
        panel.set_ylabel(f"{label}{f' ({unit})' if unit else ''}, {direction} is better", fontsize=SMALL + 1)
        if len(names) > 1:
            panel.legend(frameon=False)
        tidy(panel)
    axes[-1].set_xlabel("steps")
    whole_ticks(axes[-1])
    return figure


def _draw_loss(axes: Any, history: History, score: str | None) -> None:
    steps, low, middle, high = _windows(np.array(history.losses))
    if len(history.losses) > len(steps):
        axes.fill_between(steps, low, high, color=colour(0), alpha=0.2, linewidth=0)
    mark = "." if len(steps) < 60 else ""
    axes.plot(steps, middle, color=colour(0), linewidth=1, marker=mark, label="training")
    if score is not None:
        _draw_score(axes, history, score, 1, "evaluated")
    axes.set_ylabel("loss")
    if len(history.losses):
        axes.legend(frameon=False)
    tidy(axes)


def _draw_score(axes: Any, history: History, name: str, number: int, label: str = "") -> None:
    evaluations = [e for e in history.evaluations if name in e.figures]
    values = [e.figures[name] for e in evaluations]
    style = {"color": colour(number), "marker": marker(number), "markersize": 4, "linewidth": 1.2}
    axes.plot([e.step for e in evaluations], values, label=label or name, **style)


def _windows(losses: np.ndarray) -> tuple[np.ndarray, ...]:
    """Steps, and the lowest, median and highest loss of each group of neighbours."""
    parts = np.array_split(np.arange(len(losses)), min(len(losses), _MOST_COLUMNS) or 1)
    parts = [part for part in parts if len(part)]
    steps = np.array([part.mean() + 1 for part in parts])
    statistics = [[f(losses[part]) for part in parts] for f in (np.min, np.median, np.max)]
    return steps, *map(np.array, statistics)
