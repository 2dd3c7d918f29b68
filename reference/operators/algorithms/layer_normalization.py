"""Ways to find mean and variance; the reference itself passes over its input for the mean, and again for the variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.reference.operators._arguments import dtype_of, widened
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


def one_pass_moments(rows):
    """Layer normalization in one pass: ``var = mean of x^2 - (mean of x)^2``, and 0 where rounding makes that negative.

    The two terms cancel where the mean is large: the error of the variance is about ``u mean^2``, so that of its bits
    ``log2(mean^2 / var)`` are lost. It is knowingly less accurate.

    Source:
        Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983, section 1.
    """
    mean = np.mean(rows, axis=-1)
    return mean, np.maximum(np.mean(np.square(rows), axis=-1) - np.square(mean), 0)


one_pass_layer_normalization = layer_normalization_by(one_pass_moments)


def welford_moments(rows):
    """Layer normalization in one pass: mean and sum of squared deviations are updated with each element.

    ``mean_k = mean_(k-1) + (x_k - mean_(k-1)) / k``; ``S_k = S_(k-1) + (x_k - mean_(k-1)) (x_k - mean_k)``; and
    ``var = S_n / n``. Only deviations are squared, so that a large mean takes nothing from the variance.

    Source:
        Welford, Note on a Method for Calculating Corrected Sums of Squares and Products, 1962; Knuth, The Art of Computer
        Programming, volume 2, section 4.2.2.
    """
    mean = np.zeros_like(rows, shape=rows.shape[:-1])
    squares = np.zeros_like(mean)
    for k in range(rows.shape[-1]):
        deviation = rows[..., k] - mean
        mean = mean + deviation / (k + 1)
        squares = squares + deviation * (rows[..., k] - mean)
    return mean, squares / rows.shape[-1]


welford_layer_normalization = layer_normalization_by(welford_moments)
