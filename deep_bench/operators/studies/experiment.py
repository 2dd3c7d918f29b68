"""A study as it goes: start the contestants, give them case after case, and keep the record up to date all the while."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import JsonValue

from deep_bench.environments.declaration import oldest_stamp
from deep_bench.errors import DeepBenchError, InvalidArgument, UnknownName, Unsupported, UnsupportedOperator, WorkerDied
from deep_bench.graph import Network
from deep_bench.measure.environment import disturbances, provenance
from deep_bench.measure.metrics import Metric, make_metric
from deep_bench.measure.progress import Bars
from deep_bench.measure.roofline import Roofline, latest_roofline
from deep_bench.measure.session import Plan
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import in_a_line
from deep_bench.operators.cost import cost_of_case
from deep_bench.operators.operator import Operator
from deep_bench.operators.studies.contestants import OperatorContestant, base_of, contestants_of
from deep_bench.operators.studies.judging import Judge, note_changes, note_patches
from deep_bench.operators.studies.result import Study
from deep_bench.operators.studies.settings import BOTH, DISPATCH, FORWARD, VERDICT, StudySettings
from deep_bench.operators.suites.from_network import suite_of
from deep_bench.operators.suites.suite import Suite
from deep_bench.records.folders import output_folder
from deep_bench.records.model import (
    CaseFacts,
    OptionsRecord,
    Record,
    SuiteFacts,
    SystemRecord,
    Tensor,
    TrialRecord,
    VerdictRecord,
)
from deep_bench.study.settings import Checking
from deep_bench.study.study import Heat, RecordFile, StudyRun, twin_record
from deep_bench.tensor import is_float
from deep_bench.variant import Variant
from deep_bench.workers.pickling import dumped


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
    fields = {"outputs": [Tensor.of(spec) for spec in outputs], "dtype": str(floats[0]) if floats else "", **counted}
    return bare_facts(case).model_copy(update=fields)


def bare_facts(case: Case) -> CaseFacts:
    """What a case asks for, as it is stated."""
    return CaseFacts(
        label=case.label,
        operator=f"{case.domain}::{case.op_type}" if case.domain else case.op_type,
        attributes={name: _plain_attribute(value) for name, value in case.attributes.items()},
        inputs=[Tensor.of(a.spec) for a in case.arguments if a is not None],
        tags=sorted(case.tags),
        count=case.count,
        source=case.source,
    )


def signature(case: Case) -> tuple[Any, ...]:
    """What the cost of calling depends on: the operator, its inputs and outputs without their sizes, and attributes."""
    kinds = tuple(None if a is None else (str(a.dtype), a.is_constant) for a in case.arguments)
    return (case.operator, kinds, tuple(case.attributes), case.outputs)


def _plain_attribute(value: Any) -> JsonValue:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.size <= 64 else f"{value.dtype}{list(value.shape)}"
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return repr(value)
    return list(value) if isinstance(value, tuple) else value


_FEWEST_BLOCKS = 6
"""Fewer give no interval."""


_WANTED_BLOCKS = 8
_SHARE_OF_BLOCKS = 0.5
_SHORTEST_NS, _LONGEST_NS = 5_000_000, 50_000_000


class JudgedCase:
    """A case as a study gives it to its contestants, and judges them by it.

    Args:
        case: The case.
        number: Its place in the suite.
        contestants: Label to contestant.
        settings: How to check and measure.
        metrics: What watches calls of the operator after it was timed.
        called: Launches and contestants whose empty call was timed, with the signature of the case: shared by all cases.
    """

    def __init__(
        self,
        case: Case,
        number: int,
        contestants: Mapping[str, OperatorContestant],
        settings: StudySettings,
        metrics: Sequence[str | Callable[[], Metric]],
        called: set[Any],
    ) -> None:
        self.name, self.case, self.number, self.settings, self.metrics = case.name, case, number, settings, metrics
        self._contestants, self._called = contestants, called
        self._launch = 0
        self._facts: SuiteFacts | None = None
        self._judge: Judge | None = None

    def entries(self, record: Record, launch: int) -> dict[str, TrialRecord]:
        """Of all contestants in the first launch; later of those who did not fail in it before."""
        if launch == 0:
            assert record.suite is not None
            self._facts = record.suite
            self._facts.cases.append(bare_facts(self.case))
            for system in record.systems:
                system.trials.append(TrialRecord(case=self.case.label))
        self._launch = launch
        trials = {s.label: s.trials[self.number] for s in record.systems if len(s.trials) > self.number}
        return {label: trial for label, trial in trials.items() if trial.error is None}

    def load(self, heat: Heat) -> None:
        """The case, pickled; as a network and arrays to contestants in another Python environment."""
        case, seed = self.case, self.settings.seed
        if self._facts is not None:
            self._facts.cases[self.number] = case_facts(case)
            self._facts = None
        content, kind = dumped(case, case.name), signature(case)
        for label in list(heat.runners):
            call = (self._launch, label, kind)
            quantities = tuple(name for name in self.settings.wanted if name != DISPATCH or call not in self._called)
            if heat.fleet.contenders[label].place is None:
                heat.load(label, content, seed, quantities)
            elif isinstance(case.operator, str):
                network = oldest_stamp(case.network().to_proto().SerializeToString())
                heat.load(label, {"network": network, "arrays": dict(case.arrays(seed))}, seed, quantities)
            else:
                came = f"{case.name} is computed by a function of this environment"
                heat.set_aside(label, Unsupported(came, "an ONNX operator for another environment"))
            if label in heat.prepared:
                self._called.add(call)

    def judge(self, heat: Heat, entries: Mapping[str, TrialRecord]) -> None:
        """The verdicts on all but the twin; without a reference they are timed unchecked, and it is said."""
        for label, prepared in heat.prepared.items():
            trial, facts = entries[label], prepared["facts"]
            trial.setup_ns, trial.unavailable = facts["setup_ns"], facts["unavailable"]
            if (failed := facts["gradients_failed"]) is not None:  # the rest of the trial goes on without them
                trial.gradients = VerdictRecord(verdict="failed", reason=f"gradients: {failed}")
        if self.settings.check == "off":
            return
        try:
            judge = self._judge = Judge(self.case, self.settings.check, self.settings.seed)
        except DeepBenchError as error:
            for trial in entries.values():
                trial.unavailable[VERDICT] = str(error)
            return
        for label in self._judged(heat):
            trial = entries[label]
            try:
                trial.verdict = judge.judged(heat, label)
                if BOTH in heat.prepared[label]["calls"]:
                    self._judge_gradients(judge, heat, trial, label)
                if self._contestants[label].own:
                    note_changes(heat, label, trial)
            except DeepBenchError as error:
                heat.set_aside(label, error)

    @staticmethod
    def _judge_gradients(judge: Judge, heat: Heat, trial: TrialRecord, label: str) -> None:
        try:
            trial.gradients = judge.gradients_judged(heat, label, trial.verdict)
        except UnsupportedOperator as error:  # the reference has none
            trial.unavailable[VERDICT] = f"of the gradients: {error.came}"
        except WorkerDied:
            raise
        except DeepBenchError as error:
            trial.gradients = VerdictRecord(verdict="failed", reason=f"gradients: {in_a_line(error)}")

    def plan(self, calls: int) -> Plan:
        """Blocks as long as they can be if each call is to have the fewest that give an interval, and some more."""
        settings = self.settings
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

    def judge_again(self, heat: Heat, entries: Mapping[str, TrialRecord], launch: int) -> None:
        """Now that they were timed: what do metrics say, and are the answers of operators still right, to new inputs too?

        Timing brings to light changed inputs, kept answers and replaced clocks.
        """
        for label in self._judged(heat):
            trial = entries[label]
            try:
                if self.metrics and launch == 0:
                    metrics = heat.awake(label, lambda runner: runner.collect(FORWARD, list(self.metrics)))
                    trial.metrics = [metric.model_dump(mode="json") for metric in metrics]
                if not self._contestants[label].own:
                    continue
                honest = not note_changes(heat, label, trial)
                doubt = self._judge.doubts(heat, label) if honest and self._judge is not None and launch == 0 else ""
                if doubt and trial.verdict is not None:
                    trial.verdict.verdict, trial.verdict.reason = "wrong", doubt
                note_patches(heat, label, trial)
            except DeepBenchError as error:
                heat.set_aside(label, error)

    def _judged(self, heat: Heat) -> list[str]:
        """Who is looked at apart from timing: all that are still in, but the twin of one of them."""
        return [label for label in heat.runners if label in self._contestants]


def _first_record(
    contestants: Sequence[OperatorContestant], suite: Suite, settings: StudySettings, base: str | None
) -> Record:
    record = Record(
        **provenance(),
        recipe=OptionsRecord(
            options={**settings.as_options(), "on": [c.label for c in contestants], "cases": len(suite), "base": base},
            seeds={"study": settings.seed},
        ),
        suite=SuiteFacts(name=suite.name, source=suite.source, licence=suite.licence, notes=list(suite.notes)),
        systems=[SystemRecord(label=c.label, framework=c.framework, options=dict(c.options)) for c in contestants],
        in_process=settings.in_process,
    )
    record.notes += disturbances(record.environment)
    if settings.twin:
        record.systems.append(twin_record(record[base_of(contestants, base).label]))
    return record


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
    if not len(suite):
        raise InvalidArgument(f"the suite {suite.name} without cases", "at least one case")
    for metric in metrics:
        if isinstance(metric, str):
            make_metric(metric)  # raises where there is none
    record = _first_record(chosen, suite, settings, base)
    roofs = roofline if roofline is not None else latest_roofline()
    record.roofline = None if roofs is None else roofs.model_dump(mode="json")
    file = RecordFile(record, output_folder(output) if output is not None else None)
    by_label = {c.label: c for c in chosen}
    called: set[Any] = set()
    problems = [JudgedCase(c, n, by_label, settings, metrics, called) for n, c in enumerate(suite)]
    StudyRun(
        file,
        lambda _: [c.contender(limit) for c in chosen],
        problems,
        Bars(progress),
        launches=launches,
        in_process=in_process,
        limit=limit,
        isolate=isolate,
        unit="cases",
    ).run()
    return file.result(Study)
