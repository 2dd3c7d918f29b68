"""Convolutions, as products of the weights with a matrix that holds one window in each column."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deep_bench.graph.shapes import span, split_padding
from deep_bench.reference.operators._arguments import Windows, box, check_choice, in_float32, windows
from deep_bench.reference.operators.activation import Swish

__all__ = ["CausalConvWithState", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv"]

_BYTES_OF_COLUMNS = 8 << 20  # the windows of a large image take up many times its memory, so that they are laid out in parts


@in_float32
def Conv(x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    """A convolution, in the sense of deep learning: a cross-correlation.

    ``y[n, m, o] = b[m] + sum over c, k of w[m, c, k] * x[n, c, o * stride + k * dilation - begin]``, with zeros around
    ``x``, and with ``c`` running over the channels of the group that ``m`` is in.

    Source:
        ONNX Conv, opset 22.
    """
    at = windows(x.shape[2:], w.shape[2:], auto_pad=auto_pad, pads=pads, strides=strides, dilations=dilations)
    return with_bias(_correlate(at.pad(x, 0), w, at, group), b)


def _correlate(x: Any, w: Any, at: Windows, group: int) -> Any:
    n, c, m = x.shape[0], x.shape[1], w.shape[0]
    weights = w.reshape(group, m // group, math.prod(w.shape[1:]))
    taps = list(at.taps(x))
    windows_of_a_row = n * c * math.prod(at.kernel) * math.prod(at.outputs[1:]) * x.itemsize
    rows = max(_BYTES_OF_COLUMNS // max(windows_of_a_row, 1), 1)
    parts = []
    for row in range(0, max(at.outputs[0], 1), rows):
        columns = np.stack([tap[:, :, row : row + rows] for tap in taps], axis=2)
        outputs = columns.shape[3:]
        columns = columns.reshape(n, group, c // group * math.prod(at.kernel), math.prod(outputs))
        parts.append(np.matmul(weights, columns).reshape(n, m, *outputs))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def with_bias(y, b):
    return y if b is None else y + b.reshape(-1, *(1,) * (y.ndim - 2))


@in_float32
def ConvTranspose(
    x,
    w,
    b=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    output_padding=None,
    output_shape=None,
    pads=None,
    strides=None,
):
    """The transpose of a convolution as a linear map, also called its gradient.

    ``y[n, m, i * stride + k * dilation - begin]`` gathers ``w[c, m, k] * x[n, c, i]`` over all ``c``, ``k`` and ``i``.

    Source:
        ONNX ConvTranspose, opset 22.
    """
    n, c, *spatial = x.shape
    rank = len(spatial)
    strides, dilations = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    spans = [span(k, d) for k, d in zip(w.shape[2:], dilations, strict=True)]
    full = [(i - 1) * s + reach for i, s, reach in zip(spatial, strides, spans, strict=True)]
    extra = output_padding or (0,) * rank
    if auto_pad.startswith("SAME") and output_shape is None:
        output_shape = [i * s for i, s in zip(spatial, strides, strict=True)]
    if output_shape is not None:
        totals = [max(f + e - o, 0) for f, e, o in zip(full, extra, output_shape[-rank:], strict=True)]
        begins = [split_padding(t, upper=auto_pad == "SAME_UPPER")[0] for t in totals]
        outputs = tuple(output_shape[-rank:])
    else:
        pads = pads if pads and auto_pad == "NOTSET" else (0,) * (2 * rank)
        begins = pads[:rank]
        outputs = tuple(f + e - p - q for f, e, p, q in zip(full, extra, begins, pads[rank:], strict=True))
    at = Windows(w.shape[2:], strides, dilations, tuple(begins), (0,) * rank, tuple(spatial))

    weights = w.reshape(group, c // group, math.prod(w.shape[1:])).swapaxes(1, 2)
    columns = np.matmul(weights, x.reshape(n, group, c // group, math.prod(spatial)))
    m = w.shape[1] * group
    return with_bias(_overlap(columns.reshape(n, m, math.prod(at.kernel), *spatial), at, outputs), b)


def _overlap(columns: Any, at: Windows, outputs: Sequence[int]) -> Any:
    """Add up windows ``(N, C, positions, *windows)`` where they lie in a tensor whose padding is cut off."""
    reach = [
        max((o - 1) * s + span(k, d), 0) for o, s, k, d in zip(at.outputs, at.strides, at.kernel, at.dilations, strict=True)
    ]
    sizes = [max(f, b + o) for f, b, o in zip(reach, at.begins, outputs, strict=True)]
    y = np.zeros_like(columns, shape=(*columns.shape[:2], *sizes))
    for number, position in enumerate(at.positions()):
        y[position] += columns[:, :, number]
    return y[box(at.begins, outputs)]


@in_float32
def Col2Im(x, image_shape, block_shape, *, dilations=None, pads=None, strides=None):
    """Put blocks back where they lie in an image, adding where they overlap; the transpose of taking them out.

    Source:
        ONNX Col2Im, opset 18.
    """
    block, image = tuple(block_shape.tolist()), tuple(image_shape.tolist())
    at = windows(image, block, dilations=dilations, pads=pads, strides=strides)
    n, rows, _ = x.shape
    positions = math.prod(block)
    return _overlap(x.reshape(n, rows // positions, positions, *at.outputs), at, image)


def ConvInteger(
    x,
    w,
    x_zero_point=None,
    w_zero_point=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
):
    """A convolution of ``x - x_zero_point`` with ``w - w_zero_point`` in int32. Source: ONNX ConvInteger, opset 10."""
    # float64 holds these sums exactly, and NumPy multiplies matrices of integers element by element.
    x, w = x.astype(np.float64), w.astype(np.float64)
    if x_zero_point is not None:
        x = x - x_zero_point
    if w_zero_point is not None:
        w = w - w_zero_point.reshape(-1, *(1,) * (w.ndim - 1))
    y = Conv(x, w, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    return y.astype(np.int64).astype(np.int32)


@in_float32
def CausalConvWithState(x, w, b=None, past_state=None, *, activation="none"):
    """A convolution along time, each channel by itself, that sees only the present and the past.

    ``y[n, c, t] = b[c] + sum over k of w[c, 0, k] * s[n, c, t + k]``, where ``s`` is the past (zeros if there is none)
    followed by ``x``; optionally ``swish(y)``. The second result is the end of ``s``, the past of the next call.

    Source:
        ONNX CausalConvWithState, opset 27.
    """
    check_choice("CausalConvWithState", "activation", activation, ("none", "silu", "swish"))
    n, c, length = x.shape
    past = w.shape[2] - 1
    state = np.zeros_like(x, shape=(n, c, past)) if past_state is None else past_state
    sequence = np.concatenate((state, x), axis=2)
    y = Conv(sequence, w, b, group=c)
    return (y if activation == "none" else Swish(y)), sequence[:, :, length:]


@in_float32
def DeformConv(
    x, w, offset, b=None, mask=None, *, dilations=None, group=1, kernel_shape=None, offset_group=1, pads=None, strides=None
):
    """A convolution whose windows are bent: each of their elements is moved by its own ``offset`` and weighed by ``mask``.

    Between grid points ``x`` is interpolated linearly along each axis, outside it is zero.

    Source:
        ONNX DeformConv, opset 22; Dai et al., Deformable Convolutional Networks, 2017.
    """
    n, c, *spatial = x.shape
    rank = len(spatial)
    at = windows(spatial, w.shape[2:], pads=pads, strides=strides, dilations=dilations)
    positions = math.prod(at.kernel)
    grid = np.stack([_coordinates(at, axis) for axis in range(rank)], axis=1).reshape(positions, rank, *at.outputs)
    points = offset.reshape(n, offset_group, positions, rank, *at.outputs) + grid.astype(x.dtype)
    columns = _sample(x.reshape(n, offset_group, c // offset_group, *spatial), np.moveaxis(points, 3, 0))
    if mask is not None:
        columns = columns * mask.reshape(n, offset_group, 1, positions, *at.outputs)
    columns = columns.reshape(n, group, c // group * positions, math.prod(at.outputs))
    weights = w.reshape(group, w.shape[0] // group, math.prod(w.shape[1:]))
    return with_bias(np.matmul(weights, columns).reshape(n, w.shape[0], *at.outputs), b)


def _coordinates(at: Windows, axis: int) -> Any:
    """Where along ``axis`` of the unpadded tensor each element of each window lies: ``(positions, *outputs)``."""
    rank = len(at.kernel)
    inside = np.arange(at.kernel[axis]) * at.dilations[axis]
    start = np.arange(at.outputs[axis]) * at.strides[axis] - at.begins[axis]
    inside = inside.reshape([-1 if a == axis else 1 for a in range(rank)] + [1] * rank)
    start = start.reshape([-1 if a == axis else 1 for a in range(rank)])
    return np.broadcast_to(inside + start, at.kernel + at.outputs).reshape(-1, *at.outputs)


def _sample(x, points):
    """``x[n, g, c]`` at ``points[axis, n, g, …]``, interpolated: ``(n, g, c, …)``."""
    n, g, c, *spatial = x.shape
    flat = x.reshape(n, g, c, math.prod(spatial))
    shape = points.shape[3:]
    low = np.floor(points)
    total = np.zeros_like(x, shape=(n, g, c, *shape))
    for corner in itertools.product((0, 1), repeat=len(spatial)):
        weight, index, valid = np.ones_like(x, shape=()), np.int64(0), np.True_
        for axis, step in enumerate(corner):
            at = low[axis] + step
            weight = weight * (1 - np.absolute(points[axis] - at))
            valid = valid & (at >= 0) & (at < spatial[axis])
            index = index * spatial[axis] + np.clip(at, 0, spatial[axis] - 1).astype(np.int64)
        value = np.take_along_axis(flat, index.reshape(n, g, 1, -1), axis=3).reshape(n, g, c, *shape)
        total = total + np.expand_dims(np.where(valid, weight, 0), 2) * value
    return total
