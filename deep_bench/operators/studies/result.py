"""What a study found, as typed objects and as tables; all of it computed from the record."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from deep_bench.errors import FrameworkMissing, InvalidRecord, UnknownName
from deep_bench.measure.compare import Estimate, TotalPart, TotalTime, ratio, ratio_of_totals, times, total
from deep_bench.measure.roofline import Roofline
from deep_bench.operators.studies.contestants import OWN
from deep_bench.operators.studies.settings import FORWARD
from deep_bench.operators.studies.trial import CaseResult, Trial
from deep_bench.records import store
from deep_bench.records.model import Record, SystemRecord
from deep_bench.records.table import data_frame

if TYPE_CHECKING:
    import pandas

_NOTEBOOK_WIDTH = 160

Kind = Literal["time", "error", "violin", "roofline"]


class Study:
    """What a study found: ``study["FastGelu", "8x1024"]`` is a `Trial`, ``study["FastGelu"]`` all trials of a contestant.

    Args:
        record: The study's record.
        path: The record's file, if it was written.
        base: The contestant that others are compared with; by default the one that the study was asked for, else the first
            framework that was timed, or the first of all.

    Example:
        >>> import deep_bench as db
        >>> case = db.Case.of("Gelu", (4, 8))
        >>> study = db.operators.study("reference", case, budget=0.2, dispatch=False, progress=False)
        >>> study["reference", "4x8"].verdict, study.ok
        ('right', True)
    """

    def __init__(self, record: Record, path: Path | None = None, *, base: str | None = None) -> None:
        if record.suite is None:
            raise InvalidRecord("the record is not of a study", "one that `deep-bench operators` wrote")
        if not record.systems:
            raise InvalidRecord("the record has no contestants", "at least one")
        self.record, self.path = record, path
        self._roofline = Roofline.model_validate(record.roofline) if record.roofline is not None else None
        self._compared: dict[tuple[str, str, str, str], Estimate | None] = {}
        self._cases = {facts.label: CaseResult(facts) for facts in record.suite.cases}
        self._trials = {
            (system.label, trial.case): Trial(system, self._cases[trial.case], trial, self._roofline)
            for system in record.systems
            for trial in system.trials
            if trial.case in self._cases
        }
        if base is not None and base not in self.contestants:
            raise UnknownName("contestant of this study", base, self.contestants)
        requested = base if base is not None else record.recipe.options.get("base")
        self.base = str(requested) if requested in self.contestants else self._default_base()

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study's record.

        Args:
            path: Its file, or a folder that holds a single one.

        Raises:
            InvalidRecord: It is none, or the folder holds none or several.
        """
        file = Path(path)
        if file.is_dir():
            records = sorted(file.glob("*.json"))
            if len(records) != 1:
                raise InvalidRecord(f"{file} holds {len(records)} records", "one", "name the record's file")
            file = records[0]
        return cls(store.load(file), file)

    @property
    def contestants(self) -> tuple[str, ...]:
        """Their labels, without that of the base's twin."""
        return tuple(system.label for system in self.record.systems if system.twin_of is None)

    @property
    def twin(self) -> SystemRecord | None:
        """The contestant that was measured twice, the second time: see `compare_twins`."""
        return next((system for system in self.record.systems if system.twin_of is not None), None)

    @property
    def launches(self) -> int:
        """How many times the contestants were started afresh and timed."""
        return max((len(t.launches(s.quantity)) for t in self.trials for s in t.record.samples), default=0)

    @property
    def cases(self) -> tuple[str, ...]:
        """The labels of the cases that were begun."""
        return tuple(self._cases)

    @property
    def roofline(self) -> Roofline | None:
        """The roofs of the machine, if they were measured."""
        return self._roofline

    @overload
    def __getitem__(self, key: str) -> dict[str, Trial]: ...
    @overload
    def __getitem__(self, key: tuple[str, str]) -> Trial: ...
    def __getitem__(self, key: str | tuple[str, str]) -> Trial | dict[str, Trial]:
        label = key if isinstance(key, str) else key[0]
        self._require(label)
        if isinstance(key, str):
            return {case: trial for (owner, case), trial in self._trials.items() if owner == label}
        if key[1] in self._cases:
            return self._trials[key]
        named = {case.name: case.label for case in self._cases.values()}
        if key[1] in named:
            return self._trials[label, named[key[1]]]
        raise UnknownName("case of this study", key[1], self._cases)

    @property
    def trials(self) -> list[Trial]:
        """All of them, case by case."""
        return [
            self._trials[label, case] for case in self._cases for label in self.contestants if (label, case) in self._trials
        ]

    @property
    def ok(self) -> bool:
        """Whether no contestant failed and no result was found wrong."""
        return bool(self.trials) and all(trial.ok for trial in self.trials)

    @property
    def interrupted(self) -> bool:
        """Whether it was ended early."""
        return self.record.interrupted

    @property
    def failures(self) -> list[Trial]:
        """The trials in which a contestant failed."""
        return [trial for trial in self.trials if trial.record.error is not None]

    def compare(self, label: str, case: str, base: str | None = None, quantity: str = FORWARD) -> Estimate | None:
        """The time of a contestant on a case over that of another, in words too; ``None`` where one was not timed.

        Args:
            label: The contestant.
            case: The case.
            base: The other; by default the study's base.
            quantity: What is compared.
        """
        key = (label, case, base or self.base, quantity)
        if key not in self._compared:
            ours, theirs = (self[contestant, case].launches(quantity) for contestant in (label, base or self.base))
            self._compared[key] = ratio(ours, theirs) if ours and theirs else None
        return self._compared[key]

    def compare_twins(self, case: str) -> Estimate | None:
        """One contestant against itself on a case, measured twice in this study: the differences that mean nothing."""
        return None if self.twin is None else self.compare(self.twin.label, case, self.twin.twin_of)

    @cached_property
    def common(self) -> tuple[str, ...]:
        """The cases on which every contestant was timed that was timed on any."""
        timed = [label for label in self.contestants if any(t.blocks() for t in self[label].values())]
        return tuple(c for c in self._cases if timed and all(self._timed(label, c) for label in timed))

    def total(self, label: str) -> TotalTime | None:
        """The time of all `common` cases together, each as often as it occurs, in nanoseconds.

        Raises:
            UnknownName: There is no such contestant.
        """
        self._require(label)
        return total(self._parts(label)) if self._counts(label) else None

    def speed(self, label: str, base: str | None = None) -> Estimate | None:
        """A contestant's total time over that of another, by default the study's base; below 1 is faster.

        Raises:
            UnknownName: There is no such contestant.
        """
        reference = base or self.base
        self._require(label, reference)
        if not self._counts(label) or not self._counts(reference):
            return None
        return ratio_of_totals(self._parts(label), self._parts(reference))

    @cached_property
    def twins(self) -> Estimate | None:
        """The total time of one contestant over its own, measured twice in this study."""
        return None if self.twin is None else self.speed(self.twin.label, self.twin.twin_of)

    def flop_rate(self, label: str) -> float | None:
        """FLOP/s over all `common` cases: all FLOPs over the total time, which is the harmonic mean weighted by FLOPs."""
        costs = [(self._cases[case].facts.count, self._cases[case].cost) for case in self.common]
        time = self.total(label)
        if time is None or not costs or any(cost is None for _, cost in costs):
            return None
        flops = sum(count * cost.flops for count, cost in costs if cost is not None)
        return flops / time.value * 1e9 if flops else None

    def table(self, width: int | None = None) -> str:
        """The table of all cases and the summary, as text.

        Args:
            width: Columns of text; by default those of the terminal, or 160 where there is none.
        """
        from deep_bench.operators.studies.table import as_text

        return as_text(self, width)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping for each contestant on each case: verdict, bits, times in seconds with their intervals, rates."""
        from deep_bench.operators.studies.trial import study_rows

        return study_rows(self)

    def as_json(self) -> dict[str, Any]:
        """The derived figures as plain JSON types; raw samples are in the record."""
        from deep_bench.operators.studies.trial import study_json

        return study_json(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """`rows` as a data frame.

        Raises:
            FrameworkMissing: pandas is not installed.
        """
        return data_frame(self.rows(), "study.rows()")

    def plot(self, path: str | Path, kind: Kind = "time", *, cases: Sequence[str] | None = None) -> Path:
        """Draw a picture.

        Args:
            path: Where to write it; the name's end tells the format.
            kind: ``"time"`` (over size, with intervals), ``"error"`` (significant bits over size), ``"violin"`` (all raw
                samples) or ``"roofline"`` (FLOP/s below the roofs of this machine).
            cases: Which cases; all by default, of which violins show the longest.

        Raises:
            FrameworkMissing: matplotlib is not installed.
            InvalidArgument: There is no such kind, nothing to draw, or no roofline was measured.
        """
        try:
            from deep_bench.operators.plots import plot_study
        except ImportError as error:
            raise FrameworkMissing(
                "a picture needs matplotlib, which is not installed here", advice="pip install 'deep-bench[report]'"
            ) from error
        if cases is not None:
            for case in cases:
                assert self[self.contestants[0], case]  # raises where there is none
        return plot_study(self, Path(path), kind, None if cases is None else tuple(cases))

    def save(self, folder: str | Path) -> Path:
        """Write the record to a folder, which is made if it is not there, and return its file.

        Raises:
            InvalidArgument: The folder cannot be made or written.
        """
        from deep_bench.records.folders import output_folder

        self.path = store.save(self.record, output_folder(folder))
        return self.path

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """The same for a notebook; every text in it is escaped."""
        return f"<pre>{html.escape(self.table(_NOTEBOOK_WIDTH))}</pre>"

    def _default_base(self) -> str:
        """The first framework that was timed, else the first contestant that was, else the first."""
        frameworks = [s.label for s in self.record.systems if s.framework != OWN and s.twin_of is None]
        timed = [label for label in (*frameworks, *self.contestants) if any(t.summary() for t in self[label].values())]
        return next(iter([*timed, *frameworks, *self.contestants]))

    def _require(self, *labels: str) -> None:
        for label in labels:
            if label not in self.contestants and (self.twin is None or label != self.twin.label):
                raise UnknownName("contestant of this study", label, self.contestants)

    def _timed(self, label: str, case: str) -> bool:
        trial = self._trials.get((label, case))
        return trial is not None and trial.summary() is not None

    def _counts(self, label: str) -> bool:
        return bool(self.common) and all(self._timed(label, case) for case in self.common)

    def _parts(self, label: str) -> list[TotalPart]:
        return [
            TotalPart(self._cases[case].facts.count, times(self._trials[label, case].launches())) for case in self.common
        ]
