"""The score of runs by their logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidRecord
from deep_bench.mlperf.training.check import faults
from deep_bench.mlperf.training.events import SUCCESS, Log, is_number, read_log
from deep_bench.mlperf.training.official import result_files, summarize
from deep_bench.mlperf.training.submission import RULESET
from deep_bench.training.runs.mlperf import MlperfScore, mlperf_score

_LARGEST_FOLDER = 1000


@dataclass(frozen=True, eq=False)
class Scored:
    """Runs of one benchmark on one system.

    Args:
        folder: Of their logs.
        logs: In their order.
        faults: What is wrong with each.
    """

    folder: Path
    logs: tuple[Log, ...]
    faults: tuple[tuple[str, ...], ...]

    @property
    def benchmark(self) -> str:
        """What they are runs of."""
        return self.logs[0].benchmark

    @cached_property
    def times(self) -> list[float | None]:
        """Seconds of each run that reached its target and whose log is as it should be; ``None`` of others."""
        pairs = zip(self.logs, self.faults, strict=True)
        return [log.seconds if log.status == SUCCESS and not wrong else None for log, wrong in pairs]

    @property
    def score(self) -> MlperfScore:
        """The score as MLPerf computes it, in seconds."""
        return mlperf_score(self.times)

    @property
    def quality(self) -> float | None:
        """The geometric mean of the last ``eval_accuracy`` of all runs; ``None`` where one has none, or none above 0.

        Source:
            MLCommons, *MLPerf training rules*, quality measure: what the open division has to report.
        """
        values = [log.last.value if log.last is not None else None for log in self.logs]
        found = [float(value) for value in values if is_number(value) and value > 0]
        return float(np.exp(np.mean(np.log(found)))) if len(found) == len(values) else None

    def lines(self) -> Iterator[str]:
        """What there is to say of each run, and of all."""
        yield f"{self.benchmark}, {len(self.logs)} runs in {self.folder}"
        for log, wrong in zip(self.logs, self.faults, strict=True):
            assert log.path is not None
            seconds = "" if log.seconds is None else f" after {log.seconds:.3f} s"
            epochs = log.converged_at("epoch_num")
            trained = "" if epochs is None else f", {epochs:g} epochs, {log.converged_at('samples_count'):.0f} samples"
            reason = f" ({log.reason})" if log.status != SUCCESS and log.reason else ""
            yield f"  {log.path.name}: {log.status}{seconds}{trained}{reason}"
            yield from (f"    not as it should be: {fault}" for fault in wrong)
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
        root, system = self.folder.parents[2], self.folder.parent.name
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
        InvalidRecord: There are no logs, one cannot be read, or logs of several benchmarks lie together.
    """
    root = Path(folder)
    folders = sorted({path.parent for path in root.glob("results/*/*/result_*.txt")}) or [root]
    if len(folders) > _LARGEST_FOLDER:
        raise InvalidRecord(f"{len(folders)} folders of logs in {root}", f"at most {_LARGEST_FOLDER}")
    return [_scored(one) for one in folders]


def _scored(folder: Path) -> Scored:
    logs = tuple(read_log(path) for path in result_files(folder))
    if len(names := sorted({log.benchmark for log in logs})) > 1:
        raise InvalidRecord(f"logs of {', '.join(map(repr, names))} in {folder}", "runs of one benchmark")
    return Scored(folder, logs, tuple(tuple(faults(log)) for log in logs))
