"""Whether a kernel is right where a dimension has one element, or none."""

from __future__ import annotations

import warnings
from typing import Any

from deep_bench.check.truth import Effort
from deep_bench.errors import DeepBenchError
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.forward import judged
from deep_bench.operators.checks.prepared import found
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.checks.shrink import small_cases
from deep_bench.operators.operator import Operator

_MOST = {"quick": 4, "full": 24}


def sizes_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel is right where dimensions of the case have one element or none, as far as the operator allows it.

    Args:
        operator: The kernel. For sizes that it does not take, it may raise `deep_bench.errors.Unsupported`.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: ``"quick"`` tries at most four cases with ones and four with zeros, ``"full"`` twenty-four of each.

    Example:
        >>> class Averaged(Operator):
        ...     computes = "ReduceMean"
        ...     def forward(self, x, axes, *, keepdims=1):
        ...         return x.sum(axis=1, keepdims=True) / (len(x[0]) or 1)
        >>> sizes_check(Averaged(), Case.of("ReduceMean", (3, 4), [1])).word
        'failed'
    """
    problem = posed(case, seed, effort)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN, of which NumPy warns
        parts = [_at(operator, small, problem) for small in small_cases(problem.case, most=_MOST[problem.effort])]
    return combined("sizes", problem.name, parts, "the operator allows no other sizes")


def _at(operator: Operator[Any], case: Case, whole: Problem) -> Finding:
    small = Problem(case, seed=whole.seed, effort=whole.effort)
    place = f"size {case.label}"
    try:
        truth = small.truth()
    except (DeepBenchError, ValueError, ZeroDivisionError, IndexError) as error:
        reason = f"the reference does not define it: {type(error).__name__}"
        return Finding("sizes", whole.name, "not applicable", reason, place=place)
    return found("sizes", whole, lambda: judged("sizes", operator, small, truth, place), place)
