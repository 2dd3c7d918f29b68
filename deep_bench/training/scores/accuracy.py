"""The share of right answers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.training.scores.labels import Labels
from deep_bench.training.scores.score import Reads, Score


class Accuracy(Score):
    r"""The share of labels that are among the :math:`k` classes with the highest scores.

    Of equal scores, those of lower classes count as higher. Where a score is NaN, the answer is wrong.

    Args:
        output: Name of the scores, [n, C, …].
        target: Name of the labels, [n, …].
        k: How many classes may hold it.
        axis: The axis of classes.
        ignore: The label of positions that do not count.

    Raises:
        InvalidArgument: ``k`` is below 1, or the axis that of the samples.

    Example:
        >>> score = Accuracy("logits", "label")
        >>> score.add({"logits": np.array([[0.1, 0.9], [0.8, 0.2]])}, {"label": np.array([1, 1])})
        >>> score.value()
        0.5
    """

    def __init__(self, output: str, target: str, k: int = 1, *, axis: int = 1, ignore: int | None = None) -> None:
        if k < 1:
            raise InvalidArgument(f"k={k}", "at least 1")
        self.name = "accuracy" if k == 1 else f"top-{k} accuracy"
        self.k = k
        self.reads = Reads(output, target)
        self._labels = Labels(output, target, axis, ignore)
        self._right = self._all = 0

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        classified = self._labels.read(outputs, batch)
        classes = classified.scores.shape[1]
        if self.k > classes:
            raise InvalidInput(f"the first {self.k} of {classes} classes", f"k of at most {classes}")
        label_scores = np.take_along_axis(classified.scores, classified.labels[:, None], axis=1)
        ties = (classified.scores == label_scores) & (np.arange(classes) < classified.labels[:, None])
        before = ((classified.scores > label_scores) | ties).sum(axis=1)
        self._right += int(((before < self.k) & ~np.isnan(classified.scores).any(axis=1)).sum())
        self._all += len(classified.labels)

    def value(self) -> float:
        """The share, from 0 to 1."""
        return self._right / self._all if self._all else float("nan")
