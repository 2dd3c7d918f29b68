"""Whether a kernel's results are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from deep_bench.check import judge
from deep_bench.check.truth import Effort, Truth
from deep_bench.check.verdict import Verdict
from deep_bench.errors import DeepBenchError
from deep_bench.graph import operator_name
from deep_bench.operators.case import Case
from deep_bench.operators.checks.defined import defines_special, passes_nan
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.prepared import KernelSubject, Prepared, found
from deep_bench.operators.checks.problem import NAN, Problem, posed
from deep_bench.operators.draws import DISTRIBUTIONS
from deep_bench.operators.operator import Operator

ROUNDS: Mapping[Effort, int] = {"quick": 1, "full": 3}
"""How many inputs of each distribution are tried."""

_ORDER = ("normal", "wide", "ties", "tiny", "huge", "special")

_BY_RANGE = {
    "tiny": "it has lost bits on tiny inputs only: intermediate results underflow",
    "huge": "it has lost bits on huge inputs only: intermediate results overflow, or are cut off",
}

Arrange = Callable[[Prepared, Mapping[str, np.ndarray]], Mapping[str, Any]]


def forward_check(
    operator: Operator[Any],
    case: Case | Problem,
    *,
    seed: int = 0,
    effort: Effort = "quick",
    distributions: Sequence[str] | None = None,
) -> Finding:
    """Whether a kernel's results are those of its reference but for rounding, on fresh inputs of several distributions.

    Each output is judged by the estimate of rounding errors; its shape and element type must be the reference's.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: ``"full"`` tries three inputs of each distribution, and estimates from more evaluations.
        distributions: Some of `deep_bench.operators.draws.DISTRIBUTIONS`; all by default, infinities only where the operator
            defines what it gives for them, and elsewhere NaN alone, if the reference gives NaN for it.

    Example:
        >>> class Doubled(Operator):
        ...     computes = lambda x: x + x
        ...     def forward(self, x):
        ...         return 2 * x
        >>> forward_check(Doubled(), Case.of(Doubled().target, (2, 3))).word
        'right'
    """
    problem = posed(case, seed, effort)
    chosen = [d for d in _ORDER if d in DISTRIBUTIONS] if distributions is None else distributions
    parts = [
        _on(operator, problem, distribution, number, explicit=distributions is not None)
        for distribution in chosen
        for number in range(ROUNDS[problem.effort])
    ]
    if distributions is None:
        parts += filter(None, (_on_nan(operator, problem, number) for number in range(ROUNDS[problem.effort])))
    return combined("forward", problem.name, _explained(parts), "no distribution was asked for")


def _explained(parts: list[Finding]) -> list[Finding]:
    """Who computes as precisely as it states on normal inputs does so on others too: there it loses bits by their range."""
    if not any(p.place.startswith("normal") and p.word == "right" for p in parts):
        return parts
    return [replace(p, reason=_BY_RANGE[p.place.split()[0]]) if _by_range(p) else p for p in parts]


def _by_range(part: Finding) -> bool:
    return part.word == "reduced precision" and part.place.split()[0] in _BY_RANGE


def _on(operator: Operator[Any], problem: Problem, distribution: str, number: int, *, explicit: bool) -> Finding:
    place = f"{distribution} inputs"
    if distribution == "special" and not explicit and not defines_special(problem.case):
        reason = f"infinities, since the standard leaves open what {problem.case.op_type} gives for them"
        return Finding("forward", problem.name, "not applicable", reason, place=place)
    try:
        truth = problem.truth(distribution, number)
    except DeepBenchError as error:
        reason = f"there are no {distribution} inputs for it: {error.came}"
        return Finding("forward", problem.name, "not applicable", reason, place=place)
    return found("forward", problem, lambda: judged("forward", operator, problem, truth, place), place)


def _on_nan(operator: Operator[Any], problem: Problem, number: int) -> Finding | None:
    """What is said of NaN among numbers; ``None`` where the special inputs have asked already all that can be asked."""
    place = "inputs with NaN"
    try:
        truth: Truth | None = problem.truth(NAN, number)
    except Exception:  # a reference may refuse NaN in any way: then it is not asked
        truth = None
    if truth is not None and passes_nan(problem.case, truth):
        return found("forward", problem, lambda: judged("forward", operator, problem, truth, place), place)
    if defines_special(problem.case):
        return None
    reason = f"NaN, for which {problem.case.op_type} does not give NaN wherever it reads it"
    return Finding("forward", problem.name, "not applicable", reason, place=place)


def judged(
    name: str,
    operator: Operator[Any],
    problem: Problem,
    truth: Truth,
    place: str,
    arrange: Arrange = Prepared.native,
) -> Finding:
    """What the checker says of the kernel's answer to the inputs of ``truth``, which may lie in memory as they like."""
    subject = KernelSubject(operator, truth.network, truth.inputs, arrange)
    declared = (operator_name(truth.network.nodes[0]),) if operator.norm_wise else ()
    verdict = judge(truth, subject, norm_wise=declared)
    bits = verdict.significant_bits
    measured_bits = None if bits != bits else bits
    figures = {"max_abs_error": verdict.max_abs_error, "max_rel_error": verdict.max_rel_error, "max_ulp": verdict.max_ulp}
    reason = "" if verdict.word == "right" else _said(verdict)
    return Finding(name, problem.name, verdict.word, reason, measured_bits, _place(verdict, place), figures)


def _said(verdict: Verdict) -> str:
    """The reason, without what only a network of several nodes needs."""
    node, _, message = verdict.reason.partition("): ") if verdict.reason.startswith("node ") else ("", "", verdict.reason)
    if node and not message.startswith("it "):
        message = f"the result {message}"
    return message.removesuffix("; all 1 nodes replayed alone are right")


def _place(verdict: Verdict, place: str) -> str:
    """The worst element of the first output that something is said of."""
    if verdict.word == "right":
        return place
    blamed = next((o for o in verdict.outputs if o.reason), None) or min(verdict.outputs, key=lambda o: o.bits, default=None)
    if blamed is None:
        return place
    return f"{place}, {blamed.name}{list(blamed.where)}" if blamed.where else f"{place}, {blamed.name}"
