"""Faults of normalizations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import (
    after,
    attributes,
    bfloat16,
    float16,
    gelu_tanh,
    on_input,
    rounded_inputs,
    scaled,
    swapped,
    times,
    without,
)
from ..subjects import Patch


def _biased_variance(f: Any, x: Any, a: Any) -> Any:
    """The variance divided by n - 1."""
    n = x[0].shape[-1]
    centred = x[0] - x[0].mean(-1, keepdims=True)
    variance = (centred**2).sum(-1, keepdims=True) / x[0].dtype.type(n - 1)
    return centred / np.sqrt(variance + x[0].dtype.type(a["epsilon"])) * x[1] + x[2]


def _epsilon_outside(f: Any, x: Any, a: Any) -> Any:
    """The epsilon left out where it is needed and added to the root instead."""
    centred = x[0] - x[0].mean(-1, keepdims=True)
    return centred / (np.sqrt((centred**2).mean(-1, keepdims=True)) + x[0].dtype.type(a["epsilon"])) * x[1] + x[2]


def _not_centred(f: Any, x: Any, a: Any) -> Any:
    """The mean is taken off for the variance only."""
    mean = x[0].mean(-1, keepdims=True)
    variance = ((x[0] - mean) ** 2).mean(-1, keepdims=True)
    return x[0] / np.sqrt(variance + x[0].dtype.type(a["epsilon"])) * x[1] + x[2]


def _statistics_in(to: Any) -> Patch:
    """Mean and variance in a narrower format."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        mean = to(x[0].mean(-1, keepdims=True))
        variance = to(((x[0] - mean) ** 2).mean(-1, keepdims=True))
        return (x[0] - mean) / np.sqrt(variance + x[0].dtype.type(a["epsilon"])) * x[1] + x[2]

    return patch


def _first_row_for_all(f: Any, x: Any, a: Any) -> Any:
    """Mean and variance of a block's first row are used for its second: a stale register."""
    y = np.array(f(*x, **a))
    mean, root = x[0].mean(-1, keepdims=True), np.sqrt(x[0].var(-1, keepdims=True) + x[0].dtype.type(a["epsilon"]))
    y[:, 1] = (x[0][:, 1] - mean[:, 0]) / root[:, 0] * x[1] + x[2]
    return y


def _without_last(f: Any, x: Any, a: Any) -> Any:
    """The mean leaves out the last element but divides by all."""
    n = x[0].dtype.type(x[0].shape[-1])
    mean = x[0][..., :-1].sum(-1, keepdims=True) / n
    variance = ((x[0] - mean) ** 2).mean(-1, keepdims=True)
    return (x[0] - mean) / np.sqrt(variance + x[0].dtype.type(a["epsilon"])) * x[1] + x[2]


def _scale_after_bias(f: Any, x: Any, a: Any) -> Any:
    """``(x' + b) scale`` in place of ``x' scale + b``."""
    return f(x[0], np.ones_like(x[1]), x[2], **a) * x[1]


def _centred_root_mean_square(f: Any, x: Any, a: Any) -> Any:
    centred = x[0] - x[0].mean(-1, keepdims=True)
    return f(centred, *x[1:], **a)


def _sum_for_mean(f: Any, x: Any, a: Any) -> Any:
    n = x[0].shape[-1]
    total = (x[0] ** 2).sum(-1, keepdims=True) / x[0].dtype.type(n - 1)
    return x[0] / np.sqrt(total + x[0].dtype.type(a["epsilon"])) * x[1]


FAULTS: Mapping[tuple[str, str], Patch] = {
    ("BatchNormalization", "BatchNormalization with another epsilon"): attributes(epsilon=1e-5),
    ("BatchNormalization", "BatchNormalization without epsilon"): attributes(epsilon=0.0),
    ("BatchNormalization", "BatchNormalization with mean and bias swapped"): lambda f, x, a: f(
        x[0], x[1], x[3], x[2], x[4], **a
    ),
    ("BatchNormalization", "BatchNormalization by the standard deviation"): on_input(4, np.square),
    ("BatchNormalization", "BatchNormalization with swapped channels"): after(swapped(1)),
    ("LayerNormalization", "LayerNormalization with another epsilon"): attributes(epsilon=1e-5),
    ("LayerNormalization", "LayerNormalization with the variance over n - 1"): _biased_variance,
    ("LayerNormalization", "LayerNormalization with epsilon outside the root"): _epsilon_outside,
    ("LayerNormalization", "LayerNormalization without bias"): without(2),
    ("LayerNormalization", "LayerNormalization with statistics in bfloat16"): _statistics_in(bfloat16),
    ("LayerNormalization", "LayerNormalization with statistics in float16"): _statistics_in(float16),
    ("LayerNormalization", "LayerNormalization of bfloat16"): rounded_inputs(bfloat16),
    ("LayerNormalization", "LayerNormalization with statistics of the row before"): _first_row_for_all,
    ("LayerNormalization", "LayerNormalization without its last element"): _without_last,
    ("LayerNormalization", "LayerNormalization scaled after the bias"): _scale_after_bias,
    ("LayerNormalization", "LayerNormalization with a result in bfloat16"): after(bfloat16),
    ("LayerNormalization over two axes", "LayerNormalization over one axis"): lambda f, x, a: (
        f(x[0], np.ones(10, np.float32), np.zeros(10, np.float32), **{**a, "axis": -1}) * x[1] + x[2]
    ),
    ("LayerNormalization over two axes", "LayerNormalization with a transposed scale"): on_input(
        1, lambda s: s.reshape(10, 9).T
    ),
    ("LayerNormalization shifted", "LayerNormalization that is not centred"): _not_centred,
    ("LayerNormalization shifted", "LayerNormalization with statistics in float16"): _statistics_in(float16),
    ("LayerNormalization shifted", "LayerNormalization with the variance over n - 1"): _biased_variance,
    ("LayerNormalization shifted", "LayerNormalization without its last element"): _without_last,
    ("RMSNormalization", "RMSNormalization with another epsilon"): attributes(epsilon=1e-5),
    ("RMSNormalization", "RMSNormalization that is centred"): _centred_root_mean_square,
    ("RMSNormalization", "RMSNormalization over n - 1"): _sum_for_mean,
    ("RMSNormalization", "RMSNormalization with one more than its scale"): on_input(1, lambda s: s + s.dtype.type(1)),
    ("RMSNormalization", "RMSNormalization of float16"): rounded_inputs(float16),
    ("InstanceNormalization", "InstanceNormalization with another epsilon"): attributes(epsilon=1e-4),
    ("InstanceNormalization", "InstanceNormalization with swapped channels"): after(swapped(1)),
    ("InstanceNormalization", "InstanceNormalization over the batch"): lambda f, x, a: (
        (x[0] - x[0].mean((0, 2, 3), keepdims=True))
        / np.sqrt(x[0].var((0, 2, 3), keepdims=True) + x[0].dtype.type(a["epsilon"]))
        * x[1][:, None, None]
        + x[2][:, None, None]
    ),
    ("GroupNormalization", "GroupNormalization of twice as many groups"): attributes(num_groups=8),
    ("GroupNormalization", "GroupNormalization with another epsilon"): attributes(epsilon=1e-5),
    ("GroupNormalization", "GroupNormalization scaled by 1.001"): after(times(1.001)),
    ("block", "LayerNormalization with another epsilon"): attributes(epsilon=1e-5),
    ("block", "Gelu by tanh"): gelu_tanh,
    ("block", "LayerNormalization with the variance over n - 1"): _biased_variance,
    ("LRN", "LRN with alpha not divided"): attributes(alpha=0.5),
    ("LRN", "LRN over fewer channels"): attributes(size=3, alpha=0.06),
    ("LRN", "LRN with another exponent"): attributes(beta=0.7499),
    ("LRN", "LRN of larger numbers"): scaled(0, 1.001),
}
