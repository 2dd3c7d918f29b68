"""Interpolation along one axis: which elements each position reads, and with which weights."""

from __future__ import annotations

import numpy as np


def triangle(t):
    """The kernel of linear interpolation, ``max(1 - |t|, 0)``; its support is ``|t| < 1``."""
    return np.maximum(1 - np.absolute(t), 0)


def cubic(t, a):
    """The kernel of cubic convolution with coefficient ``a``; its support is ``|t| < 2``.

    Source:
        Keys, *Cubic convolution interpolation for digital image processing*, 1981, equation 4.
    """
    t = np.absolute(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, np.zeros_like(t)))


def neighbours(position, radius):
    """The ``2 * radius`` integers around each position, along a new last axis."""
    return np.floor(position).astype(np.int64)[..., np.newaxis] + np.arange(1 - radius, radius + 1)


def like(x, values, dtype=None):
    """Plain numbers as an array of ``x``'s class, so that rounding errors in what follows from them are estimated too.

    The element type is ``dtype``, by default ``x``'s.
    """
    return np.zeros_like(x, dtype=dtype, shape=np.shape(values)) + np.asarray(values, dtype=dtype or x.dtype)
