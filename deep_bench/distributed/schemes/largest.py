"""Which elements of an array are largest in magnitude."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def largest(x: np.ndarray, count: int) -> NDArray[np.intp]:
    """The indices, ascending, of the ``count`` elements of the largest magnitude; among equal ones the first.

    Args:
        x: Flat, with at least ``count`` elements.
        count: How many, at least 1.

    Example:
        >>> largest(np.array([1.0, -3.0, 2.0, 3.0, -2.0]), 3).tolist()
        [1, 2, 3]
    """
    if count >= x.size:
        return np.arange(x.size)
    magnitude = np.abs(x)
    magnitude[np.isnan(magnitude)] = np.inf  # a number that is none is told to all, not kept back
    least = np.partition(magnitude, x.size - count)[x.size - count]
    above = np.flatnonzero(magnitude > least)
    equal = np.flatnonzero(magnitude == least)[: count - len(above)]
    return np.sort(np.concatenate([above, equal]))
