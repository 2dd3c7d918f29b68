"""Whether a kernel's gradients are the slopes of the NumPy function that it claims to compute."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from deep_bench.check.truth import Truth
from deep_bench.operators.checks.finding import Finding
from deep_bench.operators.checks.line import Mover
from deep_bench.operators.checks.native import equal
from deep_bench.operators.checks.prepared import Prepared, found, told
from deep_bench.operators.checks.problem import Problem
from deep_bench.operators.checks.slopes import compared, moved_in_float64, narrowest, ties_of
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float


def by_differences(operator: Operator[Any], problem: Problem) -> Iterator[Finding]:
    """Compare ``backward`` with differences of the function, for which there is no derived gradient.

    The function is evaluated in float64, whatever the case's element types, and differentiated by central differences with
    Richardson extrapolation (`deep_bench.operators.checks.differences.slopes_of`): along random directions of each input,
    and the whole Jacobian where it is small. Outputs with a kink on the way get no gradient. The kernel's gradients are
    those in the case's own element types, and in float64 where it takes that. Of several outputs each is also taken alone.

    Args:
        operator: The kernel.
        problem: The case, whose operator is a NumPy function.
    """
    truth = problem.truth()
    form = narrowest(truth)
    if form is None:
        return
    yield found("backward", problem, lambda: _returned(operator, problem, truth), "normal inputs")
    yield from _on(operator, problem, truth, form)
    tied = ties_of(problem)
    if tied is not None:
        yield from _on(operator, problem, tied, form, ", ties", ties=True)
    wide = None if form == np.float64 else moved_in_float64(operator, problem, truth, oracle=True)
    if wide is not None:
        yield from compared("backward", problem, "float64", np.dtype(np.float64), lambda: wide)
    outputs = [name for name, y in truth.outputs.items() if is_float(np.asarray(y).dtype)]
    for only in outputs if len(outputs) > 1 else ():
        yield from _on(operator, problem, truth, form, f", a loss of {only} alone", only=only)


def _on(
    operator: Operator[Any],
    problem: Problem,
    truth: Truth,
    form: np.dtype,
    place: str = "",
    *,
    ties: bool = False,
    only: str | None = None,
) -> Iterator[Finding]:
    make = partial(Mover, operator, problem.network, truth, truth.inputs, oracle=True, only=only)
    return compared("backward", problem, f"{form}{place}", form, make, ties=ties)


def _returned(operator: Operator[Any], problem: Problem, truth: Truth) -> Finding:
    """Whether ``backward`` leaves its arguments as they are, and gives gradients of the inputs' element types."""
    grads, inputs = problem.output_gradients(truth), truth.inputs
    prepared = Prepared(operator, problem.network)
    native_inputs, native = prepared.native(inputs), prepared.native(grads)
    got = prepared.pull_back(native_inputs, [native.get(name) for name in prepared.executor.results])
    faults = [f"changes {argument}" for argument in changed(prepared, native_inputs, inputs, native, grads)]
    order = [None if a is None else a.spec.name for a in prepared.executor.case.arguments]
    for name, gradient in zip(order, got, strict=True):
        if gradient is None or name is None or name not in inputs or not is_float(inputs[name].dtype):
            continue
        doing = f"reading what {operator.name}.backward returned"
        dtype = told(doing, lambda g=gradient: np.asarray(prepared.device.to_numpy(g)).dtype)  # type: ignore[misc]
        if dtype != inputs[name].dtype:
            faults.append(f"gives the gradient of {name} as {dtype} instead of {inputs[name].dtype}")
    if not faults:
        return Finding("backward", problem.name, "right", place="normal inputs")
    return Finding("backward", problem.name, "wrong", f"backward {', '.join(faults)}", place="normal inputs")


def changed(prepared: Prepared, given: Any, inputs: Any, native: Any, grads: Any) -> list[str]:
    """What of its arguments ``backward`` changed.

    Args:
        prepared: The kernel.
        given: Name of an input to the array that it got.
        inputs: What these were, in NumPy.
        native: Name of an output to the array that it got as its gradient.
        grads: What these were, in NumPy.
    """
    device = prepared.device
    changes = [f"its input {n}" for n, a in inputs.items() if not equal(np.asarray(device.to_numpy(given[n])), a)]
    return changes + [
        f"the gradient of {n}" for n, a in grads.items() if not equal(np.asarray(device.to_numpy(native[n])), a)
    ]
