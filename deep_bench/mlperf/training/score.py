"""The score of runs by their logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidRecord
from deep_bench.mlperf.training.alike import unlike
from deep_bench.mlperf.training.check import faults
from deep_bench.mlperf.training.events import SUCCESS, Log, is_number
from deep_bench.mlperf.training.examine import RUN_FAILED
from deep_bench.mlperf.training.folder import read_runs, result_folders
from deep_bench.mlperf.training.official import summarize
from deep_bench.mlperf.training.submission import RULESET
from deep_bench.training.runs.mlperf import MlperfScore, mlperf_score


@dataclass(frozen=True, eq=False)
class Scored:
    """Runs of one benchmark on one system.

    Args:
        folder: Of their logs.
        logs: In their order.
        faults: What is wrong with each.
        unlike: What is wrong with each beside the others; see `deep_bench.mlperf.training.alike`.
    """

    folder: Path
    logs: tuple[Log, ...]
    faults: tuple[tuple[str, ...], ...]
    unlike: tuple[tuple[str, ...], ...]

    @property
    def benchmark(self) -> str:
        """What they are runs of; empty if none says it."""
        return next((log.benchmark for log in self.logs if log.benchmark), "")

    @cached_property
    def times(self) -> list[float | None]:
        """Seconds of each run that reached its target and whose log is as it should be; ``None`` of others."""
        pairs = zip(self.logs, self.faults, strict=True)
        return [log.seconds if log.status == SUCCESS and not wrong else None for log, wrong in pairs]

    @property
    def score(self) -> MlperfScore:
        """The score as MLPerf computes it, in seconds; none of logs that are not those of different runs of the same."""
        if any(self.unlike):
            return MlperfScore(None, "not valid: these are not different runs of one and the same")
        return mlperf_score(self.times)

    @property
    def quality(self) -> float | None:
        """The geometric mean of the last ``eval_accuracy`` of all runs.

        ``None`` where one has none, or none above 0, and where a log is not as it should be.

        Source:
            MLCommons, *MLPerf training rules*, quality measure: what the open division has to report.
        """
        if any(self.faults) or any(self.unlike):
            return None
        values = [log.last.value if log.last is not None else None for log in self.logs]
        numbers = [float(value) for value in values if is_number(value) and value > 0]
        return float(np.exp(np.mean(np.log(numbers)))) if len(numbers) == len(values) else None

    def lines(self) -> Iterator[str]:
        """What there is to say of each run, and of all."""
        yield f"{self.benchmark or 'of nothing'}, {len(self.logs)} runs in {self.folder}"
        for log, wrong, beside in zip(self.logs, self.faults, self.unlike, strict=True):
            assert log.path is not None
            seconds = "" if log.seconds is None else f" after {log.seconds:.3f} s"
            epochs = log.converged_at("epoch_num")
            trained = "" if epochs is None else f", {epochs:g} epochs, {log.converged_at('samples_count'):.0f} samples"
            reason = f" ({log.reason})" if log.status != SUCCESS and log.reason else ""
            yield f"  {log.path.name}: {log.status}{seconds}{trained}{reason}"
            yield from (f"    not as it should be: {fault}" for fault in (*wrong, *beside))
            if not log.events:
                yield f"    {RUN_FAILED}"
        score = self.score
        if score.seconds is not None:
            yield f"score: {score.seconds:.3f} s = {score.seconds / 60:.5f} min: {score.reason}"
        else:
            yield f"score: {score.reason}"
        if self.quality is not None:
            yield f"geometric mean of the final quality: {self.quality:.6g}"

    def official(self, ruleset: str | None = None) -> str:
        """What MLPerf's result summarizer makes of them, in a sentence.

        Raises:
            InvalidRecord: There is no description of the system where a submission has it, or no table.
            FrameworkMissing: ``mlperf_logging`` is not installed.
        """
        root, system = self.folder.resolve().parents[2], self.folder.resolve().parent.name
        description = root / "systems" / f"{system}.json"
        if not description.is_file():
            raise InvalidRecord(f"no {description}", "a submission's folder, with the description of its system")
        row, _ = summarize(self.folder, description, ruleset or RULESET)
        minutes = row.get(self.benchmark, "")
        return f"MLPerf's result summarizer: {float(minutes):.5f} min" if minutes else "MLPerf's result summarizer: no score"


def scored(folder: str | Path) -> list[Scored]:
    """The scores of a folder: that of some logs, or of all benchmarks and systems of a submission.

    Args:
        folder: One with ``result_0.txt`` and so on, or a submission's.

    Raises:
        InvalidRecord: There are no logs, or one cannot be read.
    """
    return [scored_runs(path) for path in result_folders(folder)]


def scored_runs(folder: Path) -> Scored:
    """The score of a folder with ``result_0.txt`` and so on; see `scored`."""
    logs = read_runs(folder)
    return Scored(folder, logs, tuple(tuple(faults(log)) for log in logs), tuple(unlike(logs)))
