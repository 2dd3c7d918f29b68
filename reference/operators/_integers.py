"""Reading small integer tensors: shapes, axes, counts."""

from __future__ import annotations

from typing import Any

import numpy as np


def integers(array: Any) -> tuple[int, ...]:
    """The elements of an integer tensor of any shape, as Python integers.

    Example:
        >>> integers(np.array([2, -1])), integers(np.array(3))
        ((2, -1), (3,))
    """
    return tuple(int(i) for i in np.ravel(array))


def integer(array: Any) -> int:
    """The only element of a tensor, as a Python integer.

    Example:
        >>> integer(np.array([3]))
        3
    """
    return int(np.asanyarray(array).item())


def ints64(values: Any) -> np.ndarray:
    """An int64 tensor, as ONNX's shapes and counts are."""
    return np.asanyarray(values, dtype=np.int64)
