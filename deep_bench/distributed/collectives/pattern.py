"""What ranks give to a collective operation when it is checked: small whole numbers, whose sums no rounding can change."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from deep_bench.errors import InvalidArgument

_MOST = 8


def limit(dtype: np.dtype) -> int:
    """Up to this, all whole numbers are elements of the type.

    Raises:
        InvalidArgument: The type is of no such numbers.

    Example:
        >>> limit(np.dtype("float32")), limit(np.dtype("int8"))
        (16777216, 127)
    """
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    try:
        return int(2 ** (ml_dtypes.finfo(dtype).nmant + 1))
    except ValueError as error:
        raise InvalidArgument(f"element type {dtype}", "float32, float64, float16, bfloat16, int8, int64 …") from error


def given(rank: int, ranks: int, elements: int, dtype: np.dtype, seed: int) -> np.ndarray:
    """What a rank gives: different in each place, on each rank and for each seed.

    Args:
        rank: Whose.
        ranks: How many there are. Where their sum could exceed what the type counts exactly, the last ones give zeros.
        elements: How many.
        dtype: Their type.
        seed: Of the draw.

    Example:
        >>> given(0, 2, 4, np.dtype("int32"), 0).tolist() != given(1, 2, 4, np.dtype("int32"), 0).tolist()
        True
    """
    most = min(max((limit(dtype) - 1) // ranks, 1), _MOST)
    if rank * most >= limit(dtype) - most:
        return np.zeros(elements, dtype)
    draws = np.random.default_rng([seed, rank]).integers(0, most + 1, min(elements, _PERIOD), np.int8)
    return np.resize(draws, elements).astype(dtype)


_PERIOD = 65_521
"""Elements that are drawn; longer arrays repeat them. A prime, so that no block of an array is like another."""


def poison(out: np.ndarray) -> None:
    """Fill an array with what cannot be a result."""
    out.fill(limit(out.dtype))


def total(ranks: int, elements: int, dtype: np.dtype, seed: int) -> np.ndarray:
    """The sum of what all ranks give."""
    partial_sum = given(0, ranks, elements, dtype, seed)
    for rank in range(1, ranks):
        partial_sum = (partial_sum + given(rank, ranks, elements, dtype, seed)).astype(dtype, copy=False)
    return partial_sum
