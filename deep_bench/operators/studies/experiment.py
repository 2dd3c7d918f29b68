"""A study as it goes: start the contestants, give them case after case, and keep the record up to date all the while."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from pydantic import JsonValue

import deep_bench
from deep_bench.errors import DeepBenchError, InvalidArgument, NotKept, UnknownName, UnsupportedOperator, WorkerDied
from deep_bench.graph import Network
from deep_bench.measure.environment import capture, risks
from deep_bench.measure.metrics import Metric, make_metric
from deep_bench.measure.progress import Bars, recording
from deep_bench.measure.roofline import Roofline, latest_roofline
from deep_bench.measure.session import Plan, measure_launch
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import in_a_line
from deep_bench.operators.cost import cost_of_case
from deep_bench.operators.operator import Operator, dumped
from deep_bench.operators.studies.contestants import OperatorContestant, base_of, contestants_of
from deep_bench.operators.studies.judging import Heat, Judge, note_changes, note_loaded, note_patches
from deep_bench.operators.studies.result import Study
from deep_bench.operators.studies.settings import BOTH, DISPATCH, FORWARD, VERDICT, StudySettings
from deep_bench.operators.suites.from_network import suite_of
from deep_bench.operators.suites.suite import Suite
from deep_bench.records.folders import output_folder
from deep_bench.records.model import (
    CaseFacts,
    ErrorRecord,
    FaultRecord,
    OptionsRecord,
    Record,
    SampleSet,
    SuiteFacts,
    SystemRecord,
    Tensor,
    TrialRecord,
    VerdictRecord,
)
from deep_bench.records.store import RecordWriter
from deep_bench.study.judging import forms_record
from deep_bench.study.settings import Checking
from deep_bench.tensor import TensorSpec, is_float
from deep_bench.variant import Variant
from deep_bench.workers.fleet import Contender, Fleet, place_facts


def case_facts(case: Case) -> CaseFacts:
    """What a case asks for, and what it must compute and move at least.

    Raises:
        InvalidArgument: Its shapes, element types or attributes do not fit each other.
    """
    outputs = case.results
    cost = cost_of_case(case)
    arguments = [a for a in case.arguments if a is not None]
    floats = [spec.dtype for spec in (*(a.spec for a in arguments), *outputs) if is_float(spec.dtype)]
    counted: dict[str, Any] = {}
    if cost is not None:
        names = ("flops", "special", "comparisons", "read_bytes", "written_bytes")
        counted = {name: int(getattr(cost, name)) for name in names}
    fields = {"outputs": [_tensor(spec) for spec in outputs], "dtype": str(floats[0]) if floats else "", **counted}
    return bare_facts(case).model_copy(update=fields)


def bare_facts(case: Case) -> CaseFacts:
    """What a case asks for, as it is stated."""
    return CaseFacts(
        label=case.label,
        operator=f"{case.domain}::{case.op_type}" if case.domain else case.op_type,
        attributes={name: _plain_attribute(value) for name, value in case.attributes.items()},
        inputs=[_tensor(a.spec) for a in case.arguments if a is not None],
        tags=sorted(case.tags),
        count=case.count,
        source=case.source,
    )


def signature(case: Case) -> tuple[Any, ...]:
    """What the cost of calling depends on: the operator, its inputs and outputs without their sizes, and attributes."""
    kinds = tuple(None if a is None else (str(a.dtype), a.is_constant) for a in case.arguments)
    return (case.operator, kinds, tuple(case.attributes), case.outputs)


def _tensor(spec: TensorSpec) -> Tensor:
    return Tensor(name=spec.name, shape=list(spec.shape), dtype="string" if spec.dtype == object else spec.dtype.name)


def _plain_attribute(value: Any) -> JsonValue:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.size <= 64 else f"{value.dtype}{list(value.shape)}"
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return repr(value)
    return list(value) if isinstance(value, tuple) else value


_KEEP_EVERY_SECONDS = 5.0
_FEWEST_BLOCKS = 6
"""Fewer give no interval."""


_WANTED_BLOCKS = 8
_SHARE_OF_BLOCKS = 0.5
_SHORTEST_NS, _LONGEST_NS = 5_000_000, 50_000_000


class RunningStudy:
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
        contestants: Sequence[OperatorContestant],
        suite: Suite,
        settings: StudySettings,
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


def _plan(settings: StudySettings, calls: int) -> Plan:
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


def _first_record(
    contestants: Sequence[OperatorContestant], suite: Suite, settings: StudySettings, base: str | None
) -> Record:
    environment = capture()
    return Record(
        deep_bench=deep_bench.__version__,
        command=[os.path.basename(sys.argv[0]), *sys.argv[1:]],
        recipe=OptionsRecord(
            options={**asdict(settings), "on": [c.label for c in contestants], "cases": len(suite), "base": base},
            seeds={"study": settings.seed},
        ),
        suite=SuiteFacts(name=suite.name, source=suite.source, licence=suite.licence, notes=list(suite.notes)),
        environment=environment,
        systems=[SystemRecord(label=c.label, framework=c.framework, options=dict(c.options)) for c in contestants],
        in_process=settings.in_process,
        notes=[str(risk) for risk in risks(environment) if risk.name in ("load", "swap")],
    )


ContestantForm = str | Variant | Operator[Any] | type[Operator[Any]]


def study(
    contestants: ContestantForm | Sequence[ContestantForm] | Mapping[str, ContestantForm],
    cases: str | Path | Network | Suite | Case | Iterable[Case],
    *,
    seed: int = 0,
    ci_width: float = 0.01,
    budget: float = 3.0,
    check: Checking = "auto",
    launches: int = 1,
    twin: bool = True,
    limit: float = 120.0,
    backward: bool = False,
    numpy: bool = False,
    cold: bool = False,
    dispatch: bool = True,
    metrics: Sequence[str | Callable[[], Metric]] = (),
    roofline: Roofline | None = None,
    base: str | None = None,
    isolate: bool = False,
    in_process: bool = False,
    output: str | Path | None = None,
    progress: bool = True,
) -> Study:
    """Study operators and frameworks: is each right on each case, how precise is it, how long does it take?

    Each contestant lives in a process of its own, for all cases, and is stopped while others are timed. On each case all are
    set up, judged against the reference, warmed up and timed in random order, block by block; then whether their answers
    are still the same is looked at, and whether operators have left alone their inputs, the clock and the checker. Who fails
    on a case is out of that case only: a process that ended is started afresh. Gradients that fail cost the gradients only.

    Not looked for are answers that are kept by the whole contents of the inputs, work that goes on after a call, and reads
    and writes outside of buffers: `deep_bench.operators.check_operator` does that.

    Within one launch of its process nobody sees what differs between launches. With ``launches`` all processes are started
    so many times and time all cases anew: medians are those over the launches' medians then, and so are their intervals
    (from six launches on). What is judged is the first launch.

    Args:
        contestants: Operators or their classes, frameworks with options (``"torch:threads=1"``), operators in files
            (``"my_kernels.py:FastGelu"``); or a mapping from label to each.
        cases: A suite, its name in ``db.suites``, a ``.toml`` or ``.onnx`` file, a network, or cases.
        seed: Of the inputs, of the random order and of the estimates.
        ci_width: Go on to the next case when half the 95 % interval of each median is at most this share of it …
        budget: … or after so many seconds of measuring the case, in all launches together; twice that where blocks are too
            few for intervals.
        check: How hard to look whether results are right: ``"auto"``, ``"quick"``, ``"full"`` or ``"off"``.
        launches: How many times to start every contestant afresh.
        twin: Whether the base is measured twice, as an A/A pair: what the two differ by means nothing.
        limit: The most seconds that anything asked of a contestant may take.
        backward: Time gradients as well.
        numpy: Time calls from and to NumPy arrays as well.
        cold: Time calls on empty caches as well; all others find them warm.
        dispatch: Time a call that computes nothing as well, once for each signature.
        metrics: What else is to be found out of each forward call; see `deep_bench.measure.metrics`.
        roofline: The roofs of this machine; by default those that were measured last, if they ever were.
        base: The contestant that others are compared with; by default the first framework, or the first of all.
        isolate: Give each case fresh processes, so that none can leave anything behind for the next.
        in_process: Time everything in this process, for a debugger.
        output: A folder for the record and the contestants' logs.
        progress: Show progress bars, if standard error is a terminal.

    Returns:
        What was found. Ctrl-C ends the study early; the result then holds what was measured.

    Raises:
        UnknownName: A framework, suite or base that does not exist.
        FrameworkMissing: A framework that is not installed.
        InvalidArgument: An option out of range, contestants or cases that are none, or an operator that cannot be pickled.
        NotKept: The record could not be written in the end; ``found`` of the error is the study.

    Example:
        >>> import numpy as np
        >>> import deep_bench as db
        >>> class Doubled(db.Operator):
        ...     computes = "Add"
        ...     def forward(self, a, b):
        ...         return a + b
        >>> found = study([Doubled, "reference"], db.Case.of("Add", (8,), (8,)), budget=0.3, progress=False)
        >>> found["Doubled", "8 8"].verdict
        'right'
    """
    settings = StudySettings(
        seed=seed,
        ci_width=ci_width,
        budget=budget,
        check=check,
        launches=launches,
        twin=twin,
        limit=limit,
        backward=backward,
        numpy=numpy,
        cold=cold,
        dispatch=dispatch,
        isolate=isolate,
        in_process=in_process,
    )
    chosen, suite = contestants_of(contestants), suite_of(cases)
    if base is not None and base not in [c.label for c in chosen]:
        raise UnknownName("contestant", base, [c.label for c in chosen])
    folder = output_folder(output) if output is not None else None
    experiment = RunningStudy(chosen, suite, settings, metrics, folder, Bars(progress), base=base)
    roofs = roofline if roofline is not None else latest_roofline()
    experiment.record.roofline = None if roofs is None else roofs.model_dump(mode="json")
    record = experiment.run()
    if (error := experiment.unwritten) is not None:
        raise NotKept(error.came, error.expected, found=Study(record)) from error
    return Study(record, experiment.path)
