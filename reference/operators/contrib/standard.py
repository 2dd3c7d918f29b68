"""Operators that ONNX Runtime adds to the default domain itself."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._arguments import widened

__all__ = ["SimplifiedLayerNormalization"]


def SimplifiedLayerNormalization(x, scale, *, axis=-1, epsilon=9.999999747378752e-06, stash_type=1):
    """``x / sqrt(mean of x^2 + epsilon) * scale`` over the axes from ``axis`` on, and ``1 / sqrt(…)`` in float32 at least.

    Source:
        ONNX Runtime SimplifiedLayerNormalization; Zhang and Sennrich, 2019.
    """
    wide = widened(x)
    over = tuple(range(axis % x.ndim, x.ndim))
    inverse = 1 / np.sqrt(np.mean(np.square(wide), axis=over, keepdims=True) + epsilon)
    y = wide * inverse * widened(scale)
    return y.astype(scale.dtype, copy=False), inverse
