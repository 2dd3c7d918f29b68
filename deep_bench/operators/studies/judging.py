"""Whether contestants are right on a case: before they are timed, and after."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.check.endtoend import Whole, assess_whole, settle_whole
from deep_bench.check.fleet_subject import FleetSubject
from deep_bench.check.judge import judge
from deep_bench.check.recorded import verdict_record
from deep_bench.check.truth import SAMPLES, Effort, Truth
from deep_bench.errors import DeepBenchError, InvalidInput
from deep_bench.measure.record import VerdictRecord
from deep_bench.operators.case import Case
from deep_bench.operators.checks.answers import Honest
from deep_bench.operators.checks.native import same_bits
from deep_bench.operators.checks.problem import Problem
from deep_bench.operators.studies.gradients import output_gradients, pulled_back
from deep_bench.operators.studies.heat import Heat
from deep_bench.operators.studies.settings import Checking

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
        subject = FleetSubject(heat, label)
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
        subject = _Gradients(heat, label, names)
        begin = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            whole = assess_whole(truth, subject.outputs(), truth.outputs, truth.samples)
            if not whole.clear:
                oracle = pullback.subject(None).oracle_in_float64
                whole = settle_whole(truth, subject, whole, besides="", precise_oracle=oracle)
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
        again = FleetSubject(heat, label).outputs()
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


@dataclass(frozen=True)
class _Gradients:
    """The gradients of a contestant as a `deep_bench.check.Subject`."""

    heat: Heat
    label: str
    names: Mapping[str, str]
    upgrades: bool = True

    def outputs(self) -> dict[str, np.ndarray]:
        return self._named("gradients")

    def run(self, network: object, inputs: object) -> dict[str, np.ndarray]:  # noqa: ARG002 (a Subject)
        return self._named("gradients")

    def run_precisely(self, network: object, inputs: object) -> dict[str, np.ndarray]:  # noqa: ARG002 (a Subject)
        return self._named("gradients_precisely")

    def _named(self, method: str) -> dict[str, np.ndarray]:
        gradients: Arrays = self.heat.call(self.label, method)
        return {self.names[name]: gradient for name, gradient in gradients.items() if name in self.names}


def _gradient_record(whole: Whole, names: Mapping[str, str], effort: str, seconds: float) -> VerdictRecord:
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
