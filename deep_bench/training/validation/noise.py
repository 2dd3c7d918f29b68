"""The oracle's training run, and runs that differ from it by rounding alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.check.oracle import WideArithmetic
from deep_bench.check.settings import settings_of
from deep_bench.check.truth import formats_of
from deep_bench.network.training_step import TrainingStep

Values = Mapping[str, np.ndarray]


class Oracle:
    """Takes training steps in float64, once plainly and several times with the rounding errors of the working formats.

    Each run starts from the same parameters and gets the same batches; from then on it goes its own way, so that the
    distance of the runs from the plain one is what rounding makes of a correct training.

    Args:
        step: The whole step as a network.
        following: Input to the output that is its next value, for all that steps change.
        initial: The first value of each.
        samples: How many runs have rounding errors.
        seed: Of these.
    """

    def __init__(
        self, step: TrainingStep, following: Mapping[str, str], initial: Values, *, samples: int, seed: int
    ) -> None:
        self._network, self._following = step.network, following
        self._reference: Any = frameworks["reference"]().prepare(step.network)
        self._settings = settings_of(step.network.upgraded().graph)
        self._formats: Mapping[str, np.dtype] | None = None
        self._narrow = initial
        self._generators = [None, *(np.random.default_rng([seed, k]) for k in range(samples))]
        self._states: list[dict[str, Any]] = [dict(initial) for _ in self._generators]

    def step(self, batch: Values) -> list[dict[str, np.ndarray]]:
        """Take a step in all runs.

        Returns:
            The outputs of the plain run, then those of the others.
        """
        if self._formats is None:
            self._formats = formats_of(self._reference, {**batch, **self._narrow})
        all_outputs = []
        for number, generator in enumerate(self._generators):
            arithmetic = WideArithmetic(self._formats, self._settings, rng=generator)
            outputs = self._reference.evaluate({**batch, **self._states[number]}, arithmetic=arithmetic)
            self._states[number] = {name: outputs[output] for name, output in self._following.items()}
            all_outputs.append(outputs)
        return all_outputs

    def states(self, names: Sequence[str]) -> list[dict[str, np.ndarray]]:
        """Some of what the steps change, as each run has it now."""
        return [{name: np.asarray(state[name], np.float64) for name in names} for state in self._states]
