"""Whether a kernel is only fast on inputs that it has seen."""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns
from typing import Any

from deep_bench.check.truth import Effort
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding
from deep_bench.operators.checks.native import assign
from deep_bench.operators.checks.prepared import Prepared, found
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator

_ROUNDS = 9
_FASTER = 2.0
"""How many times faster a call on known inputs must be to count as remembered …"""

_LEAST_NS = 30_000
"""… and by how much at least, since short calls scatter."""

_FRESH = 100
"""The first number of the inputs that only this check uses."""


def remembering_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel takes longer for inputs that it has not seen than for inputs that it has: it remembers answers.

    Known and new contents are written into the same memory in turn, so that both find the caches alike.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Returns:
        A finding whose figures ``seen_ns`` and ``unseen_ns`` are the medians of nine calls.
    """
    problem = posed(case, seed, effort)

    def find() -> Finding:
        times = _times(operator, problem, _FRESH)
        if _remembers(*times):
            times = _times(operator, problem, _FRESH + _ROUNDS)  # what was a coincidence does not come twice
        seen, unseen = times
        figures = {"seen_ns": seen, "unseen_ns": unseen}
        if not _remembers(seen, unseen):
            return Finding("remembering", problem.name, "right", figures=figures)
        reason = f"it remembers answers: {seen / 1e3:.3g} us for inputs that it has seen, {unseen / 1e3:.3g} us for others"
        return Finding("remembering", problem.name, "wrong", reason, figures=figures)

    return found("remembering", problem, find)


def _remembers(seen: float, unseen: float) -> bool:
    return unseen > _FASTER * seen and unseen - seen > _LEAST_NS


def _times(operator: Operator[Any], problem: Problem, start: int) -> tuple[float, float]:
    prepared = Prepared(operator, problem.network)
    known = problem.inputs()
    given = prepared.native(known)
    for _ in range(2):
        prepared.call(given)
    seen: list[int] = []
    unseen: list[int] = []
    for number in range(start, start + _ROUNDS):
        for arrays, times in ((problem.inputs("normal", number), unseen), (known, seen)):
            if not all([assign(prepared.device, given[n], a) for n, a in arrays.items()]):  # noqa: C419 (all are written)
                given = prepared.native(arrays)
            begin = perf_counter_ns()
            prepared.call(given)
            times.append(perf_counter_ns() - begin)
    return median(seen), median(unseen)
