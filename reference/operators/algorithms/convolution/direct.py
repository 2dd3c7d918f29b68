"""Convolution by its definition."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators.algorithms.convolution._conv import by_group, conv_by


def correlate(x, w, at, group):
    """A convolution by its definition: for each output, channel by channel and tap by tap.

    ``y[n, m, o] = sum over c, then over k, of w[m, c, k] * x[n, c, o * stride + k * dilation]``. All outputs take the same
    step at once; each is a sum in this order, with one rounding for each product and one for each addition.

    Source:
        ONNX Conv, opset 22.
    """
    x, w = by_group(x, w, group)
    n, _, channels = x.shape[:3]
    y = np.zeros_like(x, shape=(n, group, w.shape[1], *at.outputs))
    weights = w.reshape(*w.shape[:3], -1, *(1,) * len(at.outputs))
    for c in range(channels):
        for k, tap in enumerate(at.taps(x)):
            y = y + weights[:, :, c, k] * tap[:, :, c, np.newaxis]
    return y.reshape(n, group * w.shape[1], *at.outputs)


Conv = conv_by(correlate)
