r"""``Scheme``: what references of distributed optimizers have in common, and the conventions that fast ones share with them.

Ranks are the places of a list; a message is an assignment. ``samples[i]`` is the number of samples that rank :math:`i` had
in a step, ``gradients[i]`` the gradient of its mean loss over them.

- **Weights.** A scheme that adds gradients lets rank :math:`i` give its *contribution* :math:`c_i = (n_i / \sum_j n_j) g_i`,
  and the sum of all is the gradient over the whole batch. Compressed schemes compress contributions, and remember errors in
  their unit. Averages of parameters over several local steps weight a rank by its samples since the last average.
  Decentralised ones and asynchronous ones weight nothing: each rank has a loss of its own.
- **The vector.** What is cut into groups, sorted by size or sharded is one vector: the parameters in backward order, the
  last one first, each row by row (`flat`).
- **Draws.** One number from 0 to below 1 for each element of the vector: those of the generator Philox, whose key is seed
  and rank and whose counter's highest word is the step, counted from 0 (`draws`).
- **The inner rule.** Every rank runs its own, with its own state, on what the scheme gives it, unless the scheme says
  otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from deep_bench.arrays import NUMPY
from deep_bench.distributed.optimizer import Promise
from deep_bench.training.optimizer import Optimizer

Arrays: TypeAlias = "dict[str, np.ndarray]"
State: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True)
class Scheme(ABC):
    """A distributed optimizer whose ranks take their steps together, spelled out rank by rank.

    Args:
        inner: What turns gradients into parameters.
    """

    inner: Optimizer

    promise: ClassVar[Promise] = "equal"
    decides: ClassVar[bool] = False
    """Whether the smallest difference may decide what is sent, so that rounding may change a result by much."""

    def agreed(self, steps: int) -> bool:
        """Whether all ranks hold the same parameters after so many steps, bit for bit."""
        del steps
        return self.promise == "equal"

    def init(self, parameters: list[Arrays]) -> State:
        """The state of all ranks before the first step.

        Args:
            parameters: Those of each rank.
        """
        return {"inner": [self.inner.init(x, NUMPY) for x in parameters], "steps": 0}

    @abstractmethod
    def step(
        self, gradients: list[Arrays], samples: list[int], state: State, parameters: list[Arrays]
    ) -> tuple[list[Arrays], State]:
        """One step of all ranks.

        Args:
            gradients: Of each rank's mean loss over its own samples.
            samples: How many samples each rank had.
            state: What the step before returned, or ``init``.
            parameters: Those of each rank.

        Returns:
            The new parameters of each rank, and the new state.
        """

    def updated(
        self, gradients: Sequence[Arrays], state: State, parameters: Sequence[Arrays], **others: Any
    ) -> tuple[list[Arrays], State]:
        """Every rank's inner rule on what it was given; ``others`` replaces further parts of the state."""
        pairs = [self.inner.update(g, s, x, NUMPY) for g, s, x in zip(gradients, state["inner"], parameters, strict=True)]
        new = {**state, "inner": [s for _, s in pairs], "steps": state["steps"] + 1, **others}
        return [x for x, _ in pairs], new


def contributions(gradients: Sequence[Arrays], samples: Sequence[int]) -> list[Arrays]:
    r"""What each rank adds to the gradient of the whole batch: :math:`c_i = (n_i / \sum_j n_j) g_i`."""
    return [scaled(n / sum(samples), g) for g, n in zip(gradients, samples, strict=True)]


def scaled(factor: float, x: Arrays) -> Arrays:
    """Every array times a number."""
    return {name: float(factor) * array for name, array in x.items()}


def total(terms: Sequence[Arrays]) -> Arrays:
    """The sum of several ranks' arrays, in the order of the ranks."""
    sums = terms[0]
    for term in terms[1:]:
        sums = {name: sums[name] + term[name] for name in sums}
    return sums


def combined(weights: Sequence[float], x: Sequence[Arrays]) -> Arrays:
    r"""The weighted sum :math:`\sum_i w_i x_i`."""
    return total([scaled(w, arrays) for w, arrays in zip(weights, x, strict=True)])


def flat(x: Arrays) -> np.ndarray:
    """All arrays as one vector, in backward order: the last one first, each row by row.

    Example:
        >>> flat({"w": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": np.array([5.0])})
        array([5., 1., 2., 3., 4.])
    """
    return np.concatenate([array.reshape(-1) for array in reversed(list(x.values()))])


def unflat(vector: np.ndarray, like: Mapping[str, np.ndarray]) -> Arrays:
    """A vector as arrays of the names and shapes of ``like``; the inverse of `flat`."""
    arrays, begin = {}, 0
    for name, array in reversed(list(like.items())):
        arrays[name] = vector[begin : begin + array.size].reshape(array.shape)
        begin += array.size
    return {name: arrays[name] for name in like}


def draws(seed: int, step: int, rank: int, length: int) -> np.ndarray:
    """Numbers from 0 to below 1: those of one rank in one step."""
    philox = np.random.Philox(key=np.array([seed, rank], np.uint64), counter=np.array([0, 0, 0, step], np.uint64))
    return np.random.Generator(philox).random(length)


GradientsOf: TypeAlias = Callable[[int, Arrays, int], Arrays]
"""From a worker, the parameters it has and the number of gradients it computed before to a gradient."""
