"""Reference convergence points: does a submission need significantly less training to its target than the reference does?

References are points of convergence made of the logs of runs, and kept in the JSON form of MLPerf's own.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import inf, isfinite, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, RootModel
from scipy import stats

import deep_bench
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.mlperf.training.callback import kept_caches
from deep_bench.mlperf.training.check import scored_runs
from deep_bench.mlperf.training.logs import SUCCESS, Log, is_number, read_runs, result_folders
from deep_bench.mlperf.training.runs import planned
from deep_bench.records.store import read_model, written
from deep_bench.training.recipes import Recipe

LEVEL = 0.05
"""Of the one-sided test."""


_REJECTED = 1
"""So many of the fastest and of the slowest runs do not count."""


_FEWEST = 2 * _REJECTED + 1


@dataclass(frozen=True)
class ConvergencePoint:
    """How much training the reference takes with one batch size.

    Args:
        name: What it is called.
        batch: The global batch size.
        epochs: To the target, of each run.
        mean: Of those without the fastest and the slowest.
        deviation: Of all of them, as MLPerf's checker takes it (by n, not n - 1).
        runs: How many runs ``mean`` and ``deviation`` stand for in the test.
    """

    name: str
    batch: int
    epochs: tuple[float, ...]
    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, name: str, batch: int, epochs: Sequence[float]) -> ConvergencePoint:
        """By the epochs of some runs.

        Raises:
            InvalidArgument: Fewer than three runs, or a number that is not above 0.

        Example:
            >>> point = ConvergencePoint.of("ref", 128, [16, 14, 16, 17, 16, 16, 15, 16, 15, 16])
            >>> point.mean, round(point.deviation, 3), round(point.least(5), 3), round(point.least_by_text(5), 2)
            (15.75, 0.781, 14.781, 15.21)
        """
        if len(epochs) < _FEWEST or not all(isfinite(e) and e > 0 for e in epochs):
            raise InvalidArgument(
                f"epochs {list(epochs)} of {name}",
                f"at least {_FEWEST} numbers above 0: a reference whose runs all converged",
            )
        return cls(name, batch, tuple(epochs), trimmed_mean(epochs), float(np.std(epochs)), len(epochs) - 2 * _REJECTED)

    def least(self, runs: int) -> float:
        """The least mean number of epochs that a submission of so many runs may have, as MLPerf's checker has it."""
        return least_mean(self.mean, self.deviation, self.runs, runs - 2 * _REJECTED)

    def least_by_text(self, runs: int) -> float:
        """The same by the text of the rules, whose deviation leaves the fastest and the slowest run out: it is stricter."""
        retained = sorted(self.epochs)[_REJECTED:-_REJECTED]
        deviation = float(np.std(retained)) if retained else self.deviation
        return least_mean(self.mean, deviation, self.runs, runs - 2 * _REJECTED)


def trimmed_mean(epochs: Sequence[float]) -> float:
    """The mean without the fastest and the slowest run.

    Example:
        >>> trimmed_mean([15, 15, 15, 16, 17])
        15.333333333333334
    """
    return float(np.mean(sorted(epochs)[_REJECTED : len(epochs) - _REJECTED]))


def least_mean(mean: float, deviation: float, reference: int, submission: int) -> float:
    r"""The mean below which a submission is significantly faster than the reference.

    :math:`m - t_{1 - \alpha, n_1 + n_2 - 2} \, s \sqrt{1 / n_1 + 1 / n_2}`, Student's test of two samples of equal variance,
    one-sided, at the level of 5 %; not below 0.

    Args:
        mean, deviation: Of the reference; that of the submission is taken to be the same.
        reference, submission: How many runs count.

    Raises:
        InvalidArgument: There are too few for a test.

    Example:
        >>> round(least_mean(20.75, 0.661438, 8, 3), 2)
        19.93

    Source:
        MLCommons, *MLPerf training rules*, reference convergence points, and the examples in their appendix.
    """
    if reference < 1 or submission < 1 or reference + submission < 3:
        raise InvalidArgument(
            f"{reference} runs of the reference and {submission} of the submission that count",
            "at least one each, and three together",
            "the fastest and the slowest do not count: take more runs",
        )
    quantile = float(stats.t.ppf(1 - LEVEL, reference + submission - 2))
    return max(mean - quantile * deviation * sqrt(1 / reference + 1 / submission), 0.0)


@dataclass(frozen=True, eq=False)
class Reference:
    """The points of one benchmark.

    Args:
        benchmark: Its name.
        points: By batch size.
        runs: How many runs a submission has.
    """

    benchmark: str
    points: tuple[ConvergencePoint, ...]
    runs: int

    @cached_property
    def pruned(self) -> tuple[ConvergencePoint, ...]:
        """The points that count: larger batches need no less training, and none needs more than its neighbours say.

        The point that converges fastest has the smallest batch; each other is dropped if it converges slower than what lies
        on the line between those around it.
        """
        points = sorted(self.points, key=lambda point: point.batch)
        fastest = min(points, key=lambda point: point.mean)
        retained = [point for point in points if point.batch >= fastest.batch]
        at = 1
        while at < len(retained) - 1:
            if retained[at].mean > self.between(retained[at - 1], retained[at + 1], retained[at].batch).mean:
                del retained[at]  # as MLPerf's checker: the next is looked at in its place, those before it not again
            else:
                at += 1
        return tuple(retained)

    def between(self, low: ConvergencePoint, high: ConvergencePoint, batch: int) -> ConvergencePoint:
        """A point on the line between two, which stands for as many runs as the rules ask of a reference."""
        share = (batch - low.batch) / (high.batch - low.batch)
        mean, deviation = ((1 - share) * getattr(low, of) + share * getattr(high, of) for of in ("mean", "deviation"))
        return ConvergencePoint(f"between {low.name} and {high.name}", batch, (), mean, deviation, 2 * self.runs)

    def compared(self, batch: int, epochs: Sequence[float]) -> ConvergenceComparison:
        """What the test says of a submission.

        Args:
            batch: Its global batch size.
            epochs: To the target, of each run; infinity for one that missed it.

        Raises:
            InvalidArgument: Too few runs.
        """
        if len(epochs) < _FEWEST:
            raise InvalidArgument(f"{len(epochs)} runs", f"at least {_FEWEST}")
        missed = sum(e == inf for e in epochs)
        if missed > 1:
            return ConvergenceComparison(False, f"{missed} runs missed the target, and one may", batch, None, inf, self.runs)
        mean = trimmed_mean(epochs)
        exact = next((point for point in self.pruned if point.batch == batch), None)
        low = max((p for p in self.pruned if p.batch < batch), key=lambda p: p.batch, default=None)
        high = min((p for p in self.pruned if p.batch > batch), key=lambda p: p.batch, default=None)
        if exact is not None:
            point, reason = exact, f"against {exact.name}"
        elif high is None:
            reason = f"no point for batches as large as {batch}: run the reference with it"
            return ConvergenceComparison(False, reason, batch, None, mean, self.runs)
        elif low is not None:
            point = self.between(low, high, batch)
            reason = point.name
        else:
            point, reason = high, f"against {high.name}, which is stricter, as none has a smaller batch"
        passed = mean >= point.least(self.runs)
        if point is high and not passed:
            reason += f"; no point for batches as small as {batch}: run the reference with it"
        return ConvergenceComparison(passed, reason, batch, point, mean, self.runs)


@dataclass(frozen=True)
class ConvergenceComparison:
    """What the test says.

    Args:
        passed: Whether the submission may be.
        why: Against what, or why there is no test.
        batch: The submission's.
        point: Of the reference; ``None`` without a test.
        mean: The submission's mean number of epochs, without the fastest and the slowest run.
        runs: How many runs a submission has.
    """

    passed: bool
    why: str
    batch: int
    point: ConvergencePoint | None
    mean: float
    runs: int

    @property
    def factor(self) -> float:
        """What the score is to be multiplied by: a submission that needed less training by chance is not to gain by it."""
        return 1.0 if self.point is None else max(1.0, self.point.mean / self.mean)

    def lines(self) -> Iterator[str]:
        """What there is to say."""
        yield f"reference convergence points: {'passed' if self.passed else 'FAILED'}: {self.why}"
        if self.point is None:
            return
        point, least = self.point, self.point.least(self.runs)
        yield f"  batch {self.batch}: {self.mean:.4g} epochs to the target; the reference {point.mean:.4g}"
        yield f"  at least {least:.4g} by MLPerf's checker"
        if point.epochs:
            yield f"  at least {point.least_by_text(self.runs):.4g} by the text of the rules, which it does not follow"
        if self.passed and self.factor > 1:
            yield f"  below the reference's mean: the score is to be multiplied by {self.factor:.4g}"


def epochs_of(logs: Sequence[Log]) -> list[float]:
    """The epochs of each run to its target; infinite where it was missed."""
    return [inf if (epochs := log.converged_at("epoch_num")) is None else epochs for log in logs]


_FOLDER = Path(__file__).parent / "references"

REFERENCES = tuple(sorted(path.stem.removeprefix("rcps_") for path in _FOLDER.glob("rcps_*.json")))
"""Names of the recipes whose points ship."""


FIRST_SEED = 1000
"""Seeds of a reference begin here, so that its runs are no runs of a submission."""


class ConvergencePointRecord(BaseModel):
    """One point as it is kept; ``Benchmark`` to ``Epochs to converge`` are the fields of MLPerf's files.

    Attributes:
        command: What made it.
        target: The value of ``eval_accuracy`` that runs were to reach.
        every: The samples between evaluations: convergence is seen no finer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    benchmark: str = Field(alias="Benchmark")
    creator: str = Field(alias="Creator")
    when: str = Field(alias="When")
    platform: str = Field(alias="Platform")
    batch: int = Field(alias="BS", ge=1)
    hyperparameters: dict[str, Any] = Field(alias="Hyperparams")
    epochs: list[float] = Field(alias="Epochs to converge", min_length=3, max_length=10_000)
    command: str = Field(alias="Command", default="")
    target: float | None = Field(alias="Target", default=None)
    every: int | None = Field(alias="Samples between evaluations", default=None)


class ReferenceFile(RootModel[dict[str, ConvergencePointRecord]]):
    """A file of points: name to point."""


def read_reference(source: str | Path) -> ReferenceFile:
    """Read points.

    Args:
        source: A file, or the name of a recipe whose points ship (`REFERENCES`).

    Raises:
        InvalidRecord: It cannot be read, is no such file, is empty, or is of several benchmarks.
    """
    path = _FOLDER / f"rcps_{source}.json" if source in REFERENCES else Path(source)
    reference_file = read_model(
        path, ReferenceFile, "reference convergence points as deep-bench mlperf reference writes them"
    )
    if len({point.benchmark for point in reference_file.root.values()}) != 1:
        raise InvalidRecord(f"{path} is not of one benchmark", "points of one benchmark with several batch sizes")
    return reference_file


def reference_of(file: ReferenceFile, runs: int) -> Reference:
    """The points that a file holds, for submissions of so many runs."""
    points = tuple(ConvergencePoint.of(name, point.batch, point.epochs) for name, point in file.root.items())
    return Reference(next(iter(file.root.values())).benchmark, points, runs)


def compare(folder: str | Path, reference: str | Path) -> ConvergenceComparison:
    """The test of MLPerf's rules on the runs of a folder. A run whose log is not as it should be missed its target.

    Args:
        folder: That of their logs.
        reference: The file of points, or the name of a recipe whose points ship.

    Raises:
        InvalidRecord: One of them cannot be read, logs do not say what they are of, or they are not of different runs of
            one and the same.
        InvalidArgument: They are of another benchmark, target or frequency of evaluation than the reference.
    """
    score = scored_runs(Path(folder))
    for log, beside in zip(score.logs, score.unlike, strict=True):
        if beside:
            raise InvalidRecord(f"{log.path}: {beside[0]}", "different runs of one and the same")
    logs = [log for log in score.logs if log.all("global_batch_size")]
    file = read_reference(reference)
    batch, first = _common_value(logs, "global_batch_size"), next(iter(file.root.values()))
    for subject, ours, theirs in (
        ("benchmark", _common_value(logs, "submission_benchmark"), first.benchmark),
        ("target", _common_value(logs, "eval_target"), first.target),
        ("number of samples between evaluations", _every(logs), first.every),
    ):
        if theirs is not None and ours != theirs:
            raise InvalidArgument(f"runs with the {subject} {ours}", f"that of the reference, {theirs}")
    epochs = [inf if wrong else count for wrong, count in zip(score.faults, epochs_of(score.logs), strict=True)]
    return reference_of(file, len(epochs)).compared(int(batch), epochs)


def compare_all(folder: str | Path, reference: str | Path) -> dict[Path, ConvergenceComparison]:
    """The test on each folder of logs that `deep_bench.mlperf.training.scored` would score.

    Args:
        folder: One with ``result_0.txt`` and so on, or a submission's.
        reference: As of `compare`, whose errors it has too.

    Returns:
        Folder of logs to what the test says.
    """
    return {path: compare(path, reference) for path in result_folders(folder)}


def point_of(logs: Sequence[Log], platform: str = "") -> tuple[str, ConvergencePointRecord]:
    """The point that runs of one batch size make, and its name.

    Raises:
        InvalidRecord: Logs do not say what they are of, differ in it, or one run missed its target.
    """
    missed = [str(log.path) for log in logs if log.status != SUCCESS]
    if missed:
        raise InvalidRecord(f"{missed[0]} did not reach its target", "a reference whose runs all converge")
    benchmark, batch = str(_common_value(logs, "submission_benchmark")), int(_common_value(logs, "global_batch_size"))
    content = {
        "benchmark": benchmark,
        "creator": f"deep_bench {deep_bench.__version__}",
        "when": f"{datetime.now(UTC):%Y-%m-%d}",
        "platform": platform,
        "batch": batch,
        "hyperparameters": {event.key: event.value for event in logs[0].events if event.key.startswith("opt_")},
        "epochs": epochs_of(logs),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "target": _common_value(logs, "eval_target"),
        "every": _every(logs),
    }
    return f"{benchmark}_ref_{batch}", ConvergencePointRecord.model_validate(content)


def record(
    recipe: Recipe,
    on: str = "torch",
    *,
    batches: Sequence[int],
    runs: int,
    output: str | Path,
    changes: Mapping[int, Sequence[str]] | None = None,
    progress: bool = True,
    told: Callable[[str], None] = lambda _: None,
) -> Path:
    """Run a recipe with several batch sizes, and write what its convergence is: a reference of one's own.

    Args:
        recipe: The recipe; the rules want float32.
        on: A framework.
        batches: Global batch sizes.
        runs: Of each; the rules want twice as many as a submission has.
        output: The file.
        changes: Batch size to what else to change in the recipe with it, such as its learning rate.
        progress: Whether to show a bar.
        told: Is told of each point that is done.

    Raises:
        InvalidArgument: No or equal batch sizes, fewer than three runs, or the file cannot be written.
        InvalidRecord: A run did not reach its target.
    """
    if not batches or len(set(batches)) < len(batches) or runs < 3:
        raise InvalidArgument(f"batches {list(batches)}, {runs} runs each", "different batch sizes, at least three runs")
    points: dict[str, ConvergencePointRecord] = {}
    for batch in batches:
        changed = recipe.changed(f"sampler.batch={batch}", *(changes or {}).get(batch, ()))
        with TemporaryDirectory(prefix="deep_bench_reference_") as folder:
            seeds = range(FIRST_SEED, FIRST_SEED + runs)
            timed = planned(changed, on, seeds=seeds, output=folder, clear=kept_caches)
            outcome = timed.run(progress=progress)
            if outcome.record.interrupted:
                raise KeyboardInterrupt
            logs = read_runs(timed.layout.results)
            name, point = point_of(logs, platform=f"{on}, {outcome.record.environment.cpu_model or 'an unknown processor'}")
        points[name] = point
        told(f"{name}: {', '.join(f'{e:g}' for e in point.epochs)} epochs")
    text = json.dumps(ReferenceFile(points).model_dump(mode="json", by_alias=True), indent=1) + "\n"
    return written(Path(output), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _common_value(logs: Sequence[Log], key: str) -> Any:
    """What all logs say, once each and alike."""
    events = [log.all(key) for log in logs]
    if not events or any(len(matches) != 1 for matches in events) or len({repr(matches[0].value) for matches in events}) > 1:
        raise InvalidRecord(f"logs that do not all have one and the same {key}", "runs of the same, each saying so once")
    value = events[0][0].value
    if key != "submission_benchmark" and not is_number(value):
        raise InvalidRecord(f"{key} {str(value)[:40]!r}", "a number")
    return value


def _every(logs: Sequence[Log]) -> int | None:
    """The samples before the first evaluation, where all runs have the same."""
    firsts: set[Any] = {
        log.all("eval_accuracy")[0].metadata.get("samples_count") for log in logs if log.all("eval_accuracy")
    }
    value: Any = next(iter(firsts)) if len(firsts) == 1 else None
    return int(value) if is_number(value) else None
