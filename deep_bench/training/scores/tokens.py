"""How well each next token is foreseen."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf

import numpy as np

from deep_bench.training.scores.labels import Labels, nats
from deep_bench.training.scores.mean import Mean
from deep_bench.training.scores.score import Direction, Reads, Score


class NatsPerToken(Score):
    r"""The mean cross-entropy of all labels, :math:`-\log p_y`, in nats; each label counts alike, whatever its batch.

    Args:
        output: Name of the scores before the softmax, [n, C, …].
        target: Name of the labels, [n, …].
        axis: The axis of classes, or words.
        ignore: The label of positions that do not count.

    Example:
        >>> score = NatsPerToken("logits", "next", axis=2, ignore=-1)
        >>> score.add({"logits": np.zeros((1, 3, 4))}, {"next": np.array([[0, 2, -1]])})
        >>> round(score.value(), 4)
        1.3863
    """

    name, unit = "cross-entropy", "nat"
    direction: Direction = "lower"

    def __init__(self, output: str, target: str, *, axis: int = 1, ignore: int | None = None) -> None:
        self.reads = Reads(output, target)
        self._labels = Labels(output, target, axis, ignore)
        self._mean = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        self._mean.add(nats(self._labels.read(outputs, batch)))

    def value(self) -> float:
        """The mean, at least 0."""
        return self._mean.value()


class Perplexity(Score):
    r"""The number of equally likely words that would be as hard to foresee, :math:`e^{\text{nats per token}}`.

    Args:
        output: Name of the scores before the softmax, [n, C, …].
        target: Name of the labels, [n, …].
        axis: The axis of classes, or words.
        ignore: The label of positions that do not count.

    Example:
        >>> score = Perplexity("logits", "next")
        >>> score.add({"logits": np.zeros((2, 4))}, {"next": np.array([0, 3])})
        >>> round(score.value(), 6)
        4.0
    """

    name = "perplexity"
    direction: Direction = "lower"

    def __init__(self, output: str, target: str, *, axis: int = 1, ignore: int | None = None) -> None:
        self.reads = Reads(output, target)
        self._nats = NatsPerToken(output, target, axis=axis, ignore=ignore)

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        self._nats.add(outputs, batch)

    def value(self) -> float:
        """The perplexity, at least 1; infinite where float64 ends."""
        value = self._nats.value()
        return exp(value) if not value > 709 else inf
