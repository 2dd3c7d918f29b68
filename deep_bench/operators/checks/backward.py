"""Whether a kernel's gradients are those of its reference, and where they and its results differ from what they should be.

The reference of a kernel that claims to compute a NumPy function is that function's slopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from deep_bench.arrays import equal_arrays
from deep_bench.check.estimate import pooled, same_kind
from deep_bench.check.judge import assess_whole
from deep_bench.check.oracle import Effort, Truth
from deep_bench.check.subject import in_float64
from deep_bench.errors import DeepBenchError, Unsupported, UnsupportedOperator
from deep_bench.graph import Network, operator_name
from deep_bench.operators.case import Case
from deep_bench.operators.checks.finding import Finding, KernelFailure, combined
from deep_bench.operators.checks.problem import BackwardProblem, Prepared, Problem, finding_of, posed
from deep_bench.operators.checks.slopes import Mover, moved_in_float64, narrowest, slopes_finding, ties_of
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float, is_inexact


def by_differences(operator: Operator[Any], problem: Problem) -> Iterator[Finding]:
    """Compare ``backward`` with differences of the function, for which there is no derived gradient.

    The function is evaluated in float64, whatever the case's element types, and differentiated by central differences with
    Richardson extrapolation (`deep_bench.operators.checks.slopes.slopes_of`): along random directions of each input,
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
    yield finding_of("backward", problem, lambda: _returned_gradient(operator, problem, truth), "normal inputs")
    yield from _slope_findings(operator, problem, truth, form)
    tied = ties_of(problem)
    if tied is not None:
        yield from _slope_findings(operator, problem, tied, form, ", ties", ties=True)
    wide = None if form == np.float64 else moved_in_float64(operator, problem, truth, oracle=True)
    if wide is not None:
        yield from slopes_finding("backward", problem, "float64", np.dtype(np.float64), lambda: wide)
    outputs = [name for name, y in truth.outputs.items() if is_float(np.asarray(y).dtype)]
    for only in outputs if len(outputs) > 1 else ():
        yield from _slope_findings(operator, problem, truth, form, f", a loss of {only} alone", only=only)


def _slope_findings(
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
    return slopes_finding("backward", problem, f"{form}{place}", form, make, ties=ties)


def _returned_gradient(operator: Operator[Any], problem: Problem, truth: Truth) -> Finding:
    """Whether ``backward`` leaves its arguments as they are, and gives gradients of the inputs' element types."""
    grads, inputs = problem.output_gradients(truth), truth.inputs
    prepared = Prepared(operator, problem.network)
    native_inputs, native = prepared.native(inputs), prepared.native(grads)
    gradients = prepared.pull_back(native_inputs, native)
    faults = [f"changes {argument}" for argument in changed(prepared, native_inputs, inputs, native, grads)]
    for name, gradient in gradients.items():
        if gradient is None or name not in inputs or not is_float(inputs[name].dtype):
            continue
        dtype = prepared.read_gradient(gradient).dtype
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
    changes = [f"its input {n}" for n, a in inputs.items() if not equal_arrays(np.asarray(device.to_numpy(given[n])), a)]
    return changes + [
        f"the gradient of {n}" for n, a in grads.items() if not equal_arrays(np.asarray(device.to_numpy(native[n])), a)
    ]


DISTRIBUTIONS = ("normal", "wide")
_NO_FLOATS = "it has no floating-point inputs and outputs"


def backward_check(
    operator: Operator[Any],
    case: Case | Problem,
    *,
    seed: int = 0,
    effort: Effort = "quick",
    distributions: Sequence[str] = DISTRIBUTIONS,
) -> Finding:
    """Whether a kernel's gradients are those that `deep_bench.network.differentiate` derives from its reference.

    The gradients of the outputs are drawn; those of the inputs are judged by the estimate of rounding errors, in shape and
    element type as the inputs. ``None`` counts as 0. Neither inputs nor gradients may be changed. Of several outputs each is
    also taken alone, the gradients of the others being ``None``.

    Where the operator is a NumPy function, which has no derived gradient, this is differentiated numerically in float64:
    along random directions, and the whole Jacobian where it is small (`deep_bench.operators.checks.backward`).

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.
        distributions: Some of `deep_bench.operators.draws.DISTRIBUTIONS`, for operators with a derived gradient.

    Example:
        >>> class Squared(Operator):
        ...     computes = "Mul"
        ...     def forward(self, a, b):
        ...         return a * b
        ...     def backward(self, grads, inputs, outputs):
        ...         return grads[0] * inputs[1], grads[0] * inputs[1]
        >>> backward_check(Squared(), Case.of("Mul", (20,), (20,))).place
        'wide inputs, gradient of B[4] at 2.5183e+17'
    """
    problem = posed(case, seed, effort)
    if not operator.differentiates:
        return Finding("backward", problem.name, "not applicable", f"{operator.name} has no backward")
    if not isinstance(problem.case.operator, str):
        return combined("backward", problem.name, list(by_differences(operator, problem)), _NO_FLOATS)
    parts = [_on_distribution(operator, problem, distribution) for distribution in distributions]
    outputs = [spec.name for spec in problem.network.outputs if is_float(spec.dtype)]
    if len(outputs) > 1 and distributions:
        parts += [_on_distribution(operator, problem, distributions[0], only) for only in outputs]
    return combined("backward", problem.name, parts, "no distribution was asked for")


def _on_distribution(operator: Operator[Any], problem: Problem, distribution: str, only: str | None = None) -> Finding:
    place = f"{distribution} inputs" if only is None else f"{distribution} inputs, a loss of {only} alone"
    try:
        backward = problem.backward(distribution, only=only)
    except (DeepBenchError, IndexError) as error:  # a network without floating-point outputs has no loss
        reason = error.reason if isinstance(error, UnsupportedOperator) else "it has no floating-point outputs"
        return Finding("backward", problem.name, "not applicable", f"no gradient to compare with: {reason}", place=place)
    return finding_of("backward", problem, lambda: _judged(operator, problem, backward, place), place)


def _judged(operator: Operator[Any], problem: Problem, backward: BackwardProblem, place: str) -> Finding:
    actual, spoiled = kernel_gradients(operator, problem.network, backward)
    if spoiled:
        return Finding("backward", problem.name, "wrong", f"backward changes {', '.join(spoiled)}", place=place)
    whole = assess_whole(backward.truth, actual, backward.truth.outputs, backward.truth.samples)
    if not whole.clear and operator.norm_wise:
        names = frozenset(operator_name(node) for node in backward.truth.network.all_nodes())
        samples = backward.truth.sampled(len(backward.truth.samples), 5, norm_wise=names)
        whole = assess_whole(backward.truth, actual, backward.truth.outputs, samples)

    def precisely() -> dict[str, np.ndarray]:
        network, wide = in_float64(problem.network, backward.inputs)
        grads = {name: array.astype(np.float64) for name, array in backward.grads.items()}
        return kernel_gradients(operator, network, replace(backward, inputs=wide, grads=grads))[0]

    if not whole.clear:
        whole = backward.pullback.settled(
            backward.truth,
            whole,
            lambda: kernel_gradients(operator, problem.network, backward)[0],
            precisely,
        )
    source = {gradient: name for name, gradient in backward.names.items()}
    word = "no information" if whole.clear and whole.information else whole.word
    reason = whole.reason
    for gradient, name in source.items():
        reason = reason.replace(f"output {gradient!r}", f"the gradient of {name}")
    blamed = next((o for o in whole.outputs if o.reason), None)
    if blamed is not None and not whole.clear:
        place = f"{place}, gradient of {source[blamed.name]}{_at(backward.inputs.get(source[blamed.name]), blamed.where)}"
    figures = {
        "max_abs_error": max((o.max_abs_error for o in whole.outputs), default=0.0),
        "max_rel_error": max((o.max_rel_error for o in whole.outputs), default=0.0),
    }
    return Finding("backward", problem.name, word, reason, whole.bits, place, figures)


def _at(array: np.ndarray | None, where: tuple[int, ...]) -> str:
    """An element of an input, and its value."""
    if not where:
        return ""
    value = "" if array is None or len(where) != array.ndim else f" at {float(array[where]):.6g}"
    return f"{list(where)}{value}"


def kernel_gradients(
    operator: Operator[Any], network: Network, backward: BackwardProblem
) -> tuple[dict[str, np.ndarray], list[str]]:
    """What a kernel's ``backward`` gives under the gradients' names, and what of its arguments it changed.

    Args:
        operator: The kernel.
        network: The case's, in its own element types or in float64.
        backward: What is known of the gradients.

    Raises:
        KernelFailure: A gradient that is no array.
    """
    prepared = Prepared(operator, network)
    native_inputs, native = prepared.native(backward.inputs), prepared.native(backward.grads)
    values = {**network.initializers, **backward.inputs}
    gradients: dict[str, np.ndarray] = {}
    for name, gradient in prepared.pull_back(native_inputs, native).items():
        if name in backward.names:
            array = np.zeros_like(np.asarray(values[name])) if gradient is None else prepared.read_gradient(gradient)
            if gradient is not None and array.dtype == object:
                came = f"{operator.name}.backward returned a {type(gradient).__name__} for input {name}"
                raise KernelFailure(came)
            gradients[backward.names[name]] = array
    return gradients, changed(prepared, native_inputs, backward.inputs, native, backward.grads)


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """The error of every element of one output or gradient.

    Args:
        title: What it is of: kernel, case, output, inputs.
        ratio: The error of each element in units of what rounding explains there; infinite where it is infinite, NaN or
            finite and the oracle is not.
    """

    title: str
    ratio: np.ndarray

    @property
    def worst(self) -> tuple[int, ...]:
        """The index of the largest error; ``()`` for an empty or scalar result."""
        if not self.ratio.size:
            return ()
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(self.ratio)), self.ratio.shape))


def error_maps(
    operator: Operator[Any],
    case: Case | Problem,
    *,
    direction: Literal["forward", "backward"] = "forward",
    distribution: str = "normal",
    seed: int = 0,
    effort: Effort = "quick",
) -> list[ErrorMap]:
    """The errors of all floating-point outputs of a kernel, or of all its gradients.

    Args:
        operator: The kernel.
        case: The case, or what is known of it already.
        direction: ``"backward"`` for the gradients.
        distribution: One of `deep_bench.operators.draws.DISTRIBUTIONS`.
        seed: Names the inputs.
        effort: As for `deep_bench.check.establish`.

    Raises:
        KernelFailure: The kernel raised.
        Unsupported: ``"backward"`` of a kernel that has none, or an output of another shape.

    Example:
        >>> class Late(Operator):
        ...     computes = "Exp"
        ...     def forward(self, x):
        ...         y = np.exp(x)
        ...         y[-1] *= 1.01
        ...         return y
        >>> error_maps(Late(), Case.of("Exp", (4, 5)))[0].worst[0]
        3
    """
    problem = posed(case, seed, effort)
    if direction == "backward":
        if not operator.differentiates:
            raise Unsupported(f"{operator.name} has no gradient", advice=f"override {operator.name}.backward")
        backward = problem.backward(distribution)
        truth, actual = backward.truth, kernel_gradients(operator, problem.network, backward)[0]
        shown = {gradient: f"gradient of {name}" for name, gradient in backward.names.items()}
    else:
        truth = problem.truth(distribution)
        actual = Prepared(operator, problem.network).answer(truth.inputs)
        shown = {name: f"output {name}" for name in truth.outputs}
    return [
        ErrorMap(
            f"{operator.name}, {problem.name}, {label}, {distribution} inputs",
            _error_ratio(truth, name, actual[name], label),
        )
        for name, label in shown.items()
        if is_inexact(np.asarray(truth.outputs[name]).dtype)
    ]


def _error_ratio(truth: Truth, name: str, actual: np.ndarray, label: str) -> np.ndarray:
    value = np.asarray(truth.outputs[name])
    if actual.shape != value.shape:
        came = f"{label} has shape {list(actual.shape)}"
        raise Unsupported(came, f"shape {list(value.shape)}: errors are told element by element")
    expected = pooled(value, [np.asarray(s[name]) for s in truth.samples], truth.formats[name])
    with np.errstate(all="ignore"):
        wide = actual.astype(value.dtype)
        ratio = np.abs(wide - value) / expected.spread
    alike = same_kind(wide, value) | ~expected.settled
    return np.where(np.isfinite(ratio), ratio, np.where(alike, 0.0, np.inf))
