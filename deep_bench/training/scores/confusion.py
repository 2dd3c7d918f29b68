"""Which class is taken for which."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidInput
from deep_bench.training.scores.labels import Labels
from deep_bench.training.scores.score import Reads, Score


class ConfusionMatrix(Score):
    r"""How often each class was taken for each, with the precision and recall of every class.

    Its value is the balanced accuracy: the mean recall of the classes that occur. A class is predicted where its score is
    the highest, the lowest class of equal ones; where a score is NaN, none is.

    Args:
        output: Name of the scores, [n, C, …].
        target: Name of the labels, [n, …].
        axis: The axis of classes.
        ignore: The label of positions that do not count.

    Example:
        >>> score = ConfusionMatrix("logits", "label")
        >>> score.add({"logits": np.array([[3.0, 1], [2, 1], [0, 1], [1, 0]])}, {"label": np.array([0, 0, 1, 1])})
        >>> score.matrix.tolist(), score.precision.round(2).tolist(), score.recall.tolist(), score.value()
        ([[2, 0], [1, 1]], [0.67, 1.0], [1.0, 0.5], 0.75)

    Source:
        Brodersen et al., The balanced accuracy and its posterior distribution, ICPR 2010.
    """

    name = "balanced accuracy"

    def __init__(self, output: str, target: str, *, axis: int = 1, ignore: int | None = None) -> None:
        self.reads = Reads(output, target)
        self._labels = Labels(output, target, axis, ignore)
        self._counts: NDArray[np.int64] | None = None

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        classified = self._labels.read(outputs, batch)
        classes = classified.scores.shape[1]
        if self._counts is None:
            self._counts = np.zeros((classes, classes + 1), np.int64)
        if len(self._counts) != classes:
            raise InvalidInput(f"scores of {classes} classes", f"{len(self._counts)}, as in the batches before")
        predicted = np.where(np.isnan(classified.scores).any(axis=1), classes, classified.scores.argmax(axis=1))
        np.add.at(self._counts, (classified.labels, predicted), 1)

    @property
    def matrix(self) -> NDArray[np.int64]:
        """How often samples of the class of the row were taken for that of the column, [C, C]."""
        return self._table[:, :-1]

    @property
    def unpredicted(self) -> NDArray[np.int64]:
        """How often no class was predicted, since a score was NaN, for each right class, [C]."""
        return self._table[:, -1]

    @property
    def precision(self) -> NDArray[np.float64]:
        """The share of those taken for a class that are of it, [C]; NaN where none was."""
        return _shares(np.diag(self.matrix), self.matrix.sum(axis=0))

    @property
    def recall(self) -> NDArray[np.float64]:
        """The share of a class that was taken for it, [C]; NaN where it does not occur."""
        return _shares(np.diag(self.matrix), self._table.sum(axis=1))

    def value(self) -> float:
        """The balanced accuracy, from 0 to 1."""
        recalls = self.recall[~np.isnan(self.recall)]
        return float(recalls.mean()) if len(recalls) else float("nan")

    @property
    def _table(self) -> NDArray[np.int64]:
        return np.zeros((0, 1), np.int64) if self._counts is None else self._counts


def _shares(parts: NDArray[np.int64], wholes: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(parts, wholes, out=np.full(len(parts), np.nan), where=wholes > 0)
