"""The loss of each single sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidInput
from deep_bench.training.scores.labels import Labels, nats
from deep_bench.training.scores.mean import Mean
from deep_bench.training.scores.regression import difference, squares
from deep_bench.training.scores.score import Direction, Reads, Score

Losses = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], np.ndarray]
"""From outputs and samples to the loss of each sample, [n]."""


class SampleLosses(Score):
    """The loss of each sample, which shows those that are learned worst; its value is their mean.

    Args:
        of: Computes the losses of a batch: `cross_entropies`, `squared_errors`, or your own function of the outputs and the
            samples.
        name: What to call it.
        unit: Of the losses.

    Example:
        >>> score = SampleLosses(squared_errors("y", "t"))
        >>> score.add({"y": np.array([1.0, 2.0])}, {"t": np.array([1.0, 5.0])})
        >>> score.losses.tolist(), score.value()
        ([0.0, 9.0], 4.5)
    """

    direction: Direction = "lower"

    def __init__(self, of: Losses, name: str = "loss of a sample", unit: str = "") -> None:
        self.name, self.unit = name, unit
        self.reads = getattr(of, "reads", None)
        self._of = of
        self._parts: list[NDArray[np.float64]] = []
        self._mean = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        losses = np.asarray(self._of(outputs, batch), np.float64)
        count = len(next(iter(batch.values())))
        if losses.shape != (count,):
            raise InvalidInput(f"losses of shape {list(losses.shape)} for {count} samples", f"[{count}]")
        self._parts.append(losses)
        self._mean.add(losses)

    @property
    def losses(self) -> NDArray[np.float64]:
        """That of each sample so far, in their order, [n]."""
        return np.concatenate([np.zeros(0), *self._parts])

    def value(self) -> float:
        """Their mean."""
        return self._mean.value()


@dataclass(frozen=True)
class _Losses:
    """Losses that tell what they read."""

    reads: Reads
    of: Losses

    def __call__(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.of(outputs, batch)


def cross_entropies(output: str, target: str, *, axis: int = 1, ignore: int | None = None) -> Losses:
    """The cross-entropy of each sample in nats, summed over its labels; those to be ignored add nothing.

    Args:
        output: Name of the scores before the softmax, [n, C, …].
        target: Name of the labels, [n, …].
        axis: The axis of classes.
        ignore: The label of positions that do not count.

    Example:
        >>> losses = cross_entropies("logits", "label")
        >>> losses({"logits": np.zeros((2, 4))}, {"label": np.array([0, 3])}).round(4)
        array([1.3863, 1.3863])
    """

    def losses(outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        classified = Labels(output, target, axis, ignore, seen=None).read(outputs, batch)
        return np.bincount(classified.samples, weights=nats(classified), minlength=len(batch[target]))

    return _Losses(Reads(output, target), losses)


def squared_errors(output: str, target: str) -> Losses:
    """The squared error of each sample, summed over its elements.

    Args:
        output: Name of the predictions, [n, …].
        target: Name of what they should be, [n, …].
    """

    def losses(outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        off = squares(difference(outputs, batch, output, target))
        return off.reshape(len(off), -1).sum(axis=1)

    return _Losses(Reads(output, target), losses)
