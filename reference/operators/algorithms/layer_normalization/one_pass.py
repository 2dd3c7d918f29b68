"""Layer normalization with the variance as a difference of means."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators.algorithms.layer_normalization._forms import layer_normalization_by


def moments(rows):
    """Layer normalization in one pass: ``var = mean of x^2 - (mean of x)^2``, and 0 where rounding makes that negative.

    The two terms cancel where the mean is large: the error of the variance is about ``u mean^2``, so that of its bits
    ``log2(mean^2 / var)`` are lost. It is knowingly less accurate.

    Source:
        Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983, section 1.
    """
    mean = np.mean(rows, axis=-1)
    return mean, np.maximum(np.mean(np.square(rows), axis=-1) - np.square(mean), 0)


LayerNormalization = layer_normalization_by(moments)
