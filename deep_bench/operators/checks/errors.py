"""Where a kernel's results and gradients differ from what they should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from deep_bench.check.estimate import pooled, same_kind
from deep_bench.check.truth import Effort, Truth
from deep_bench.errors import Unsupported
from deep_bench.operators.case import Case
from deep_bench.operators.checks.backward import KernelGradients
from deep_bench.operators.checks.prepared import Prepared
from deep_bench.operators.checks.problem import Problem, posed
from deep_bench.operators.operator import Operator
from deep_bench.tensor import is_inexact


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
        truth, actual = backward.truth, KernelGradients(operator, problem.network, backward).outputs()
        shown = {gradient: f"gradient of {name}" for name, gradient in backward.names.items()}
    else:
        truth = problem.truth(distribution)
        actual = Prepared(operator, problem.network).answer(truth.inputs)
        shown = {name: f"output {name}" for name in truth.outputs}
    return [
        ErrorMap(
            f"{operator.name}, {problem.name}, {label}, {distribution} inputs", _ratio(truth, name, actual[name], label)
        )
        for name, label in shown.items()
        if is_inexact(np.asarray(truth.outputs[name]).dtype)
    ]


def _ratio(truth: Truth, name: str, actual: np.ndarray, label: str) -> np.ndarray:
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
