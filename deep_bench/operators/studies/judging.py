"""Whether contestants are right on a case, before they are timed and after, and leave alone what judges them.

What they must leave alone are their inputs, the clock and the checker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.check.judge import judge
from deep_bench.check.oracle import Truth
from deep_bench.operators.case import Case
from deep_bench.operators.checks.arrays import same_bits
from deep_bench.operators.checks.problem import Honest, Problem
from deep_bench.operators.studies.system import output_gradients, pulled_back
from deep_bench.records.model import TrialRecord, VerdictRecord
from deep_bench.study.judging import chosen_effort, fleet_subject, quiet, suitable, verdict_record
from deep_bench.study.settings import Checking
from deep_bench.study.study import Heat

_SHOWN = 3


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

        def evaluate() -> None:
            arrays, reference = case.arrays(seed), frameworks["reference"]().prepare(case.network())
            with suitable(case.name, "give them another draw, or check='off' to time it unchecked", "operator"):
                reference.forward(arrays)

        with quiet():
            effort = chosen_effort(check, _FULL_BELOW_SECONDS, evaluate)
            self._problem = Problem(case, seed=seed, effort=effort)
            self.truth = self._problem.truth()
        self._answers: dict[str, Arrays] = {}

    def judged(self, heat: Heat, label: str) -> VerdictRecord:
        """The verdict on a contestant. NumPy's remarks on empty arrays and overflow are no news to the user."""
        subject = fleet_subject(heat, label)
        with quiet():
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
        with quiet():
            whole = pullback.assessed(truth, lambda: gradients("gradients"), lambda: gradients("gradients_precisely"))
        seconds = perf_counter() - begin
        reason = whole.reason or "the gradients differ from the oracle's by rounding only"
        for name, gradient in names.items():
            reason = reason.replace(f"output {gradient!r}", f"the gradient of {name}")
        bits = whole.bits
        record = VerdictRecord(
            verdict="no information" if whole.clear and whole.information else whole.word,
            reason=f"gradients: {reason}",
            significant_bits=bits if abs(bits) < float("inf") else None,
            max_abs_error=max((o.max_abs_error for o in whole.outputs if abs(o.max_abs_error) < float("inf")), default=None),
            effort=truth.effort,
            seconds=seconds,
        )
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
        with quiet():
            pullback = pulled_back(network, self.truth.inputs, output_gradients(network, shapes, self._seed))
            return pullback, pullback.truth(self.truth.effort)


def _as_coarse(gradients: VerdictRecord, forward: VerdictRecord | None) -> bool:
    """Whether outputs of reduced precision explain the gradients."""
    if forward is None or forward.verdict != "reduced precision" or forward.significant_bits is None:
        return False
    return gradients.significant_bits is not None and gradients.significant_bits >= forward.significant_bits - _LOST_BITS
