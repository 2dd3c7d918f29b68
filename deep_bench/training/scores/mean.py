"""A mean that does not depend on how its values were split into batches, but for one rounding each."""

from __future__ import annotations

from math import fsum, isfinite

import numpy as np


class Mean:
    """The mean of values that come batch by batch.

    Each batch is summed in float64 by pairs, and the batches' sums exactly (Shewchuk); so the error does not grow with
    their number.

    Attributes:
        count: How many values there were.

    Example:
        >>> mean = Mean()
        >>> mean.add(np.array([1.0, 1e100])); mean.add(np.array([-1e100]))
        >>> mean.value(), Mean().value()
        (0.0, nan)

    Source:
        Shewchuk, Adaptive precision floating-point arithmetic, 1997, as in Python's ``math.fsum``; Higham, The accuracy of
        floating point summation, 1993, on summing by pairs.
    """

    def __init__(self) -> None:
        self._sums: list[float] = []
        self.count = 0

    def add(self, values: np.ndarray, weight: int = 1) -> None:
        """Take in values, each as so many."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._sums.append(float(np.sum(values, dtype=np.float64) * weight))
        self.count += values.size * weight

    def total(self) -> float:
        """The sum of all values."""
        with np.errstate(over="ignore", invalid="ignore"):
            rough = float(np.sum(self._sums))
        return fsum(self._sums) if isfinite(rough) else rough

    def value(self) -> float:
        """The mean; NaN of no values."""
        return self.total() / self.count if self.count else float("nan")
