"""References: points of convergence made of the logs of runs, and kept in the JSON form of MLPerf's own."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

import deep_bench
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.storage import read_model, written
from deep_bench.mlperf.training.caches import kept_caches
from deep_bench.mlperf.training.events import SUCCESS, Log, is_number
from deep_bench.mlperf.training.folder import read_runs, result_folders
from deep_bench.mlperf.training.rcp import Compared, Point, Reference, epochs_of
from deep_bench.mlperf.training.runs import planned
from deep_bench.mlperf.training.score import scored_runs
from deep_bench.training.recipes import Recipe

_FOLDER = Path(__file__).parent / "references"

REFERENCES = tuple(sorted(path.stem.removeprefix("rcps_") for path in _FOLDER.glob("rcps_*.json")))
"""Names of the recipes whose points ship."""

FIRST_SEED = 1000
"""Seeds of a reference begin here, so that its runs are no runs of a submission."""


class PointRecord(BaseModel):
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


class ReferenceFile(RootModel[dict[str, PointRecord]]):
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
    points = tuple(Point.of(name, point.batch, point.epochs) for name, point in file.root.items())
    return Reference(next(iter(file.root.values())).benchmark, points, runs)


def compare(folder: str | Path, reference: str | Path) -> Compared:
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
    batch, first = _same(logs, "global_batch_size"), next(iter(file.root.values()))
    for subject, ours, theirs in (
        ("benchmark", _same(logs, "submission_benchmark"), first.benchmark),
        ("target", _same(logs, "eval_target"), first.target),
        ("number of samples between evaluations", _every(logs), first.every),
    ):
        if theirs is not None and ours != theirs:
            raise InvalidArgument(f"runs with the {subject} {ours}", f"that of the reference, {theirs}")
    epochs = [inf if wrong else count for wrong, count in zip(score.faults, epochs_of(score.logs), strict=True)]
    return reference_of(file, len(epochs)).compared(int(batch), epochs)


def compare_all(folder: str | Path, reference: str | Path) -> dict[Path, Compared]:
    """The test on each folder of logs that `deep_bench.mlperf.training.scored` would score.

    Args:
        folder: One with ``result_0.txt`` and so on, or a submission's.
        reference: As of `compare`, whose errors it has too.

    Returns:
        Folder of logs to what the test says.
    """
    return {path: compare(path, reference) for path in result_folders(folder)}


def point_of(logs: Sequence[Log], platform: str = "") -> tuple[str, PointRecord]:
    """The point that runs of one batch size make, and its name.

    Raises:
        InvalidRecord: Logs do not say what they are of, differ in it, or one run missed its target.
    """
    missed = [str(log.path) for log in logs if log.status != SUCCESS]
    if missed:
        raise InvalidRecord(f"{missed[0]} did not reach its target", "a reference whose runs all converge")
    benchmark, batch = str(_same(logs, "submission_benchmark")), int(_same(logs, "global_batch_size"))
    settings = {e.key: e.value for e in logs[0].events if e.key.startswith("opt_")}
    content = {
        "benchmark": benchmark,
        "creator": f"deep_bench {deep_bench.__version__}",
        "when": f"{datetime.now(UTC):%Y-%m-%d}",
        "platform": platform,
        "batch": batch,
        "hyperparameters": settings,
        "epochs": epochs_of(logs),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "target": _same(logs, "eval_target"),
        "every": _every(logs),
    }
    return f"{benchmark}_ref_{batch}", PointRecord.model_validate(content)


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
    points: dict[str, PointRecord] = {}
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


def _same(logs: Sequence[Log], key: str) -> Any:
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
