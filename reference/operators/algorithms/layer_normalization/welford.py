"""Layer normalization with mean and variance updated element by element."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators.algorithms.layer_normalization._forms import layer_normalization_by


def moments(rows):
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


LayerNormalization = layer_normalization_by(moments)
