"""The mean of a scalar output, such as the loss."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.training.scores.mean import Mean
from deep_bench.training.scores.score import Direction, Reads, Score, taken


class MeanOutput(Score):
    """The mean of a scalar output over all samples, each batch by its size.

    That is the mean over samples where the output is one over the batch. Where a loss leaves labels out
    (``ignore_index``), batches differ in how many they count: take `NatsPerToken` there.

    Args:
        output: Its name.

    Example:
        >>> score = MeanOutput()
        >>> score.add({"loss": np.float32(1)}, {"x": np.zeros(3)})
        >>> score.add({"loss": np.float32(5)}, {"x": np.zeros(1)})
        >>> score.value()
        2.0
    """

    direction: Direction = "lower"

    def __init__(self, output: str = "loss") -> None:
        self.name = self.output = output
        self.reads = Reads(output)
        self._mean = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        value = taken(outputs, self.output, "outputs")
        if value.size != 1:
            raise InvalidInput(f"{self.output!r} of shape {list(value.shape)}", "a single number, such as a mean loss")
        self._mean.add(value.astype(np.float64).reshape(1), weight=len(next(iter(batch.values()))))

    def value(self) -> float:
        """The mean."""
        return self._mean.value()
