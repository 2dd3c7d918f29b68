"""Results of a `TrainingRecord`: all runs of a system are one result, each of them a launch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.measure.record import ErrorRecord
from deep_bench.results.reading.figures import SECOND, measured, named
from deep_bench.results.reading.labels import (
    cell_labels,
    framework_labels,
    labels,
    layout_labels,
    optimizer_labels,
    prefixed,
    system_labels,
)
from deep_bench.results.reading.sound import see_count, see_training
from deep_bench.results.result import Direction, Figure, Result
from deep_bench.training.history import History
from deep_bench.training.record import RunRecord, TargetRecord, TrainingRecord
from deep_bench.training.runs.figures import final, rate_groups, to_target
from deep_bench.training.runs.storage import load
from deep_bench.training.trainer import INTERRUPTED

TO_TARGET = "time to target"


def read(path: Path) -> list[Result]:
    """What the runs of each system gave.

    Raises:
        InvalidRecord: The file cannot be read, or holds no such record.
    """
    record = load(path)
    see_training(record, path)
    for number, run in enumerate(record.runs):
        if (batch := _batch(run.data.get("sampler", {}))) is not None:
            see_count(batch, path, f"runs.{number}.data.sampler.batch_size", 1)
    groups: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for run in sorted(record.runs, key=_failed_early):
        matches = (about for about, runs in groups.items() if _failed_early(run) and runs[0].label == run.label)
        groups.setdefault(next(matches, tuple(_run_labels(run).items())), []).append(run)
    return [_result(record, path, dict(about), runs) for about, runs in groups.items()]


def _failed_early(run: RunRecord) -> bool:
    """Whether it failed before it had a network and an optimizer to tell of."""
    return run.error is not None and run.network is None and not run.optimizer


def _result(record: TrainingRecord, path: Path, about: dict[str, str], runs: Sequence[RunRecord]) -> Result:
    finished = [run for run in runs if run.stopped_because != INTERRUPTED]
    shared = labels(
        kind="training",
        host=record.environment.hostname,
        seed=",".join(str(run.seed) for run in runs),
        launches=len(finished),
        epochs=record.recipe.options.get("epochs"),
        steps=record.recipe.options.get("steps"),
    )
    if record.target is not None:
        shared["target"] = f"{record.target.score}={record.target.value:g}"
    return Result(
        kind="training",
        file=path,
        created=record.created,
        labels=about | shared | cell_labels(record.recipe.options),
        figures=_figures(finished, record.target),
        errors=tuple(error for run in runs if (error := _error(run)) is not None),
        environment=record.environment,
        complete=record.complete and not record.interrupted,
        notes=tuple(_notes(record, runs, finished)),
    )


def _error(run: RunRecord) -> ErrorRecord | None:
    """Its own, or that its loss was lost: what it learned from then on is nothing."""
    if run.error is None and run.lost_from is not None:
        return ErrorRecord(kind="LossNotFinite", message=f"seed {run.seed}: no finite loss from step {run.lost_from} on")
    return run.error


def _run_labels(run: RunRecord) -> dict[str, str]:
    """All that tells a run from others but its seed, on which the digest of the network depends: it begins elsewhere."""
    by_label = system_labels(run.label) | labels(
        data=run.data.get("train", {}).get("name"),
        batch=_batch(run.data.get("sampler", {})),
        ranks=1 if run.ranks is None else len(run.ranks.ranks),
    )
    by_label |= framework_labels(run.framework)
    if run.ranks is not None:
        by_label |= layout_labels([rank.local.get("host", "") for rank in run.ranks.ranks], run.ranks.communicator)
    if run.network is not None:
        by_label |= labels(network=run.network.name) | prefixed("network", {"parameters": run.network.parameters})
    return by_label | optimizer_labels(run.optimizer, run.ranks is not None)


def _batch(sampler: Any) -> Any:
    """The batch of a sampler, or of the one within it."""
    while isinstance(sampler, dict):
        if "batch_size" in sampler:
            return sampler["batch_size"]
        sampler = sampler.get("of")
    return None


def _figures(runs: Sequence[RunRecord], target: TargetRecord | None) -> dict[str, Figure]:
    stepped = [run for run in runs if run.steps]
    histories = [run.history() for run in stepped]
    return named(
        [
            _time_to(runs, target),
            *_scores(stepped, histories),
            _throughput(histories),
            _of_runs("time", "s", "lower", [history.wall_ns / SECOND for history in histories]),
            _of_runs("setup", "s", "lower", [run.setup_ns / SECOND for run in stepped]),
            *measured([run.metrics for run in runs]),
        ]
    )


def _of_runs(
    name: str,
    unit: str,
    direction: Direction,
    values: Sequence[float],
    remark: str = "",
    censored: Sequence[bool] = (),
) -> Figure | None:
    launches = tuple((np.array([value], float),) for value in values)
    return Figure(name, unit, direction, launches, remark, tuple(censored)) if launches else None


def _time_to(runs: Sequence[RunRecord], target: TargetRecord | None) -> Figure | None:
    """The time of each run; one that missed the target went on for so long without reaching it."""
    if target is None:
        return None
    attempts = [to_target(run, target) for run in runs]
    late = [not attempt.reached for attempt in attempts]
    remark = f"{sum(late)} of {len(late)} runs missed the target: each counts as slower than all that reached it"
    seconds = [attempt.seconds for attempt in attempts]
    return _of_runs(TO_TARGET, "s", "lower", seconds, remark if any(late) else "", late if any(late) else ())


def _scores(runs: Sequence[RunRecord], histories: Sequence[History]) -> list[Figure | None]:
    """The last value of each score in each run."""
    facts = {name: score for run in runs for name, score in run.scores.items()}
    figures: list[Figure | None] = []
    for name, score in facts.items():
        last = [evaluated for history in histories if (evaluated := final(history, name)) is not None]
        figures.append(_of_runs(name, score.unit, score.direction, [evaluated.figures[name] for evaluated in last]))
    return figures


def _throughput(histories: Sequence[History]) -> Figure | None:
    launches = tuple(tuple(rate_groups(history)) for history in histories)
    remark = "of single steps; evaluations and what callbacks do are not counted"
    return Figure("throughput", "samples/s", "higher", launches, remark) if launches else None


def _notes(record: TrainingRecord, runs: Sequence[RunRecord], finished: Sequence[RunRecord]) -> list[str]:
    notes = list(record.notes)
    if record.target is not None and finished:
        reached = sum(to_target(run, record.target).reached for run in finished)
        notes.append(f"reached the target: {reached} of {len(finished)} runs")
    if len(finished) < len(runs):
        notes.append("a run that was interrupted counts in no figure")
    return notes
