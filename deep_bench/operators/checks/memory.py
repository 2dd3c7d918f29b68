"""Whether a native kernel keeps to its buffers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.check.truth import Effort
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.prepared import Prepared, found, told
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator

if TYPE_CHECKING:
    from deep_bench.operators.native_code.operator import NativeOperator

_SHOWN = 2


def memory_check(operator: Operator[Any], case: Case | Problem, *, seed: int = 0, effort: Effort = "quick") -> Finding:
    """Whether a native kernel reads and writes its buffers only, writes all of its outputs, and leaves its inputs alone.

    Every buffer is put between margins of a known pattern, see `deep_bench.operators.native_code.guard.trespasses`; the
    finding says how wide these are. What is written beyond them, and what is read there and changes no result, stays unseen.
    With ``effort="full"`` a function that is made from source is therefore compiled with AddressSanitizer as well, and
    called in a process of its own, where there is gcc: that takes seconds. A function whose gradients are native too is
    called for these as well.

    Args:
        operator: The kernel; of others than those of `deep_bench.operators.native` on the CPU nothing can be said.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Example:
        >>> from deep_bench.operators import native
        >>> source = 'extern "C" void f(const float *x, float *y, long n) { for (long i = 0; i <= n; ++i) y[i] = x[i]; }'
        >>> copy = native(source, function="f", computes="Identity", signature="const float *x, float *y, long n = x.size")
        >>> memory_check(copy, Case.of("Identity", (3,))).reason.partition("; input")[0]
        'output y (y: float32[3]): bytes behind it were overwritten: 4 bytes, the first at byte 12, element 3'
    """
    from deep_bench.operators.native_code.operator import NativeOperator

    problem = posed(case, seed, effort)
    if not isinstance(operator, NativeOperator):
        return Finding("memory", problem.name, "not applicable", "it is no native kernel, whose buffers could be watched")
    methods = ["forward", "backward"] if operator.differentiates else ["forward"]
    watched = _sanitized(operator) if problem.effort == "full" else None
    return combined("memory", problem.name, [_of(operator, watched, problem, method) for method in methods])


def _sanitized(operator: NativeOperator) -> NativeOperator | None:
    try:
        return operator.sanitized()
    except InvalidArgument:  # a library that is built already
        return None


def _of(operator: NativeOperator, watched: NativeOperator | None, problem: Problem, method: str) -> Finding:
    guarded = found("memory", problem, lambda: _guarded(operator, problem, method), method)
    if guarded.word != "right" or watched is None:
        return guarded
    finding = found("memory", problem, lambda: _under_sanitizer(watched, problem, method), f"{method}, AddressSanitizer")
    if finding.word != "not applicable":
        return finding
    return replace(guarded, reason=f"{guarded.reason}; without AddressSanitizer: {finding.reason}")


def _guarded(operator: NativeOperator, problem: Problem, method: str) -> Finding:
    from deep_bench.operators.native_code.guard import MARGIN, trespasses

    prepared = Prepared(operator, problem.network)
    inputs, attributes = prepared.executor.arguments(prepared.native(problem.inputs())), prepared.executor.attributes
    options: dict[str, Any] = {}
    if method == "backward":
        answer = prepared.answer(problem.inputs())
        options = {"grads": _grads(prepared, problem), "outputs": [answer[name] for name in prepared.executor.results]}
    violations = told(f"{operator.name}.{method}", lambda: trespasses(operator, inputs, attributes, **options))
    if violations:
        remainder = f"; and {len(violations) - _SHOWN} more" if len(violations) > _SHOWN else ""
        return Finding("memory", problem.name, "wrong", "; ".join(map(str, violations[:_SHOWN])) + remainder, place=method)
    unseen = f"accesses further than {MARGIN >> 10} KiB from a tensor, and reads that change no result"
    how = "" if problem.effort == "full" or isinstance(operator.recipe.source, Path) else ', which effort="full" looks for'
    reason = f"not seen are {unseen}{how}"
    return Finding("memory", problem.name, "right", reason, place=method)


def _under_sanitizer(watched: NativeOperator, problem: Problem, method: str) -> Finding:
    from deep_bench.operators.native_code.errors import MemoryViolation

    try:
        prepared = Prepared(watched, problem.network)
        native_inputs = prepared.native(problem.inputs())
        if method == "forward":
            prepared.call(native_inputs)
        else:
            prepared.pull_back(native_inputs, _grads(prepared, problem))
    except MemoryViolation as violation:
        return Finding("memory", problem.name, "wrong", _summary(violation.report), place=f"{method}, AddressSanitizer")
    return Finding("memory", problem.name, "right", place=f"{method}, AddressSanitizer")


def _grads(prepared: Prepared, problem: Problem) -> list[np.ndarray | None]:
    drawn = problem.output_gradients(problem.truth())
    if not drawn:
        raise Unsupported("it has no floating-point outputs")
    return [drawn.get(name) for name in prepared.executor.results]


def _summary(report: str) -> str:
    """What the sanitizer says in a line: the error, the access, and where the address lies."""
    lines = [line.strip() for line in report.splitlines()]
    error = next((line.partition("AddressSanitizer: ")[2].partition(" on ")[0] for line in lines if "ERROR:" in line), "")
    access = next((line.partition(" at ")[0] for line in lines if line.startswith(("READ of", "WRITE of"))), "")
    where = next((line.partition(" is ")[2] for line in lines if " is located " in line), "")
    return ", ".join(filter(None, ("memory outside of its tensors is touched", error, access, where)))
