"""Faults of convolutions, and of small networks of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import (
    after,
    attributes,
    bfloat16,
    element,
    float16,
    on_input,
    on_inputs,
    rounded_factors,
    scaled,
    swapped,
    tf32,
    times,
    without,
)
from ..subjects import Patch


def _edge_padded(f: Any, x: Any, a: Any) -> Any:
    padded = np.pad(x[0], ((0, 0), (0, 0), (1, 1), (0, 2)), "edge")
    return f(padded, *x[1:], **{**a, "pads": (0, 0, 0, 0)})


def _last_row(f: Any, x: Any, a: Any) -> Any:
    """The last row of the result was left as a buffer had it: the count of tiles rounded down."""
    y = np.array(f(*x, **a))
    y[..., -1, :] = 0
    return y


def _one_tap_less(f: Any, x: Any, a: Any) -> Any:
    """Windows that are one short: the last tap of the kernel is never read."""
    w = np.array(x[1])
    w[..., -1, -1] = 0
    return f(x[0], w, *x[2:], **a)


def _last_channel(f: Any, x: Any, a: Any) -> Any:
    """The sum over the channels stops one early."""
    w = np.array(x[1])
    w[:, -1] = 0
    return f(x[0], w, *x[2:], **a)


def _groups_mixed(f: Any, x: Any, a: Any) -> Any:
    """Every group reads the channels of the next one."""
    count = x[0].shape[1] // a["group"]
    return f(np.roll(x[0], count, axis=1), *x[1:], **a)


def _interleaved_groups(f: Any, x: Any, a: Any) -> Any:
    """Channels are dealt out to the groups one by one."""
    order = np.arange(x[0].shape[1]).reshape(-1, a["group"]).T.reshape(-1)
    return f(x[0][:, order], *x[1:], **a)


def _winograd_short(f: Any, x: Any, a: Any) -> Any:
    """Winograd's tiles whose last column of outputs is taken from the tile before."""
    y = np.array(f(*x, **a))
    y[..., 3::4] = y[..., 2::4][..., : y[..., 3::4].shape[-1]]
    return y


def _flip_axes(f: Any, x: Any, a: Any) -> Any:
    return f(x[0], np.ascontiguousarray(x[1][..., ::-1]), *x[2:], **a)


FAULTS: Mapping[tuple[str, str], Patch] = {
    ("Conv", "Conv with swapped channels"): after(swapped(1)),
    ("Conv", "Conv with shifted padding"): attributes(pads=(0, 1, 2, 1)),
    ("Conv", "Conv without bias"): without(2),
    ("Conv", "Conv with flipped kernel"): _flip_axes,
    ("Conv", "Conv with transposed kernel"): on_inputs(lambda x: [x[0], np.swapaxes(x[1], 2, 3), *x[2:]]),
    ("Conv", "Conv with TF32"): rounded_factors(tf32),
    ("Conv", "Conv with bfloat16"): rounded_factors(bfloat16),
    ("Conv", "Conv with float16"): rounded_factors(float16),
    ("Conv", "Conv with weights in bfloat16"): on_input(1, bfloat16),
    ("Conv", "Conv with its result in bfloat16"): after(bfloat16),
    ("Conv", "Conv with edge padding"): _edge_padded,
    ("Conv", "Conv with a kernel one tap short"): _one_tap_less,
    ("Conv", "Conv without its last channel"): _last_channel,
    ("Conv", "Conv with the bias twice"): scaled(2, 2.0),
    ("Conv", "Conv with the next channel's bias"): on_input(2, lambda b: np.roll(b, 1)),
    ("Conv", "Conv with images swapped"): after(lambda y: y[::-1]),
    ("Conv large", "Conv with one zeroed element"): after(element(0.0)),
    ("Conv large", "Conv with one NaN"): after(element(np.nan)),
    ("Conv large", "Conv with one infinity"): after(element(np.inf)),
    ("Conv large", "Conv with its last row not written"): _last_row,
    ("Conv large", "Conv by tiles that are too short"): _winograd_short,
    ("Conv large", "Conv scaled by 0.9999"): after(times(0.9999)),
    ("Conv deep", "Conv with TF32"): rounded_factors(tf32),
    ("Conv deep", "Conv without its last channel"): _last_channel,
    ("Conv deep", "Conv by tiles that are too short"): _winograd_short,
    ("Conv 1d", "Conv with dilation ignored"): attributes(dilations=(1,), pads=(2, 2)),
    ("Conv 1d", "Conv with padding on one side"): attributes(pads=(8, 0)),
    ("Conv 1d", "Conv with flipped kernel"): _flip_axes,
    ("Conv 3d", "Conv with two axes of the kernel swapped"): on_inputs(lambda x: [x[0], np.swapaxes(x[1], 2, 4), *x[2:]]),
    ("Conv 3d", "Conv with bfloat16"): rounded_factors(bfloat16),
    ("Conv 3d", "Conv with shifted padding"): attributes(pads=(1, 1, 0, 1, 1, 2)),
    ("Conv depthwise", "Conv with swapped channels"): after(swapped(1)),
    ("Conv depthwise", "Conv with the channels of its neighbours"): _groups_mixed,
    ("Conv grouped", "Conv with the channels of the other group"): _groups_mixed,
    ("Conv grouped", "Conv with interleaved groups"): _interleaved_groups,
    ("Conv grouped", "Conv with strides along one axis"): lambda f, x, a: f(
        *x, **{**a, "strides": (2, 1), "pads": (1, 1, 1, 1)}
    )[..., :7],
    ("Conv pointwise", "Conv with TF32"): rounded_factors(tf32),
    ("Conv pointwise", "Conv without its last channel"): _last_channel,
    ("digits-cnn", "Conv with TF32"): rounded_factors(tf32),
    ("digits-cnn", "BatchNormalization with another epsilon"): attributes(epsilon=1e-4),
    ("digits-cnn", "Gemm without bias"): without(2),
    ("digits-cnn", "GlobalAveragePool off by one"): after(lambda y: y * y.dtype.type(16 / 15)),
    ("conv-bn-relu-pool", "BatchNormalization with another epsilon"): attributes(epsilon=1e-5),
    ("conv-bn-relu-pool", "Conv with its result in float16"): after(float16),
    ("conv-bn-relu-pool", "Relu that leaks"): lambda f, x, a: np.maximum(x[0], x[0] * x[0].dtype.type(0.001)),
    ("ConvTranspose", "ConvTranspose with shifted padding"): attributes(pads=(0, 2, 2, 0)),
    ("ConvTranspose", "ConvTranspose with flipped kernel"): on_inputs(lambda x: [x[0], x[1][..., ::-1, ::-1], *x[2:]]),
    ("ConvTranspose", "ConvTranspose with TF32"): rounded_factors(tf32),
    ("ConvTranspose", "ConvTranspose without bias"): without(2),
    ("ConvTranspose", "ConvTranspose with its last row not written"): _last_row,
    ("ConvTranspose", "ConvTranspose without its last tap"): _one_tap_less,
}
