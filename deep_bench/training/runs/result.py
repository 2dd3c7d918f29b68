"""What one or several training runs found, all of it computed from the record."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.training.record import RunRecord, TargetRecord, TrainingRecord
from deep_bench.training.runs import storage
from deep_bench.training.runs.figures import ToTarget, to_target
from deep_bench.training.runs.mlperf import MlperfScore, mlperf_score
from deep_bench.training.runs.survival import Success, Survival, success, survival
from deep_bench.training.trainer import INTERRUPTED


class Runs:
    """Training runs of one recipe. Printing it shows the report.

    Args:
        record: Their record.
        path: The record's file, if it was written.
        label: Only those with this label; all by default.
    """

    def __init__(self, record: TrainingRecord, path: Path | None = None, *, label: str | None = None) -> None:
        if label is not None and label not in record.labels():
            raise UnknownName("label of runs", label, record.labels())
        self.record, self.path, self.label = record, path, label

    @classmethod
    def load(cls, path: str | Path, *, label: str | None = None) -> Runs:
        """Read a record's file.

        Raises:
            InvalidRecord: It is none.
        """
        return cls(storage.load(path), Path(path), label=label)

    @property
    def runs(self) -> list[RunRecord]:
        """All of them, in their order, with one that was interrupted."""
        return [run for run in self.record.runs if self.label is None or run.label == self.label]

    @property
    def finished(self) -> list[RunRecord]:
        """Those that came to an end of their own: figures of several runs are of these."""
        return [run for run in self.runs if run.stopped_because != INTERRUPTED]

    @property
    def target(self) -> TargetRecord:
        """What they were to reach.

        Raises:
            InvalidArgument: There was no target.
        """
        if self.record.target is None:
            raise InvalidArgument("runs without a target", "several(…, target=('accuracy', 0.97))")
        return self.record.target

    @cached_property
    def to_target(self) -> list[ToTarget]:
        """Of each finished run, how long it took to the target, or went on without reaching it."""
        return [to_target(run, self.target) for run in self.finished]

    @cached_property
    def success(self) -> Success:
        """How many finished runs reached the target."""
        return success(sum(t.reached for t in self.to_target), len(self.to_target))

    def survival(self, quantity: Literal["seconds", "samples"] = "seconds") -> Survival:
        """The distribution of the time, or of the number of samples, to the target; runs that missed it are censored."""
        return survival([getattr(t, quantity) for t in self.to_target], [t.reached for t in self.to_target])

    @property
    def mlperf(self) -> MlperfScore:
        """The score as MLPerf computes it."""
        return mlperf_score([t.seconds if t.reached else None for t in self.to_target])

    def save(self, folder: str | Path) -> Path:
        """Write the record to a folder, which is made if it is not there, and return its file.

        Raises:
            InvalidArgument: The folder cannot be made or written.
        """
        self.path = storage.write(self.record, storage.new_file(folder, self.record))
        return self.path

    def plot(self, file: str | Path) -> Path:
        """Draw the time to the target of each run, and the share of runs that are still going.

        Raises:
            InvalidArgument: The file cannot be written, or there was no target.
            Unsupported: matplotlib is not installed.
        """
        from deep_bench.training.runs.plot import draw

        return draw(self, file)

    def report(self, width: int | None = None) -> str:
        """Tables and what is worth knowing, as text.

        Args:
            width: Columns of text; by default those of the terminal, or 160 where there is none.
        """
        from deep_bench.training.runs.report import as_text

        return as_text(self, width)

    def __repr__(self) -> str:
        return self.report()
