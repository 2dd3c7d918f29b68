"""A case with all that is known of it, whatever kernel is to solve it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from deep_bench.check.truth import Effort, Truth, establish
from deep_bench.graph import Network
from deep_bench.operators.case import Case
from deep_bench.tensor import is_float

_APART = 1_000_003


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

    @property
    def name(self) -> str:
        """How tables call the case."""
        return self.case.name

    @cached_property
    def network(self) -> Network:
        """The case as a network of one node."""
        return self.case.network()

    def inputs(self, distribution: str = "normal", number: int = 0) -> dict[str, np.ndarray]:
        """Inputs of their own for each distribution and number."""
        return self.case.arrays(self.seed + _APART * number, distribution)

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

        return frameworks["reference"]().pull_back(self.network, inputs, gradients)  # type: ignore[attr-defined]

    def output_gradients(self, truth: Truth, number: int = 0) -> dict[str, np.ndarray]:
        """Random gradients of the floating-point outputs, standard normal."""
        rng = np.random.default_rng([self.seed, number, 1])
        forms = {spec.name: spec.dtype for spec in self.network.outputs}
        shapes = {name: np.shape(truth.outputs[name]) for name, dtype in forms.items() if is_float(dtype)}
        return {name: rng.standard_normal(shape).astype(forms[name]) for name, shape in shapes.items()}


def posed(case: Case | Problem, seed: int = 0, effort: Effort = "quick") -> Problem:
    """The problem that a case poses; a problem itself as it is."""
    return case if isinstance(case, Problem) else Problem(case, seed=seed, effort=effort)
