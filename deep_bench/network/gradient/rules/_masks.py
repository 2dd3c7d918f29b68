"""Choices between values written as arithmetic: ONNX Runtime's ``Where`` takes ten times as long as a product.

Where a slope is infinite, a gradient is a very large number instead, so that a later product with 0 takes it away.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np


def mask(condition, like):
    """1 where a condition holds, else 0, in the element type of another symbol."""
    return condition.cast(like)


def where(condition, gradient):
    """A gradient where a condition holds, else 0."""
    return gradient * mask(condition, gradient)


def nonzero(x):
    """``x``, and in the place of 0 a number so small that dividing by it is as good as a division by 0.

    ``0 / nonzero(0)`` is 0: what a later choice did not take has no gradient, and must not get one that is no number.
    """
    constant = x.known
    if constant is not None and np.all(constant):
        return x
    return x + mask(x.equals(0), x) / steep(x.dtype)


def positive(x):
    """`nonzero` of what is known not to be negative: one operator instead of four."""
    return x.tape.Max(x, 1 / steep(x.dtype))


def root(x):
    """The square root of `positive`."""
    return x.tape.Sqrt(positive(x))


def finite(x):
    """``x`` with the largest number in the place of positive infinity."""
    return x.tape.Min(x, _largest(x))


def bounded(x):
    """``x`` with the largest and the smallest number in the place of the infinities."""
    return x.tape.Clip(x, -_largest(x), _largest(x))


def _largest(x):
    return float(ml_dtypes.finfo(x.dtype).max)


def steep(dtype):
    """What stands for an infinite slope: as good as infinite, but a gradient times it is still a number."""
    return 2.0 ** {np.dtype(np.float64): 1000, np.dtype(np.float16): 10}.get(dtype, 100)
