"""How far numbers are from what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidInput
from deep_bench.training.scores.mean import Mean
from deep_bench.training.scores.score import Direction, Reads, Score, taken


class MeanSquaredError(Score):
    r"""The mean of :math:`(y - t)^2` over all elements.

    Args:
        output: Name of the predictions :math:`y`.
        target: Name of what they should be, :math:`t`; of the same shape.
        unit: Of the result.

    Example:
        >>> score = MeanSquaredError("y", "t")
        >>> score.add({"y": np.array([1.0, 2.0])}, {"t": np.array([1.0, 4.0])})
        >>> score.value()
        2.0
    """

    name = "mean squared error"
    direction: Direction = "lower"

    def __init__(self, output: str, target: str, unit: str = "") -> None:
        self.output, self.target, self.unit = output, target, unit
        self.reads = Reads(output, target)
        self._mean = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        self._mean.add(squares(difference(outputs, batch, self.output, self.target)))

    def value(self) -> float:
        """The mean."""
        return self._mean.value()


class RootMeanSquaredError(Score):
    r"""The root of the mean of :math:`(y - t)^2` over all elements, in the unit of the data.

    Args:
        output: Name of the predictions :math:`y`.
        target: Name of what they should be, :math:`t`.
        unit: Of the data.
    """

    name = "root mean squared error"
    direction: Direction = "lower"

    def __init__(self, output: str, target: str, unit: str = "") -> None:
        self.unit = unit
        self.reads = Reads(output, target)
        self._squared = MeanSquaredError(output, target)

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        self._squared.add(outputs, batch)

    def value(self) -> float:
        """The root."""
        return sqrt(self._squared.value())


class MeanAbsoluteError(Score):
    r"""The mean of :math:`|y - t|` over all elements, in the unit of the data.

    Args:
        output: Name of the predictions :math:`y`.
        target: Name of what they should be, :math:`t`.
        unit: Of the data.
    """

    name = "mean absolute error"
    direction: Direction = "lower"

    def __init__(self, output: str, target: str, unit: str = "") -> None:
        self.output, self.target, self.unit = output, target, unit
        self.reads = Reads(output, target)
        self._mean = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        self._mean.add(np.abs(difference(outputs, batch, self.output, self.target)))

    def value(self) -> float:
        """The mean."""
        return self._mean.value()


class RelativeError(Score):
    r"""The error relative to the data as a whole, :math:`\sqrt{\sum (y - t)^2 / \sum t^2}`.

    Single elements that are zero do no harm; data that are all zero have no relative error, so it is NaN there.

    Args:
        output: Name of the predictions :math:`y`.
        target: Name of what they should be, :math:`t`.

    Example:
        >>> score = RelativeError("y", "t")
        >>> score.add({"y": np.array([3.0, 5.0])}, {"t": np.array([3.0, 4.0])})
        >>> score.value()
        0.2
    """

    name = "relative error"
    direction: Direction = "lower"

    def __init__(self, output: str, target: str) -> None:
        self.output, self.target = output, target
        self.reads = Reads(output, target)
        self._errors, self._data = Mean(), Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        self._errors.add(squares(difference(outputs, batch, self.output, self.target)))
        self._data.add(squares(np.asarray(batch[self.target], np.float64)))

    def value(self) -> float:
        """The relative error, at least 0."""
        data = self._data.total()
        return sqrt(self._errors.total() / data) if data else float("nan")


class R2(Score):
    r"""The share of the data's variance that is explained, :math:`1 - \sum (y - t)^2 / \sum (t - \bar t)^2`.

    Taken for each element of a sample apart, then averaged. It needs two samples, and data that vary: else it is NaN.

    Args:
        output: Name of the predictions :math:`y`, [n, …].
        target: Name of what they should be, :math:`t`, [n, …].

    Example:
        >>> score = R2("y", "t")
        >>> score.add({"y": np.array([2.5, 0.0])}, {"t": np.array([3.0, -0.5])})
        >>> score.add({"y": np.array([2.0, 8.0])}, {"t": np.array([2.0, 7.0])})
        >>> round(score.value(), 4)
        0.9486

    Source:
        Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979, (2.1).
    """

    name = "R²"

    def __init__(self, output: str, target: str) -> None:
        self.output, self.target = output, target
        self.reads = Reads(output, target)
        self._count = 0
        self._mean: NDArray[np.float64] = np.zeros(0)
        self._spread: NDArray[np.float64] = np.zeros(0)
        self._errors: NDArray[np.float64] = np.zeros(0)

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        off = difference(outputs, batch, self.output, self.target)
        count = len(off)
        if not count:
            return
        columns = np.asarray(batch[self.target], np.float64).reshape(count, -1)
        mean = columns.mean(axis=0)
        spread, errors = ((x**2).sum(axis=0) for x in (columns - mean, off.reshape(count, -1)))
        if not self._count:
            self._count, self._mean, self._spread, self._errors = count, mean, spread, errors
            return
        if len(mean) != len(self._mean):
            raise InvalidInput(f"samples of {len(mean)} elements", f"{len(self._mean)}, as in the batches before")
        apart, both = mean - self._mean, self._count + count
        self._spread = self._spread + spread + apart**2 * (self._count * count / both)
        self._mean = self._mean + apart * (count / both)
        self._errors, self._count = self._errors + errors, both

    def value(self) -> float:
        """The share, at most 1; below 0 for predictions that are worse than the data's mean."""
        if self._count < 2 or not np.all(self._spread > 0):
            return float("nan")
        return float(np.mean(1 - self._errors / self._spread))


def difference(
    outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray], output: str, target: str
) -> NDArray[np.float64]:
    """Prediction less target, in float64.

    Raises:
        InvalidInput: One is missing, or their shapes differ.
    """
    y, t = taken(outputs, output, "outputs"), taken(batch, target, "samples' arrays")
    if y.shape != t.shape or not y.ndim:
        raise InvalidInput(
            f"{output!r} of shape {list(y.shape)} beside {target!r} of shape {list(t.shape)}",
            "two of the same shape, [n, …]",
        )
    with np.errstate(invalid="ignore", over="ignore"):
        return y.astype(np.float64) - t.astype(np.float64)


def squares(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The square of each element; infinite where it is too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.square(x)
