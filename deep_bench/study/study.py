"""The engine of every study: start the systems, give them problem after problem, judge and time them, and keep the record.

A study is of one network or of the cases of a suite; what is particular to these is their `StudyProblem`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeAlias, TypeVar

from deep_bench.errors import DeepBenchError, InvalidArgument, NotKept, WorkerDied
from deep_bench.measure.progress import Bars, recording
from deep_bench.measure.session import Measurement, Plan, SessionProgress, measure_launch
from deep_bench.records.model import ErrorRecord, FaultRecord, Record, SampleSet, SystemRecord, TrialRecord
from deep_bench.records.store import RecordWriter
from deep_bench.study.judging import forms_record
from deep_bench.workers.fleet import TWIN, Contender, Fleet, place_facts
from deep_bench.workers.process import SystemHandle, Worker

T = TypeVar("T")
_KEEP_EVERY_SECONDS = 5.0


def twin_record(original: SystemRecord) -> SystemRecord:
    """Of a system that is measured twice, the second time, as an A/A pair."""
    label = original.label
    return SystemRecord(label=label + TWIN, framework=original.framework, options=dict(original.options), twin_of=label)


class RecordFile:
    """A record with its file, if it has one, which is kept up to date while something is measured.

    Args:
        record: What is known so far.
        output: An existing folder for it; ``None`` keeps it in memory only.
        at_once: Whether it is written at once, so that a bad folder is refused; else by the first `keep`.

    Raises:
        InvalidArgument: The folder cannot be written.
    """

    def __init__(self, record: Record, output: Path | None, *, at_once: bool = True) -> None:
        self.record, self._output = record, output
        self._writer = RecordWriter(output, record) if output is not None and at_once else None
        self._unwritten: InvalidArgument | None = None
        self._written = perf_counter()

    @property
    def path(self) -> Path | None:
        """The record's file, if there is one."""
        return self._writer.path if self._writer is not None else None

    @property
    def due(self) -> bool:
        """Whether some seconds have passed since it was last written."""
        return perf_counter() - self._written > _KEEP_EVERY_SECONDS

    def keep(self) -> None:
        """Write it; a full disk does not end a study, and is told by `result`."""
        self._unwritten = None
        try:
            if self._writer is not None:
                self._writer.write(self.record)
            elif self._output is not None:
                self._writer = RecordWriter(self._output, self.record)
        except InvalidArgument as error:
            self._unwritten = error
        self._written = perf_counter()

    def logs(self, temporary: Path) -> Path:
        """The folder for the systems' logs: beside the record, or the one that is gone afterwards."""
        folder = temporary if self.path is None else self.path.with_suffix(".logs")
        folder.mkdir(exist_ok=True)
        return folder

    def result(self, kind: Callable[[Record, Path | None], T]) -> T:
        """What was found.

        Raises:
            NotKept: The record could not be written in the end; ``found`` of the error is the result.
        """
        if (error := self._unwritten) is not None:
            raise NotKept(error.came, error.expected, found=kind(self.record, None)) from error
        return kind(self.record, self.path)


class Heat:
    """The part of a fleet that is on a problem: who fails in it is out of this problem only.

    A process that ended is out of the fleet as well, until it is started afresh.

    Args:
        fleet: The started systems.
        labels: Who takes part, if started.
        limit: The most seconds that anything asked of one may take; ``None`` leaves that as it is.

    Attributes:
        runners: Label to system, of those that are still in.
        prepared: Label to what it said of the problem, once it has it.
        failures: Label to error.
        in_process: As of the fleet.
    """

    def __init__(self, fleet: Fleet, labels: Collection[str], limit: float | None = None) -> None:
        self.fleet, self.in_process = fleet, fleet.in_process
        self.runners: dict[str, SystemHandle] = {n: r for n, r in fleet.runners.items() if n in labels}
        self.prepared: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, DeepBenchError] = {}
        for runner in self.runners.values():
            if limit is not None and isinstance(runner, Worker):
                runner.limit_s = limit

    def load(self, label: str, *problem: Any) -> None:
        """Give a system the problem; if it fails, it is out."""
        try:
            self.prepared[label] = self.awake(label, lambda runner: runner.load(*problem))
        except DeepBenchError as error:
            self.set_aside(label, error)

    def call(self, label: str, method: str, *args: Any, **options: Any) -> Any:
        """As `Fleet.call`."""
        return self.awake(label, lambda runner: runner.call(method, *args, **options))

    def awake(self, label: str, action: Callable[[SystemHandle], Any]) -> Any:
        """As `Fleet.awake`."""
        if label not in self.runners:
            raise self.failures.get(label) or InvalidArgument(f"{label} is not in", f"one of {', '.join(self.runners)}")
        return self.fleet.awake(label, action)

    def set_aside(self, label: str, error: DeepBenchError) -> None:
        """Leave a system out of the rest of the problem."""
        self.failures[label] = error
        self.runners.pop(label, None)
        if isinstance(error, WorkerDied):
            self.fleet.set_aside(label, error)


Entry: TypeAlias = SystemRecord | TrialRecord
"""Where the record has what a system gave on a problem."""


class StudyProblem(Protocol):
    """What systems are given, judged by and timed on."""

    @property
    def name(self) -> str:
        """As a progress bar shows it."""

    def entries(self, record: Record, launch: int) -> dict[str, Any]:
        """Label to `Entry`, of those who are to get it in this launch; in the first one they are made."""

    def load(self, heat: Heat) -> None:
        """Give it to the systems.

        Raises:
            DeepBenchError: It cannot be made: nobody is timed on it.
        """

    def judge(self, heat: Heat, entries: Mapping[str, Any]) -> None:
        """Note of each whether its results are right, before it is timed in the first launch."""

    def plan(self, calls: int) -> Plan:
        """How to time so many calls."""

    def judge_again(self, heat: Heat, entries: Mapping[str, Any], launch: int) -> None:
        """Note what timing has brought to light."""


class StudyRun:
    """A study as it goes.

    Args:
        file: The record, which has all systems.
        contenders: Makes the systems, with a folder for the files that they are given; the one that the record has a twin of
            is started twice, and those that it has an error of are not started.
        problems: What they are given, one after the other.
        bars: Shows progress.
        launches: How many times to start them afresh.
        in_process: Start no processes.
        limit: The most seconds that anything asked of a system may take once it is started.
        isolate: Give each problem fresh processes.
        unit: What problems are called, where progress is told by their number; else it is told by the time spent.
    """

    def __init__(
        self,
        file: RecordFile,
        contenders: Callable[[Path], Sequence[Contender]],
        problems: Sequence[StudyProblem],
        bars: Bars,
        *,
        launches: int = 1,
        in_process: bool = False,
        limit: float | None = None,
        isolate: bool = False,
        unit: str = "",
    ) -> None:
        self.file, self.contenders, self.problems, self.bars = file, contenders, problems, bars
        self.launches, self.in_process, self.limit, self.isolate, self.unit = launches, in_process, limit, isolate, unit
        self.record = file.record

    def run(self) -> None:
        """Do all of it. Ctrl-C ends it early; what is there by then is kept, marked as interrupted."""
        with recording(self.record, self.bars) as folder:
            contenders, logs = list(self.contenders(folder)), self.file.logs(folder)
            twins = {system.twin_of for system in self.record.systems}
            contenders += [contender.twin() for contender in contenders if contender.label in twins]
            for launch in range(self.launches):
                self._launch(contenders, logs, launch)
                if self.record.interrupted:
                    break
        self.file.keep()

    def _launch(self, contenders: Sequence[Contender], logs: Path, launch: int) -> None:
        """Start all systems that could be started before, and give them all problems."""
        contenders = [c for c in contenders if self.record[c.label].error is None]
        self.bars.phase("starting", len(contenders), "systems")
        with Fleet(contenders, logs, in_process=self.in_process, starting=self.bars.begin) as fleet:
            self._note_started(fleet)
            labels = list(fleet.runners)
            if self.unit:
                self.bars.phase("measuring", len(self.problems), self.unit)
            for problem in self.problems:
                self.bars.at(problem.name)
                for label in labels:
                    if label in fleet.failures or self.isolate:
                        fleet.restart(label)
                self._take(problem, fleet, launch)
                if self.unit:
                    self.bars.advance()
                if self.file.due:
                    self.file.keep()
                if self.record.interrupted:
                    return

    def _note_started(self, fleet: Fleet) -> None:
        """What the systems are; a wrong option is the user's to mend before anything is measured."""
        for label, prepared in fleet.prepared.items():
            system, facts, process = self.record[label], prepared["facts"], prepared["process"]
            system.facts = {**facts["description"], "import_ns": facts["import_ns"], **place_facts(prepared)}
            system.cpus = process["cpus"]
            system.prepare_ns = system.prepare_ns or facts.get("prepare_ns", prepared["prepare_ns"])
            system.stamp_overhead_ns = system.stamp_overhead_ns or prepared["stamp_overhead_ns"]
            system.peak_memory_bytes = max(system.peak_memory_bytes or 0, process["peak_memory_bytes"] or 0) or None
        for label, error in fleet.failures.items():
            if isinstance(error, InvalidArgument):
                raise error
            self.record[label].error = ErrorRecord.of(error)
        self.file.keep()

    def _take(self, problem: StudyProblem, fleet: Fleet, launch: int) -> None:
        """One problem in one launch."""
        entries = problem.entries(self.record, launch)
        if launch > 0 and not entries:
            return
        heat = Heat(fleet, entries, self.limit)
        try:
            problem.load(heat)
        except DeepBenchError as error:
            for entry in entries.values():
                entry.error = ErrorRecord.of(error)
            return
        if launch == 0:
            for label, prepared in heat.prepared.items():
                entry, facts = entries[label], prepared["facts"]
                entry.forms = forms_record(facts["forms"])
                entry.known_faults = [FaultRecord.model_validate(vars(exposure)) for exposure in facts["exposures"]]
                entry.first_call_ns = facts["first_call_ns"]
                self.record[label].threaded = prepared["threaded"]
            problem.judge(heat, entries)
        self._measure(problem, heat, entries, launch)
        if not self.record.interrupted:
            problem.judge_again(heat, entries, launch)
        for label, failure in {**fleet.failures, **heat.failures}.items():
            if label in entries:
                entries[label].error = ErrorRecord.of(failure)

    def _measure(self, problem: StudyProblem, heat: Heat, entries: Mapping[str, Entry], launch: int) -> None:
        plan = problem.plan(sum(len(prepared["calls"]) for prepared in heat.prepared.values()))
        measurement = Measurement(plan, in_process=heat.in_process)
        before = {label: list(entry.samples) for label, entry in entries.items()}
        if not self.unit:
            self.bars.phase("measuring", plan.budget_s, "s")

        def note() -> None:
            for label, samples in before.items():
                entries[label].samples = samples + [SampleSet.of(s) for s in measurement.series if s.label == label]

        def watch(progress: SessionProgress) -> None:
            if not self.unit:
                self.bars.measured(progress)
            if self.file.due:
                note()
                self.file.keep()

        try:
            measure_launch(heat, plan, measurement, launch=launch, watch=watch)
        finally:
            note()
        for series in measurement.series:
            system, peak = self.record[series.label], series.process.get("peak_memory_bytes") or 0
            system.peak_memory_bytes = max(system.peak_memory_bytes or 0, peak) or None
        self.record.interrupted |= measurement.interrupted
