"""Whether a kernel's gradients are those of its reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.check.endtoend import Whole, assess_whole, settle_whole
from deep_bench.check.ladder import in_float64
from deep_bench.check.truth import Effort
from deep_bench.errors import DeepBenchError, UnsupportedOperator
from deep_bench.graph import Network, operator_name
from deep_bench.operators.case import Case
from deep_bench.operators.checks.failure import KernelFailure
from deep_bench.operators.checks.finding import Finding, combined
from deep_bench.operators.checks.numerical import by_differences, changed
from deep_bench.operators.checks.prepared import Prepared, found, told
from deep_bench.operators.checks.problem import Backward, Problem, posed
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_float

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
    along random directions, and the whole Jacobian where it is small (`deep_bench.operators.checks.numerical`).

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
    parts = [_on(operator, problem, distribution) for distribution in distributions]
    outputs = [spec.name for spec in problem.network.outputs if is_float(spec.dtype)]
    if len(outputs) > 1 and distributions:
        parts += [_on(operator, problem, distributions[0], only) for only in outputs]
    return combined("backward", problem.name, parts, "no distribution was asked for")


def _on(operator: Operator[Any], problem: Problem, distribution: str, only: str | None = None) -> Finding:
    place = f"{distribution} inputs" if only is None else f"{distribution} inputs, a loss of {only} alone"
    try:
        backward = problem.backward(distribution, only=only)
    except (DeepBenchError, IndexError) as error:  # a network without floating-point outputs has no loss
        reason = error.reason if isinstance(error, UnsupportedOperator) else "it has no floating-point outputs"
        return Finding("backward", problem.name, "not applicable", f"no gradient to compare with: {reason}", place=place)
    return found("backward", problem, lambda: _judged(operator, problem, backward, place), place)


def _judged(operator: Operator[Any], problem: Problem, backward: Backward, place: str) -> Finding:
    subject = KernelGradients(operator, problem.network, backward)
    actual, spoiled = subject.observed(problem.network, backward.inputs, backward.grads)
    if spoiled:
        return Finding("backward", problem.name, "wrong", f"backward changes {', '.join(spoiled)}", place=place)
    whole = assess_whole(backward.truth, actual, backward.truth.outputs, backward.truth.samples)
    if not whole.clear and operator.norm_wise:
        names = frozenset(operator_name(node) for node in backward.truth.network.all_nodes())
        samples = backward.truth.sampled(len(backward.truth.samples), 5, norm_wise=names)
        whole = assess_whole(backward.truth, actual, backward.truth.outputs, samples)
    if not whole.clear:
        oracle = backward.pullback.subject(None).oracle_in_float64
        whole = settle_whole(backward.truth, subject, whole, besides="", precise_oracle=oracle)
    return _finding(problem, backward, whole, place)


def _finding(problem: Problem, backward: Backward, whole: Whole, place: str) -> Finding:
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


@dataclass(frozen=True, eq=False)
class KernelGradients:
    """A kernel's ``backward`` as a `deep_bench.check.Subject`, whose outputs are the gradients of the inputs.

    Args:
        operator: The kernel.
        network: The case's.
        known: What the gradients are to be.
    """

    operator: Operator[Any]
    network: Network
    known: Backward
    upgrades: bool = True

    def outputs(self) -> dict[str, np.ndarray]:
        """The gradients, computed anew."""
        return self.observed(self.network, self.known.inputs, self.known.grads)[0]

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:  # noqa: ARG002 (a Subject)
        """The gradients of the case itself: what is asked for is the network that was derived from it."""
        return self.outputs()

    def run_precisely(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],  # noqa: ARG002 (a Subject)
    ) -> dict[str, np.ndarray]:
        """The gradients in float64."""
        network, wide = in_float64(self.network, self.known.inputs)
        grads = {name: array.astype(np.float64) for name, array in self.known.grads.items()}
        return self.observed(network, wide, grads)[0]

    def observed(
        self, network: Network, inputs: Mapping[str, np.ndarray], grads: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], list[str]]:
        """The gradients, and what of its arguments ``backward`` changed."""
        prepared = Prepared(self.operator, network)
        native_inputs, native = prepared.native(inputs), prepared.native(grads)
        got = prepared.pull_back(native_inputs, [native.get(name) for name in prepared.executor.results])
        named = gradients_by_name(prepared, network, inputs, got, self.known.names)
        return named, changed(prepared, native_inputs, inputs, native, grads)


def gradients_by_name(
    prepared: Prepared, network: Network, inputs: Mapping[str, np.ndarray], got: Sequence[Any], names: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """What ``backward`` returned, in NumPy; zeros for ``None``.

    Args:
        prepared: The kernel.
        network: The case's.
        inputs: What the gradients are of.
        got: One gradient for each input of the operator.
        names: Input to the name of its gradient.

    Raises:
        KernelFailure: A gradient that is no array.
    """
    values = {**network.initializers, **inputs}
    order = [None if v is None else str(v.name) for v in network.nodes[0].inputs]
    doing = f"reading what {prepared.operator.name}.backward returned"
    gradients: dict[str, np.ndarray] = {}
    for name, gradient in zip(order, got, strict=True):
        if name is None or name not in names:
            continue
        if gradient is None:
            gradients[names[name]] = np.zeros_like(np.asarray(values[name]))
            continue
        array = told(doing, lambda g=gradient: np.array(prepared.device.to_numpy(g)))  # type: ignore[misc]
        if array.dtype == object:
            raise KernelFailure(f"{prepared.operator.name}.backward returned a {type(gradient).__name__} for input {name}")
        gradients[names[name]] = array
    return gradients
