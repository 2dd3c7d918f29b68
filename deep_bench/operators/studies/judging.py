"""Whether contestants are right on a case, before they are timed and after, and leave alone what judges them.

A heat is one case of a study: those contestants that could set it up, taking turns. What they must leave alone are their
inputs, the clock and the checker.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.check.judge import EndToEnd, judge
from deep_bench.check.oracle import SAMPLES, Effort, Truth
from deep_bench.environments.lean import oldest_stamp
from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidInput, Unsupported, WorkerDied
from deep_bench.operators.case import Case
from deep_bench.operators.checks.arrays import same_bits
from deep_bench.operators.checks.problem import Honest, Problem
from deep_bench.operators.studies.system import output_gradients, pulled_back
from deep_bench.records.model import TrialRecord, VerdictRecord
from deep_bench.study.judging import fleet_subject, verdict_record
from deep_bench.study.settings import Checking
from deep_bench.workers.fleet import Fleet
from deep_bench.workers.process import SystemHandle, Worker


class Heat:
    """The part of a fleet that is on a case: who fails in it is out of this case only.

    A process that ended is out of the fleet as well, until it is started afresh.

    Args:
        fleet: The started contestants.
        limit: The most seconds that anything asked of one may take.
        labels: Who takes part; by default all.

    Attributes:
        runners: Label to system, of those that are still in.
        prepared: Label to what loading the case said.
        failures: Label to error.
        in_process: As of the fleet.
    """

    def __init__(self, fleet: Fleet, limit: float, labels: Collection[str] | None = None) -> None:
        self._fleet = fleet
        self.in_process = fleet.in_process
        self.runners: dict[str, SystemHandle] = {n: r for n, r in fleet.runners.items() if labels is None or n in labels}
        self.prepared: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, DeepBenchError] = {}
        for runner in self.runners.values():
            if isinstance(runner, Worker):
                runner.limit_s = limit

    def load(self, label: str, *problem: Any) -> None:
        """Give a contestant the case; if it fails, it is out."""
        try:
            self.prepared[label] = self.awake(label, lambda runner: runner.load(*problem))
        except DeepBenchError as error:
            self.set_aside(label, error)

    def load_plain(self, label: str, case: Case, seed: int, wanted: Sequence[str]) -> None:
        """Give it to a contestant in another Python environment, as a network and arrays."""
        try:
            if not isinstance(case.operator, str):
                raise Unsupported(
                    f"{case.name} is computed by a function of this environment", "an ONNX operator for another environment"
                )
            network = oldest_stamp(case.network().to_proto().SerializeToString())
            posed = {"network": network, "arrays": dict(case.arrays(seed))}
        except Unsupported as error:
            self.set_aside(label, error)
            return
        self.load(label, posed, seed, tuple(wanted))

    def call(self, label: str, method: str, *args: Any, **options: Any) -> Any:
        """As `Fleet.call`."""
        return self.awake(label, lambda runner: runner.call(method, *args, **options))

    def awake(self, label: str, action: Callable[[SystemHandle], Any]) -> Any:
        """As `Fleet.awake`."""
        if label not in self.runners:
            raise self.failures.get(label) or InvalidArgument(f"{label} is not in", f"one of {', '.join(self.runners)}")
        return self._fleet.awake(label, action)

    def set_aside(self, label: str, error: DeepBenchError) -> None:
        """Leave a contestant out of the rest of the case."""
        self.failures[label] = error
        self.runners.pop(label, None)
        if isinstance(error, WorkerDied):
            self._fleet.set_aside(label, error)


_SHOWN = 3


def note_loaded(prepared: dict[str, object], trial: TrialRecord) -> None:
    """Take what loading said of gradients that failed: the rest of the trial goes on without them."""
    facts = prepared["facts"]
    failed = facts["gradients_failed"]  # type: ignore[index]
    if failed is not None:
        trial.gradients = VerdictRecord(verdict="failed", reason=f"gradients: {failed}")


def note_changes(heat: Heat, label: str, trial: TrialRecord) -> bool:
    """Call an operator wrong that changes its inputs: it is timed and judged on what it has made of them.

    Args:
        heat: Who is on the case.
        label: The operator.
        trial: What was found of it so far.

    Returns:
        Whether forward does.
    """
    first: list[str] = heat.prepared[label]["facts"]["changed"]
    if first:
        _note_wrong(trial, f"changes its {_inputs(first)}")
        return True
    later, with_gradients = heat.call(label, "changed")
    if later:
        _note_wrong(trial, f"a later call changes its {_inputs(later)}")
    elif with_gradients:
        trial.gradients = _as_wrong(trial.gradients, f"gradients: backward changes {', '.join(with_gradients)}")
    return bool(later)


def note_patches(heat: Heat, label: str, trial: TrialRecord) -> None:
    """Call an operator wrong that has replaced the clock, NumPy's functions or the checker's: nothing of it can be believed.

    Args:
        heat: Who is on the case.
        label: The operator.
        trial: What was found of it so far.
    """
    names: list[str] = heat.call(label, "patched")
    if names:
        remainder = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        _note_wrong(trial, f"replaces {', '.join(names[:_SHOWN])}{remainder}, which it is timed and judged with")


def _note_wrong(trial: TrialRecord, reason: str) -> None:
    trial.verdict = _as_wrong(trial.verdict, reason)


def _as_wrong(verdict: VerdictRecord | None, reason: str) -> VerdictRecord:
    if verdict is None:
        return VerdictRecord(verdict="wrong", reason=reason)
    return verdict.model_copy(update={"verdict": "wrong", "reason": reason})


def _inputs(names: Sequence[str]) -> str:
    return f"input{'s' if len(names) > 1 else ''} {', '.join(names)}"


Arrays = Mapping[str, np.ndarray]

_FULL_BELOW_SECONDS = 0.02
_LOST_BITS = 3.0
"""How many bits gradients may have less than outputs that are of reduced precision."""


_UNSEEN = 1
"""The number of the inputs that contestants see after they were timed only."""


class Judge:
    """What is known of a case, against which contestants are judged.

    Args:
        case: The case.
        check: How hard to look.
        seed: Names the contents of the inputs, and is that of the estimates.

    Raises:
        InvalidInput: The reference cannot run on these inputs.
        UnsupportedOperator: There is no reference.
    """

    def __init__(self, case: Case, check: Checking, seed: int) -> None:
        self._case, self._seed = case, seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self._problem = Problem(case, seed=seed, effort=_effort(case, check, seed))
            self.truth = self._problem.truth()
        self._answers: dict[str, Arrays] = {}

    def judged(self, heat: Heat, label: str) -> VerdictRecord:
        """The verdict on a contestant. NumPy's remarks on empty arrays and overflow are no news to the user."""
        subject = fleet_subject(heat, label)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self._answers[label] = subject.outputs()
            return verdict_record(judge(self.truth, subject), self._answers[label])

    def gradients_judged(self, heat: Heat, label: str, forward: VerdictRecord | None) -> VerdictRecord:
        """The verdict on a contestant's gradients.

        Args:
            heat: Who is on the case.
            label: The contestant.
            forward: The verdict on its outputs: gradients of about the same precision share it.

        Raises:
            DeepBenchError: The reference has no gradients of the operator.
        """
        pullback, truth = self._backward
        names = dict(zip(pullback.wrt, truth.outputs, strict=True))

        def gradients(method: str) -> dict[str, np.ndarray]:
            arrays: Arrays = heat.call(label, method)
            return {names[name]: gradient for name, gradient in arrays.items() if name in names}

        begin = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            whole = pullback.assessed(truth, lambda: gradients("gradients"), lambda: gradients("gradients_precisely"))
        record = _gradient_record(whole, names, truth.effort, perf_counter() - begin)
        if record.verdict in ("wrong", "cannot tell") and not whole.impossible and _as_coarse(record, forward):
            record.verdict = "reduced precision"
        return record

    def doubts(self, heat: Heat, label: str) -> str:
        """What is wrong with a contestant's answers now that it was timed, though they were right before; else ``""``."""
        truth, saved_answer = self._problem.truth(number=_UNSEEN), self._answers[label]
        honest = Honest(self.truth, saved_answer)
        if not honest.judgeable or truth.random:
            return ""
        again = fleet_subject(heat, label).outputs()
        if not honest.admits(self.truth, again):
            return "the answer to the inputs it was timed on is wrong after the calls, and was right before"
        places = ("for inputs it has not seen", "for new inputs in the same memory")
        seed = self._problem.seed_of(_UNSEEN)
        for answer, place in zip(heat.call(label, "answers", seed), places, strict=False):
            if not honest.admits(truth, answer):
                stale = same_bits(saved_answer, answer) or same_bits(again, answer)
                return f"after the calls, {'it gives its earlier answer again' if stale else 'its answer is wrong'} {place}"
        return ""

    @cached_property
    def _backward(self) -> tuple[Any, Truth]:
        """The case with a loss, and what is known of its gradients."""
        shapes = {name: np.shape(y) for name, y in self.truth.outputs.items()}
        network = self._case.network()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            pullback = pulled_back(network, self.truth.inputs, output_gradients(network, shapes, self._seed))
            return pullback, pullback.truth(self.truth.effort)


def _gradient_record(whole: EndToEnd, names: Mapping[str, str], effort: str, seconds: float) -> VerdictRecord:
    reason = whole.reason or "the gradients differ from the oracle's by rounding only"
    for name, gradient in names.items():
        reason = reason.replace(f"output {gradient!r}", f"the gradient of {name}")
    bits = whole.bits
    return VerdictRecord(
        verdict="no information" if whole.clear and whole.information else whole.word,
        reason=f"gradients: {reason}",
        significant_bits=bits if abs(bits) < float("inf") else None,
        max_abs_error=max((o.max_abs_error for o in whole.outputs if abs(o.max_abs_error) < float("inf")), default=None),
        effort=effort,
        seconds=seconds,
    )


def _as_coarse(gradients: VerdictRecord, forward: VerdictRecord | None) -> bool:
    """Whether outputs of reduced precision explain the gradients."""
    if forward is None or forward.verdict != "reduced precision" or forward.significant_bits is None:
        return False
    return gradients.significant_bits is not None and gradients.significant_bits >= forward.significant_bits - _LOST_BITS


def _effort(case: Case, check: Checking, seed: int) -> Effort:
    """How many evaluations to make; the reference is run once, whose time tells.

    Raises:
        InvalidInput: It cannot run.
    """
    arrays, reference = case.arrays(seed), frameworks["reference"]().prepare(case.network())
    begin = perf_counter()
    try:
        reference.forward(arrays)
    except DeepBenchError:
        raise
    except Exception as error:  # NumPy raises whatever fits
        raise InvalidInput(
            f"the reference cannot run {case.name}: {error}",
            "inputs of values and sizes that suit the operator",
            "give them another draw, or check='off' to time it unchecked",
        ) from error
    if check in SAMPLES:
        return check  # type: ignore[return-value]
    return "full" if perf_counter() - begin < _FULL_BELOW_SECONDS else "quick"
