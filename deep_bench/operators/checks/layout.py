"""Whether a kernel is right wherever its inputs lie in memory."""

from __future__ import annotations

from typing import Any

from deep_bench.check.truth import Effort
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.forward import judged
from deep_bench.operators.checks.layouts import Arrangement, available
from deep_bench.operators.checks.prepared import found
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator


def layout_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a kernel is right on inputs that are not contiguous or not aligned, as far as its device has such arrays.

    Inputs are transposed, in Fortran order, taken from every second element or from longer rows, run backwards, begin within
    their memory or at an odd address. What lies between their elements is NaN, and must stay.

    Args:
        operator: The kernel. If it wants its inputs otherwise, it may raise `deep_bench.errors.Unsupported`.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Example:
        >>> class Doubled(Operator):
        ...     computes = lambda x: x + x
        ...     def forward(self, x):
        ...         return 2 * x
        >>> layout_check(Doubled(), Case.of(Doubled().target, (2, 3))).word
        'right'
    """
    problem = posed(case, seed, effort)
    layouts = available(operator.device, problem.inputs())
    parts = [_in(operator, problem, layout) for layout in layouts]
    return combined("layout", problem.name, parts, "its device has no arrays but contiguous ones")


def _in(operator: Operator[Any], problem: Problem, layout: str) -> Finding:
    arrangement = Arrangement(layout)

    def find() -> Finding:
        finding = judged("layout", operator, problem, problem.truth(), layout, arrangement)
        if not arrangement.untouched(operator.device):
            return Finding("layout", problem.name, "wrong", "writes to its inputs or between their elements", place=layout)
        return finding

    return found("layout", problem, find, layout)
