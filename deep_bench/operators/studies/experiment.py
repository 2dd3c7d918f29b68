"""A study as it goes: start the contestants, give them case after case, and keep the record up to date all the while."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import deep_bench
from deep_bench.check.recorded import forms_record
from deep_bench.errors import DeepBenchError, InvalidArgument, UnsupportedOperator
from deep_bench.measure.environment import capture
from deep_bench.measure.fleet import Fleet
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
)
from deep_bench.measure.recording import recording
from deep_bench.measure.risks import risks
from deep_bench.measure.session import Plan, measure_launch
from deep_bench.measure.storage import RecordWriter
from deep_bench.operators.case import Case
from deep_bench.operators.pickled import dumped
from deep_bench.operators.studies.contestants import Contestant
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
    ) -> None:
        if not len(suite):
            raise InvalidArgument(f"the suite {suite.name} without cases", "at least one case")
        self.contestants, self.suite, self.settings, self.bars = contestants, suite, settings, bars
        self.metrics = list(metrics)
        for metric in self.metrics:
            if isinstance(metric, str):
                make_metric(metric)  # raises where there is none
        self.record = _first_record(contestants, suite, settings)
        self._writer = RecordWriter(output, self.record) if output is not None else None
        self.path = self._writer.path if self._writer else None
        self._kept = perf_counter()
        self._called: set[Any] = set()
        self._own = {c.label for c in contestants if c.own}

    def run(self) -> Record:
        """Do all of it. Ctrl-C ends it early; what is there by then is kept, marked as interrupted."""
        with recording(self.record, self.bars) as folder:
            contenders = [c.contender(self.settings.limit) for c in self.contestants]
            self.bars.phase("starting", len(contenders), "contestants")
            in_process = self.settings.in_process
            with Fleet(contenders, self._logs(folder), in_process=in_process, starting=self._starting) as fleet:
                self._note_started(fleet)
                self._cases(fleet)
        self._keep(now=True)
        return self.record

    def _cases(self, fleet: Fleet) -> None:
        started = set(fleet.runners)
        self.bars.phase("measuring", len(self.suite), "cases")
        for case in self.suite:
            self.bars.at(case.name)
            for label in started:
                if label in fleet.failures or self.settings.isolate:
                    fleet.restart(label)
            self._case(fleet, case)
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
        self._measure(heat, trials)
        if not self.record.interrupted:
            self._look_again(judge, heat, trials)
        for label, failure in {**fleet.failures, **heat.failures}.items():
            trials[label].error = ErrorRecord.of(failure)

    def _load(self, heat: Heat, case: Case) -> None:
        content, seed = dumped(case, case.name), self.settings.seed
        for label in list(heat.runners):
            wanted = self.settings.wanted
            if (label, signature(case)) in self._called:
                wanted = tuple(name for name in wanted if name != DISPATCH)
            heat.load(label, content, seed, wanted)
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
        for label in list(heat.runners):
            try:
                trials[label].verdict = judge.judged(heat, label)
                if BOTH in heat.prepared[label]["calls"]:
                    self._judge_gradients(judge, heat, trials[label], label)
            except DeepBenchError as error:
                heat.set_aside(label, error)
        return judge

    def _judge_gradients(self, judge: Judge, heat: Heat, trial: TrialRecord, label: str) -> None:
        try:
            trial.gradients = judge.gradients_judged(heat, label, trial.verdict)
        except UnsupportedOperator as error:  # the reference has none
            trial.unavailable[VERDICT] = f"of the gradients: {error.came}"

    def _measure(self, heat: Heat, trials: dict[str, TrialRecord]) -> None:
        found = measure_launch(heat, _plan(self.settings, sum(len(p["calls"]) for p in heat.prepared.values())))
        for series in found.series:
            trials[series.label].samples.append(SampleSet.of(series))
            system, peak = self.record[series.label], series.process.get("peak_memory_bytes") or 0
            system.peak_memory_bytes = max(system.peak_memory_bytes or 0, peak) or None
        self.record.interrupted |= found.interrupted

    def _look_again(self, judge: Judge | None, heat: Heat, trials: dict[str, TrialRecord]) -> None:
        """Now that they were timed: what do metrics say, and are the answers of operators still right, to new inputs too?"""
        for label in list(heat.runners):
            trial = trials[label]
            try:
                if self.metrics:
                    found = heat.awake(label, lambda runner: runner.collect(FORWARD, self.metrics))
                    trial.metrics = [metric.model_dump(mode="json") for metric in found]
                doubt = "" if judge is None or label not in self._own else judge.doubts(heat, label)
                if doubt and trial.verdict is not None:
                    trial.verdict.verdict, trial.verdict.reason = "wrong", doubt
            except DeepBenchError as error:
                heat.set_aside(label, error)

    # The record

    def _note_started(self, fleet: Fleet) -> None:
        for label, prepared in fleet.prepared.items():
            system, facts = self.record[label], prepared["facts"]
            system.facts = {**facts["description"], "import_ns": facts["import_ns"]}
            system.cpus = prepared["process"]["cpus"]
            system.prepare_ns = prepared["prepare_ns"]
            system.stamp_overhead_ns = prepared["stamp_overhead_ns"]
        for label, error in fleet.failures.items():
            if isinstance(error, InvalidArgument):
                raise error
            self.record[label].error = ErrorRecord.of(error)
        self._keep(now=True)

    def _note_loaded(self, heat: Heat, trials: dict[str, TrialRecord]) -> None:
        for label, prepared in heat.prepared.items():
            trial, facts = trials[label], prepared["facts"]
            trial.forms = forms_record(facts["forms"])
            trial.known_faults = [FaultRecord.model_validate(vars(exposure)) for exposure in facts["exposures"]]
            trial.setup_ns, trial.first_call_ns = facts["setup_ns"], facts["first_call_ns"]
            trial.unavailable = facts["unavailable"]
            self.record[label].threaded = prepared["threaded"]

    def _keep(self, now: bool = False) -> None:
        if self._writer is not None and (now or perf_counter() - self._kept > _KEEP_EVERY_SECONDS):
            self._writer.write(self.record)
            self._kept = perf_counter()

    def _logs(self, temporary: Path) -> Path:
        folder = temporary if self.path is None else self.path.with_suffix(".logs")
        folder.mkdir(exist_ok=True)
        return folder


def _plan(settings: Settings, calls: int) -> Plan:
    """Blocks as long as they can be if each of so many calls is to have the fewest that give an interval, and some more."""
    each_ns = int(_SHARE_OF_BLOCKS * settings.budget * 1e9 / (_WANTED_BLOCKS * max(calls, 1)))
    least_ns = min(max(each_ns, _SHORTEST_NS), _LONGEST_NS)
    return Plan(
        settings.ci_width,
        settings.budget,
        settings.seed,
        min_ns=least_ns,
        least_blocks=_FEWEST_BLOCKS,
        warm_up_block_ns=least_ns // 5,
    )


def _first_record(contestants: Sequence[Contestant], suite: Suite, settings: Settings) -> Record:
    environment = capture()
    return Record(
        deep_bench=deep_bench.__version__,
        command=[os.path.basename(sys.argv[0]), *sys.argv[1:]],
        recipe=Recipe(
            options={**asdict(settings), "on": [c.label for c in contestants], "cases": len(suite)},
            seeds={"study": settings.seed},
        ),
        suite=SuiteFacts(name=suite.name, source=suite.source, licence=suite.licence, notes=list(suite.notes)),
        environment=environment,
        systems=[SystemRecord(label=c.label, framework=c.framework, options=dict(c.options)) for c in contestants],
        in_process=settings.in_process,
        notes=[str(risk) for risk in risks(environment) if risk.name in ("load", "swap")],
    )
