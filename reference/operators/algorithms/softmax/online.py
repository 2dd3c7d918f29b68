"""The softmax in one pass for both the maximum and the sum."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._dtypes import in_float32


@in_float32
def Softmax(x, *, axis=-1):
    """``exp(x - m) / d``, with the maximum ``m`` and the sum ``d`` found in a single pass.

    ``m_j = max(m_(j-1), x_j)``; ``d_j = d_(j-1) * exp(m_(j-1) - m_j) + exp(x_j - m_j)``: whenever the maximum grows, what
    has been summed is scaled down.

    Source:
        Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 3; ONNX Softmax, opset 13.
    """
    rows = np.moveaxis(x, axis, -1)
    largest = np.full_like(rows, -np.inf, shape=rows.shape[:-1])
    total = np.zeros_like(rows, shape=rows.shape[:-1])
    for j in range(rows.shape[-1]):
        new = np.maximum(largest, rows[..., j])
        shift = finite_or_zero(new)
        total = total * np.exp(largest - shift) + np.exp(rows[..., j] - shift)
        largest = new
    shift = finite_or_zero(largest)[..., np.newaxis]
    return np.moveaxis(np.exp(rows - shift) / total[..., np.newaxis], -1, axis)


def finite_or_zero(largest):
    """What to subtract before exponentials: the maximum, or 0 while there was nothing but minus infinity."""
    return np.where(np.isneginf(largest), 0, largest).astype(largest.dtype, copy=False)
