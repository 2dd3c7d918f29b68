"""``LayerNormalization`` around any algorithm that finds mean and variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.reference.operators._dtypes import dtype_of, widened
from deep_bench.reference.operators.normalization import EPSILON


def layer_normalization_by(moments: Callable[[Any], tuple[Any, Any]]) -> Callable[..., Any]:
    """ONNX's ``LayerNormalization`` with the mean and the variance of the last axis found by ``moments``."""

    def LayerNormalization(x, scale, b=None, *, axis=-1, epsilon=EPSILON, stash_type=1, n_outputs=1):
        wide, first = widened(x), axis % x.ndim
        lead = x.shape[:first]
        rows = wide.reshape(*lead, int(np.prod(x.shape[first:])))
        stat_shape = (*lead, *(1,) * (x.ndim - first))
        mean, variance = (v.reshape(stat_shape) for v in moments(rows))
        inverse = 1 / np.sqrt(variance + epsilon)
        y = (wide - mean) * inverse * widened(scale)
        y = (y if b is None else y + widened(b)).astype(x.dtype, copy=False)
        return y if n_outputs == 1 else (y, *(v.astype(dtype_of(stash_type), copy=False) for v in (mean, inverse)))

    LayerNormalization.__doc__ = moments.__doc__
    return LayerNormalization
