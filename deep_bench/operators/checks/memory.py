"""Whether a native kernel keeps to its buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.check.truth import Effort
from deep_bench.errors import Unsupported
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.prepared import Prepared, found, told
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator

if TYPE_CHECKING:
    from deep_bench.operators.native_code.guard import Trespass
    from deep_bench.operators.native_code.operator import NativeOperator

_SHOWN = 2


def memory_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a native kernel reads and writes its buffers only, writes all of its outputs, and leaves its inputs alone.

    Every buffer is put between margins of a known pattern, see `deep_bench.operators.native_code.guard.trespasses`. A
    function whose gradients are native too is called for these as well.

    Args:
        operator: The kernel; of others than those of `deep_bench.operators.native` on the CPU nothing can be said.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Example:
        >>> from deep_bench.operators import native
        >>> source = 'extern "C" void f(const float *x, float *y, long n) { for (long i = 0; i <= n; ++i) y[i] = x[i]; }'
        >>> copy = native(source, function="f", computes="Identity", signature="const float *x, float *y, long n = x.size")
        >>> memory_check(copy, Case.of("Identity", (3,))).reason
        'output y (y: float32[3]): bytes behind it were overwritten: 4 bytes, the first at byte 12, element 3'
    """
    from deep_bench.operators.native_code.operator import NativeOperator

    problem = posed(case, seed, effort)
    if not isinstance(operator, NativeOperator):
        return Finding("memory", problem.name, "not applicable", "it is no native kernel, whose buffers could be watched")
    parts = [found("memory", problem, lambda: _forward(operator, problem), "forward")]
    if operator.differentiates:
        parts.append(found("memory", problem, lambda: _backward(operator, problem), "backward"))
    return combined("memory", problem.name, parts)


def _forward(operator: NativeOperator, problem: Problem) -> Finding:
    from deep_bench.operators.native_code.guard import trespasses

    prepared = Prepared(operator, problem.network)
    inputs = _arguments(prepared, problem)
    run = lambda: trespasses(operator, inputs, prepared.executor.attributes)  # noqa: E731
    return _finding(problem, told(f"{operator.name}.forward", run), "forward")


def _backward(operator: NativeOperator, problem: Problem) -> Finding:
    from deep_bench.operators.native_code.guard import trespasses

    prepared = Prepared(operator, problem.network)
    truth = problem.truth()
    drawn = problem.output_gradients(truth)
    if not drawn:
        raise Unsupported("it has no floating-point outputs")
    grads = [drawn.get(name) for name in prepared.executor.results]
    answer = prepared.answer(truth.inputs)
    outputs = [answer[name] for name in prepared.executor.results]
    inputs, attributes = _arguments(prepared, problem), prepared.executor.attributes
    run = lambda: trespasses(operator, inputs, attributes, grads=grads, outputs=outputs)  # noqa: E731
    return _finding(problem, told(f"{operator.name}.backward", run), "backward")


def _arguments(prepared: Prepared, problem: Problem) -> list[np.ndarray | None]:
    return prepared.executor.arguments(prepared.native(problem.inputs()))


def _finding(problem: Problem, seen: tuple[Trespass, ...], place: str) -> Finding:
    if not seen:
        return Finding("memory", problem.name, "right", place=place)
    more = f"; and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    return Finding("memory", problem.name, "wrong", "; ".join(map(str, seen[:_SHOWN])) + more, place=place)
