"""What the models of this domain have in common: rows of features, class labels, scores in one format."""

from __future__ import annotations

from typing import Any

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.tensor import is_float


def real(x: Any) -> Any:
    """``x`` in floating point: integers, for which the models of this domain have no arithmetic, in float64.

    Example:
        >>> real(np.array([2**40])).tolist(), real(np.ones(1, np.float32)).dtype
        ([1099511627776.0], dtype('float32'))
    """
    return x if is_float(x.dtype) else x.astype(np.float64)


def rows(x: Any) -> Any:
    """``x`` in floating point as ``[N, F]``; a vector is one row."""
    x = real(x)
    return x.reshape(1, -1) if x.ndim < 2 else x


def weights(values: Any, like: Any, shape: tuple[int, ...] = (-1,)) -> np.ndarray:
    """A list attribute as an array of the element type of ``like``, none as nothing.

    Raises:
        InvalidInput: They do not fill the shape.
    """
    array = np.asarray(() if values is None else values, dtype=like.dtype)
    try:
        return array.reshape(shape)
    except ValueError:
        raise InvalidInput(f"{array.size} weights", f"as many as fill the shape {list(shape)}") from None


def class_labels(integers: Any, strings: Any) -> np.ndarray:
    """The labels of the classes, int64 or strings: the one attribute that has any.

    Raises:
        InvalidInput: Neither or both have some.
    """
    if bool(integers) == bool(strings):
        raise InvalidInput("class labels in neither or both of the two attributes", "integers or strings")
    return np.asarray(strings, dtype=object) if strings else np.asarray(integers, dtype=np.int64)
