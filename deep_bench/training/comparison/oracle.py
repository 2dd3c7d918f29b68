"""``Oracle``: a rule's update as a network, in float64, and with the rounding errors of its working format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.arrays import grown
from deep_bench.check.oracle import WideArithmetic
from deep_bench.check.settings import settings_of
from deep_bench.check.truth import formats_of
from deep_bench.network.training_step import update_draft
from deep_bench.tensor import unit_roundoff
from deep_bench.training.optimizer import Optimizer

Arrays = Mapping[str, np.ndarray]
Gradients = Callable[[int, dict[str, np.ndarray]], Arrays]
"""From the number of a step and the point where they are asked for to the gradients."""


class Oracle:
    """The trajectory of a rule, and what rounding makes of it.

    Args:
        rule: The optimizer; it must be one that can be traced.
        parameters: Where it starts, in the working format.
    """

    def __init__(self, rule: Optimizer[Any, Any], parameters: Arrays) -> None:
        self.rule, self.parameters = rule, parameters
        draft = update_draft(rule, parameters)
        self._following, self._initial, self._state = draft.following, draft.initial, draft.state
        self._run: Any = frameworks["reference"]().prepare(draft.network)
        zeros = {f"gradient of {name}": np.zeros_like(x) for name, x in parameters.items()}
        self._formats = formats_of(self._run, {**self._initial, **zeros})
        self._settings = settings_of(draft.network.upgraded().graph)

    def trajectory(
        self, gradients: Gradients, steps: int, rng: np.random.Generator | None = None, *, alike: bool = False
    ) -> list[dict[str, np.ndarray]]:
        """The parameters after each step, in float64.

        Args:
            gradients: Where gradients come from.
            steps: How many.
            rng: Where rounding errors are drawn from; none without it.
            alike: Draw the same errors in every step. Where each step adds the same to a parameter it rounds alike, and the
                errors add up in proportion to the steps and not to their root.
        """
        seed = None if rng is None else int(rng.integers(2**32))
        held: dict[str, Any] = {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in self._initial.items()}
        trajectory = []
        for step in range(steps):
            current = {name: held[name] for name in self.parameters}
            state = grown({path: held[name] for path, name in self._state.items()})
            point = self.rule.prepare(current, state)
            slopes = gradients(step, {name: np.asarray(x) for name, x in point.items()})
            fed = {f"gradient of {name}": np.asarray(g, np.float64) for name, g in slopes.items()}
            drawn = np.random.default_rng(seed) if alike else rng
            arithmetic = WideArithmetic(self._formats, self._settings, rng=drawn)
            outputs = self._run.evaluate({**held, **fed}, arithmetic=arithmetic)
            held = {name: np.asarray(outputs[output]) for name, output in self._following.items()}
            trajectory.append({name: held[name] for name in self.parameters})
        return trajectory


def noisy(gradients: Gradients, dtype: np.dtype, rng: np.random.Generator) -> Gradients:
    """Gradients that are rounded once more, as those of another evaluation are."""
    u = unit_roundoff(dtype)

    def noisy_gradients(step: int, point: dict[str, np.ndarray]) -> Arrays:
        return {n: g * (1 + u * rng.uniform(-1, 1, np.shape(g))) for n, g in gradients(step, point).items()}

    return noisy_gradients
