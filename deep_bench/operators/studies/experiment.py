"""A study as it goes: start the contestants, give them case after case, and keep the record up to date all the while."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import deep_bench
from deep_bench.check.recorded import forms_record
from deep_bench.errors import DeepBenchError, InvalidArgument, UnsupportedOperator, WorkerDied
from deep_bench.measure.environment import capture
from deep_bench.measure.fleet import Contender, Fleet, place_facts
from deep_bench.measure.metric import Metric, make_metric
from deep_bench.measure.progress import Bars
from deep_bench.measure.record import (
    ErrorRecord,
    FaultRecord,
    Recipe,
    Record,
    SampleSet,
    SuiteFacts,
    SystemRecord,
    TrialRecord,
    VerdictRecord,
)
from deep_bench.measure.recording import recording
from deep_bench.measure.risks import risks
from deep_bench.measure.session import Plan, measure_launch
from deep_bench.measure.storage import RecordWriter
from deep_bench.operators.case import Case
from deep_bench.operators.checks.failure import in_a_line
from deep_bench.operators.pickled import dumped
from deep_bench.operators.studies.conduct import note_changes, note_loaded, note_patches
from deep_bench.operators.studies.contestants import Contestant, base_of
from deep_bench.operators.studies.facts import bare_facts, case_facts, signature
from deep_bench.operators.studies.heat import Heat
from deep_bench.operators.studies.judging import Judge
from deep_bench.operators.studies.quantities import BOTH, DISPATCH, FORWARD, VERDICT
from deep_bench.operators.studies.settings import Settings
from deep_bench.operators.suites.suite import Suite

_KEEP_EVERY_SECONDS = 5.0
_FEWEST_BLOCKS = 6
"""Fewer give no interval."""
_WANTED_BLOCKS = 8
_SHARE_OF_BLOCKS = 0.5
_SHORTEST_NS, _LONGEST_NS = 5_000_000, 50_000_000


class Experiment:
    """A study of contestants on the cases of a suite.

    Args:
        contestants: Their labels differ.
        suite: At least one case.
        settings: How to check and measure.
        metrics: What watches calls of the operator after it was timed.
        output: An existing folder for the record and the contestants' logs; ``None`` keeps the record in memory only.
        bars: Shows progress.
        base: The contestant that was asked for as the one that others are compared with.

    Attributes:
        record: What is known so far.
        path: The record's file, if there is one.
    """

    def __init__(
        self,
        contestants: Sequence[Contestant],
        suite: Suite,
        settings: Settings,
        metrics: Sequence[str | Callable[[], Metric]],
        output: Path | None,
        bars: Bars,
        *,
        base: str | None = None,
    ) -> None:
        if not len(suite):
            raise InvalidArgument(f"the suite {suite.name} without cases", "at least one case")
        self.contestants, self.suite, self.settings, self.bars = contestants, suite, settings, bars
        self.metrics = list(metrics)
        for metric in self.metrics:
            if isinstance(metric, str):
                make_metric(metric)  # raises where there is none
        self._contenders = [c.contender(settings.limit) for c in contestants]
        twin_of = base_of(contestants, base) if settings.twin else None
        self._contenders += [c.twin() for c in self._contenders if twin_of is not None and c.label == twin_of.label]
        self.record = _first_record(contestants, suite, settings, base)
        self.record.systems += [_twin_record(self.record, c) for c in self._contenders if c.twin_of is not None]
        self._writer = RecordWriter(output, self.record) if output is not None else None
        self.path = self._writer.path if self._writer else None
        self._kept = perf_counter()
        self._called: set[Any] = set()
        self._own = {c.label for c in contestants if c.own}
        self._elsewhere = {c.label for c in self._contenders if c.place is not None}

    @property
    def unwritten(self) -> InvalidArgument | None:
        """Why the record could not be written when it was last tried, if so; a full disk does not end a study."""
        return self._writer.unwritten if self._writer is not None else None

    def run(self) -> Record:
        """Do all of it. Ctrl-C ends it early; what is there by then is kept, marked as interrupted."""
        with recording(self.record, self.bars) as folder:
            for launch in range(self.settings.launches):
                self._launch(self._logs(folder), launch)
                if self.record.interrupted:
                    break
        self._keep(force=True)
        return self.record

    def _launch(self, logs: Path, launch: int) -> None:
        """Start all contestants that could be started before, and give them all cases."""
        contenders = [c for c in self._contenders if self.record[c.label].error is None]
        self._called.clear()
        self.bars.phase("starting", len(contenders), "contestants")
        with Fleet(contenders, logs, in_process=self.settings.in_process, starting=self._starting) as fleet:
            self._note_started(fleet)
            self._cases(fleet, launch)

    def _cases(self, fleet: Fleet, launch: int) -> None:
        started = set(fleet.runners)
        self.bars.phase("measuring", len(self.suite), "cases")
        for number, case in enumerate(self.suite):
            self.bars.at(case.name)
            for label in started:
                if label in fleet.failures or self.settings.isolate:
                    fleet.restart(label)
            if launch == 0:
                self._case(fleet, case)
            else:
                self._again(fleet, case, number, launch)
            self.bars.advance()
            self._keep()
            if self.record.interrupted:
                return

    def _starting(self, label: str) -> None:
        self.bars.at(label)
        self.bars.advance()

    # One case

    def _case(self, fleet: Fleet, case: Case) -> None:
        trials = {label: TrialRecord(case=case.label) for label in fleet.contenders}
        for label, trial in trials.items():
            self.record[label].trials.append(trial)
        assert self.record.suite is not None
        self.record.suite.cases.append(bare_facts(case))
        try:
            self.record.suite.cases[-1] = case_facts(case)
            heat = Heat(fleet, self.settings.limit)
            self._load(heat, case)
        except DeepBenchError as error:
            for trial in trials.values():
                trial.error = ErrorRecord.of(error)
            return
        self._note_loaded(heat, trials)
        judge = self._judge(case, heat, trials)
        self._measure(heat, trials, launch=0)
        if not self.record.interrupted:
            self._look_again(judge, heat, trials)
        _note_failures({**fleet.failures, **heat.failures}, trials)

    def _again(self, fleet: Fleet, case: Case, number: int, launch: int) -> None:
        """Time a case in a later launch, of those who did not fail in it before."""
        all_trials = {label: self.record[label].trials[number] for label in fleet.contenders}
        trials = {label: trial for label, trial in all_trials.items() if trial.error is None}
        if not trials:
            return
        heat = Heat(fleet, self.settings.limit, trials)
        self._load(heat, case)
        self._measure(heat, trials, launch)
        if not self.record.interrupted:
            self._doubt(None, heat, trials)
        _note_failures({**fleet.failures, **heat.failures}, trials)

    def _load(self, heat: Heat, case: Case) -> None:
        content, seed = dumped(case, case.name), self.settings.seed
        for label in list(heat.runners):
            requested = self.settings.wanted
            if (label, signature(case)) in self._called:
                requested = tuple(name for name in requested if name != DISPATCH)
            if label in self._elsewhere:
                heat.load_plain(label, case, seed, requested)
            else:
                heat.load(label, content, seed, requested)
            if label in heat.prepared:
                self._called.add((label, signature(case)))

    def _judge(self, case: Case, heat: Heat, trials: dict[str, TrialRecord]) -> Judge | None:
        """What the contestants were judged by; without a reference they are timed unchecked, and it is said."""
        if self.settings.check == "off":
            return None
        try:
            judge = Judge(case, self.settings.check, self.settings.seed)
        except DeepBenchError as error:
            for trial in trials.values():
                trial.unavailable[VERDICT] = str(error)
            return None
        for label in self._judged(heat):
            try:
                trials[label].verdict = judge.judged(heat, label)
                if BOTH in heat.prepared[label]["calls"]:
                    self._judge_gradients(judge, heat, trials[label], label)
                if label in self._own:
                    note_changes(heat, label, trials[label])
            except DeepBenchError as error:
                heat.set_aside(label, error)
        return judge

    def _judge_gradients(self, judge: Judge, heat: Heat, trial: TrialRecord, label: str) -> None:
        try:
            trial.gradients = judge.gradients_judged(heat, label, trial.verdict)
        except UnsupportedOperator as error:  # the reference has none
            trial.unavailable[VERDICT] = f"of the gradients: {error.came}"
        except WorkerDied:
            raise
        except DeepBenchError as error:
            trial.gradients = VerdictRecord(verdict="failed", reason=f"gradients: {in_a_line(error)}")

    def _measure(self, heat: Heat, trials: dict[str, TrialRecord], launch: int) -> None:
        plan = _plan(self.settings, sum(len(p["calls"]) for p in heat.prepared.values()))
        measurement = measure_launch(heat, plan, launch=launch)
        for series in measurement.series:
            trials[series.label].samples.append(SampleSet.of(series))
            system, peak = self.record[series.label], series.process.get("peak_memory_bytes") or 0
            system.peak_memory_bytes = max(system.peak_memory_bytes or 0, peak) or None
        self.record.interrupted |= measurement.interrupted

    def _look_again(self, judge: Judge | None, heat: Heat, trials: dict[str, TrialRecord]) -> None:
        """Now that they were timed: what do metrics say, and are the answers of operators still right, to new inputs too?"""
        for label in self._judged(heat):
            trial = trials[label]
            try:
                if self.metrics:
                    metrics = heat.awake(label, lambda runner: runner.collect(FORWARD, self.metrics))
                    trial.metrics = [metric.model_dump(mode="json") for metric in metrics]
            except DeepBenchError as error:
                heat.set_aside(label, error)
        self._doubt(judge, heat, trials)

    def _doubt(self, judge: Judge | None, heat: Heat, trials: dict[str, TrialRecord]) -> None:
        """What timing has brought to light of operators: changed inputs, kept answers, replaced clocks."""
        for label in self._own.intersection(self._judged(heat)):
            trial = trials[label]
            try:
                honest = not note_changes(heat, label, trial)
                doubt = judge.doubts(heat, label) if honest and judge is not None else ""
                if doubt and trial.verdict is not None:
                    trial.verdict.verdict, trial.verdict.reason = "wrong", doubt
                note_patches(heat, label, trial)
            except DeepBenchError as error:
                heat.set_aside(label, error)

    def _judged(self, heat: Heat) -> list[str]:
        """Who is looked at apart from timing: all that are still in, but the twin of one of them."""
        return [label for label in heat.runners if self.record[label].twin_of is None]

    # The record

    def _note_started(self, fleet: Fleet) -> None:
        for label, prepared in fleet.prepared.items():
            system, facts = self.record[label], prepared["facts"]
            system.facts = {**facts["description"], "import_ns": facts["import_ns"], **place_facts(prepared)}
            system.cpus = prepared["process"]["cpus"]
            system.prepare_ns = system.prepare_ns or prepared["prepare_ns"]
            system.stamp_overhead_ns = system.stamp_overhead_ns or prepared["stamp_overhead_ns"]
        for label, error in fleet.failures.items():
            if isinstance(error, InvalidArgument):
                raise error
            self.record[label].error = ErrorRecord.of(error)
        self._keep(force=True)

    def _note_loaded(self, heat: Heat, trials: dict[str, TrialRecord]) -> None:
        for label, prepared in heat.prepared.items():
            trial, facts = trials[label], prepared["facts"]
            trial.forms = forms_record(facts["forms"])
            trial.known_faults = [FaultRecord.model_validate(vars(exposure)) for exposure in facts["exposures"]]
            trial.setup_ns, trial.first_call_ns = facts["setup_ns"], facts["first_call_ns"]
            trial.unavailable = facts["unavailable"]
            note_loaded(prepared, trial)
            self.record[label].threaded = prepared["threaded"]

    def _keep(self, force: bool = False) -> None:
        if self._writer is not None and (force or perf_counter() - self._kept > _KEEP_EVERY_SECONDS):
            self._writer.keep(self.record)
            self._kept = perf_counter()

    def _logs(self, temporary: Path) -> Path:
        folder = temporary if self.path is None else self.path.with_suffix(".logs")
        folder.mkdir(exist_ok=True)
        return folder


def _plan(settings: Settings, calls: int) -> Plan:
    """Blocks as long as they can be if each of so many calls is to have the fewest that give an interval, and some more."""
    budget_ns = settings.budget * 1e9 / settings.launches
    each_ns = int(_SHARE_OF_BLOCKS * budget_ns / (_WANTED_BLOCKS * max(calls, 1)))
    least_ns = min(max(each_ns, _SHORTEST_NS), _LONGEST_NS)
    return Plan(
        settings.ci_width,
        settings.budget,
        settings.seed,
        settings.launches,
        min_ns=least_ns,
        least_blocks=_FEWEST_BLOCKS,
        warm_up_block_ns=least_ns // 5,
    )


def _note_failures(failures: Mapping[str, DeepBenchError], trials: Mapping[str, TrialRecord]) -> None:
    for label, failure in failures.items():
        if label in trials:
            trials[label].error = ErrorRecord.of(failure)


def _twin_record(record: Record, twin: Contender) -> SystemRecord:
    original = record[str(twin.twin_of)]
    return SystemRecord(label=twin.label, framework=original.framework, options=original.options, twin_of=original.label)


def _first_record(contestants: Sequence[Contestant], suite: Suite, settings: Settings, base: str | None) -> Record:
    environment = capture()
    return Record(
        deep_bench=deep_bench.__version__,
        command=[os.path.basename(sys.argv[0]), *sys.argv[1:]],
        recipe=Recipe(
            options={**asdict(settings), "on": [c.label for c in contestants], "cases": len(suite), "base": base},
            seeds={"study": settings.seed},
        ),
        suite=SuiteFacts(name=suite.name, source=suite.source, licence=suite.licence, notes=list(suite.notes)),
        environment=environment,
        systems=[SystemRecord(label=c.label, framework=c.framework, options=dict(c.options)) for c in contestants],
        in_process=settings.in_process,
        notes=[str(risk) for risk in risks(environment) if risk.name in ("load", "swap")],
    )
