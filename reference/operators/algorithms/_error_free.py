"""Sums and products with their rounding errors, which floating-point numbers hold exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.tensor import is_float


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """``s`` and ``e`` with ``s`` the rounded sum and ``s + e`` the exact one.

    Source:
        Knuth, The Art of Computer Programming, volume 2, section 4.2.2, theorem B.
    """
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """``p`` and ``e`` with ``p`` the rounded product and ``p + e`` the exact one, but for over- and underflow.

    Source:
        Dekker, A floating-point technique for extending the available precision, 1971.
    """
    p = a * b
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def _halves(a: Any) -> tuple[Any, Any]:
    """``a`` as the sum of two numbers of half its digits (Veltkamp)."""
    digits = np.finfo(a.dtype).nmant + 1
    scaled = a * a.dtype.type(2 ** ((digits + 1) // 2) + 1)
    high = scaled - (scaled - a)
    return high, a - high


def corrected(total: Any, errors: Any) -> Any:
    """``total + errors``; where the errors overflowed on the way, ``total`` itself."""
    return np.where(np.isfinite(errors), total + errors, total)


def check_rounds(operator: str, *arrays: Any) -> None:
    """Refuse element types that are added without rounding: there is nothing to compensate.

    Raises:
        Unsupported: Integers.
    """
    for array in arrays:
        if not is_float(array.dtype):
            raise Unsupported(f"{operator} of {array.dtype}, compensated", "a floating-point type: integers do not round")
