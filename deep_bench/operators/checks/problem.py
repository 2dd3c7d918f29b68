"""A case with all that is known of it, whatever kernel is to solve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deep_bench.check.truth import Effort, Truth, establish
from deep_bench.graph import Network
from deep_bench.operators.case import Case
from deep_bench.tensor import is_float, is_inexact

_APART = 1_000_003
_SPRINKLED = 3
"""The most elements of an input that are NaN or infinite."""

NAN = "nan"
"""The distribution of ``special`` inputs without infinities."""


@dataclass(frozen=True, eq=False)
class Backward:
    """What is known of a case's gradients.

    Args:
        inputs: Name to array.
        grads: Name of a floating-point output to the gradient of a loss with respect to it.
        pullback: The network with that loss: a `deep_bench.network.pullback.Pullback`.
        truth: Of the gradients.
    """

    inputs: Mapping[str, np.ndarray]
    grads: Mapping[str, np.ndarray]
    pullback: Any
    truth: Truth

    @property
    def names(self) -> dict[str, str]:
        """Input to what its gradient is called among the outputs of `truth`."""
        return dict(zip(self.pullback.wrt, self.truth.outputs, strict=True))


class Problem:
    """A case with its inputs and what a right answer to each is. Made once, it serves any number of kernels and checks.

    Args:
        case: The case.
        seed: Names the inputs.
        effort: ``"quick"`` or ``"full"``, as for `deep_bench.check.establish`.

    Example:
        >>> problem = Problem(Case.of("Gelu", (2, 3)), seed=7)
        >>> problem.truth("huge").outputs["Y"].shape
        (2, 3)
    """

    def __init__(self, case: Case, *, seed: int = 0, effort: Effort = "quick") -> None:
        self.case, self.seed, self.effort = case, seed, effort
        self._truths: dict[tuple[str, int], Truth] = {}
        self._backward: dict[tuple[str, int, str | None], Backward] = {}

    @property
    def name(self) -> str:
        """How tables call the case."""
        return self.case.name

    @cached_property
    def network(self) -> Network:
        """The case as a network of one node."""
        return self.case.network()

    def seed_of(self, number: int) -> int:
        """What the inputs of a number are drawn by."""
        return self.seed + _APART * number

    def inputs(self, distribution: str = "normal", number: int = 0) -> dict[str, np.ndarray]:
        """Inputs of their own for each distribution and number.

        Of the ``special`` ones only a few elements of each input are NaN or infinite, so that most results stay finite; of
        those of `NAN` a few are NaN, where an input may be any number.
        """
        seed = self.seed_of(number)
        if distribution not in ("special", NAN):
            return self.case.arrays(seed, distribution)
        plain, special = self.case.arrays(seed, "normal"), self.case.arrays(seed, "special")
        if distribution == NAN:
            any_number = {a.spec.name for a in self.case.arguments if a is not None and a.draw == "normal"}
            special = {n: np.full_like(a, np.nan) if n in any_number and is_float(a.dtype) else a for n, a in plain.items()}
        return {name: _sprinkled(plain[name], array, np.random.default_rng([seed, 2])) for name, array in special.items()}

    def truth(self, distribution: str = "normal", number: int = 0) -> Truth:
        """What is known of the answer to `inputs`; established once."""
        key = (distribution, number)
        if key not in self._truths:
            self._truths[key] = self.truth_of(self.inputs(distribution, number))
        return self._truths[key]

    def truth_of(self, inputs: Mapping[str, np.ndarray]) -> Truth:
        """What is known of the answer to other inputs."""
        return establish(self.network, inputs, self.effort, seed=self.seed)

    def pulled_back(self, inputs: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray]) -> Any:
        """The gradients of the inputs for given gradients of the outputs, as the reference derives them.

        Returns:
            A `deep_bench.network.pullback.Pullback`.
        """
        from deep_bench import frameworks

        return frameworks["reference"]().pull_back(self.network, inputs, gradients)

    def backward(self, distribution: str = "normal", number: int = 0, only: str | None = None) -> Backward:
        """What is known of the gradients at `inputs`, for gradients of the outputs that are standard normal.

        Args:
            distribution, number: As for `inputs`.
            only: The output that the loss depends on, if not on all.

        Raises:
            UnsupportedOperator: The reference knows no gradient of the operator.
        """
        key = (distribution, number, only)
        if key not in self._backward:
            truth = self.truth(distribution, number)
            drawn = self.output_gradients(truth, number)
            grads = drawn if only is None else {only: drawn[only]}
            pullback = self.pulled_back(truth.inputs, grads)
            self._backward[key] = Backward(truth.inputs, grads, pullback, pullback.truth(self.effort))
        return self._backward[key]

    def output_gradients(self, truth: Truth, number: int = 0) -> dict[str, np.ndarray]:
        """Random gradients of the floating-point outputs, standard normal."""
        rng = np.random.default_rng([self.seed, number, 1])
        forms = {name: truth.formats.get(name, np.asarray(y).dtype) for name, y in truth.outputs.items()}
        shapes = {name: np.shape(truth.outputs[name]) for name, dtype in forms.items() if is_float(dtype)}
        return {name: rng.standard_normal(shape).astype(forms[name]) for name, shape in shapes.items()}


def _sprinkled(plain: np.ndarray, special: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers with a few elements that are NaN or infinite; whole numbers with the ends of their type as they are."""
    if not is_inexact(special.dtype):
        return special
    with np.errstate(all="ignore"):
        wide = special.astype(np.complex128).reshape(-1)
    order = rng.permutation(np.flatnonzero(~np.isfinite(wide)))
    kinds = np.where(np.isnan(wide[order]), 0.0, np.sign(wide[order].real))
    firsts = [order[kinds == kind][:1] for kind in (1.0, -1.0, 0.0)]  # NaN last, since it is asked apart as well
    chosen = np.concatenate([*firsts, order])[: max(1, min(_SPRINKLED, special.size // 8))]
    result = plain.copy()
    result.reshape(-1)[chosen] = special.reshape(-1)[chosen]
    return result


def posed(case: Case | Problem, seed: int = 0, effort: Effort = "quick") -> Problem:
    """The problem that a case poses; a problem itself as it is."""
    return case if isinstance(case, Problem) else Problem(case, seed=seed, effort=effort)
