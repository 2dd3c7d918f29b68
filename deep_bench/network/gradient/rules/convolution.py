"""Convolutions: the gradient of the data is the transposed convolution, that of the weights a product with columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from deep_bench.graph.shapes import span
from deep_bench.network.gradient.rules._windows import (
    Sampling,
    WindowPlacement,
    columns,
    correlate,
    dim,
    layout,
    overlap,
    product,
    shaped,
    size,
    spatial,
    split,
    taps,
    taps_around,
)
from deep_bench.network.gradient.tape import Symbol

__all__ = ["Col2Im", "Conv", "ConvTranspose", "DeformConv"]


def Conv(at, x, w, b=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    """``dx = w^T * dy``, a transposed convolution; ``dw = Σ_windows dy ⊗ window``, one matrix product; ``db = Σ dy``.

    Source:
        Goodfellow, Bengio and Courville, *Deep Learning*, section 9.5.
    """
    windows = layout(at, x, _kernel(at, w), auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    dx = overlap(at, at.dy, w, windows, group) if at.wants(0) else None
    dw = _weights(at, x, at.dy, w, windows, group) if at.wants(1) else None
    return dx, dw, _bias(at, windows) if at.wants(2) else None


def ConvTranspose(
    at,
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
    """``dx = w * dy``, a convolution, and ``dw`` as that of this convolution with ``x`` and ``dy`` in each other's place."""
    windows = _transposed(at, x, _kernel(at, w), auto_pad, dilations, output_padding, output_shape, pads, strides)
    dx = correlate(at, at.dy, w, windows, group) if at.wants(0) else None
    dw = _weights(at, at.dy, x, w, windows, group) if at.wants(1) else None
    return dx, dw, _bias(at, windows) if at.wants(2) else None


def _transposed(at, x, kernel, auto_pad, dilations, output_padding, output_shape, pads, strides):
    """The windows that a transposed convolution puts the elements of ``x`` into. Source: ONNX ConvTranspose, opset 22."""
    rank, counts = len(kernel), spatial(x)
    strides, dilations = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    extra = tuple(output_padding or (0,) * rank)
    pads = tuple(pads) if pads and auto_pad == "NOTSET" else (0,) * (2 * rank)
    reach = [span(k, d) + e for k, d, e in zip(kernel, dilations, extra, strict=True)]
    full: Any
    if isinstance(counts, Symbol):
        full = (counts - 1) * np.array(strides) + np.array(reach)
    else:
        full = np.array([(c - 1) * s + r for c, s, r in zip(counts, strides, reach, strict=True)])
    if output_shape is not None:
        sizes = np.array(output_shape[-rank:])
    elif auto_pad.startswith("SAME"):
        sizes = counts * np.array(strides)
    else:
        sizes = full - np.add(pads[:rank], pads[rank:])
        return WindowPlacement(kernel, strides, dilations, _static_sizes(sizes), pads[:rank], counts)
    total = at.op.Max(full - sizes, 0) if isinstance(full, Symbol) else np.maximum(full - sizes, 0)
    begins = split(at.op, total, upper=auto_pad == "SAME_UPPER")
    return WindowPlacement(kernel, strides, dilations, _static_sizes(sizes), begins, counts)


def _static_sizes(sizes):
    return sizes if isinstance(sizes, Symbol) else tuple(sizes.tolist())


def _kernel(at, w):
    if w.static_shape is None:
        raise at.refusal("the shape of its weights is known only in a run")
    return w.static_shape[2:]


def _bias(at, windows):
    return at.dy.sum([0, *range(2, 2 + len(windows.kernel))])


def _weights(at, x, dy, w, windows, group):
    """``dw[m, c, k] = Σ_{n, o} dy[n, m, o] * x[n, c, o * stride + k * dilation - begin]``.

    With the samples beside the windows, one product of matrices sums over both.
    """
    rank = len(windows.kernel)
    swap = [1, 0, *range(2, 2 + rank)]
    m, c = w.static_shape[:2]
    if c == 1 and m == group:
        # the same where each channel has its own kernel: with nothing to multiply as matrices, sums of products
        n, m, length = dim(at.inputs[0], 0), w.static_shape[0], product(at.op, windows.counts)
        sums = [shaped(part * dy, n, m, length).sum([2], keepdims=True) for part in taps(at, x, windows)]
        return at.op.concat(sums, axis=2).sum([0]).reshape(w.static_shape)
    length = product(at.op, dim(at.inputs[0], 0), windows.counts)
    samples = dim(at.inputs[0], 0)
    patches = shaped(columns(at, x.transpose(swap), windows, c * group, samples), group, c * windows.taps, length)
    output_gradient = shaped(dy.transpose(swap), group, m // group, length)
    weight_gradient = patches @ output_gradient.transpose([0, 2, 1])
    return shaped(weight_gradient.transpose([0, 2, 1]), w.static_shape)


def Col2Im(at, x, image_shape, block_shape, *, dilations=None, pads=None, strides=None):
    """``dx`` takes the blocks out of ``dy`` again."""
    op, rank = at.op, at.y.rank - 2
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    dy = op.Pad(at.dy, [0, 0, *pads[:rank], 0, 0, *pads[rank:]]) if any(pads) else at.dy
    index: Any = None
    for axis in range(rank):
        block, length = op.Gather(block_shape, axis, axis=0), size(dy, 2 + axis)
        count = op.Div(length - (block - 1) * dilations[axis] - 1, strides[axis]) + 1
        inside = op.Range(0, block, np.int64(1)) * dilations[axis]
        starts = op.Range(0, count, np.int64(1)) * strides[axis]
        places = _along(inside, axis, 2 * rank) + _along(starts, rank + axis, 2 * rank)
        index = places if index is None else index * length + places
    image = shaped(dy, dim(dy, 0), dim(dy, 1), product(op, spatial(dy)))
    return op.Gather(image, index.reshape([-1]), axis=2).reshape(x.shape), None, None


def _along(vector, axis, rank):
    return vector.reshape([-1 if a == axis else 1 for a in range(rank)])


def DeformConv(
    at,
    x,
    w,
    offset,
    b=None,
    mask=None,
    *,
    dilations=None,
    group=1,
    kernel_shape=None,
    offset_group=1,
    pads=None,
    strides=None,
):
    """As for Conv, with sampled columns; the samples hand their gradients on to elements and, by the slopes, to offsets.

    Source:
        Dai et al., *Deformable Convolutional Networks*, 2017, appendix A.
    """
    windows = layout(at, x, _kernel(at, w), dilations=dilations, pads=pads, strides=strides)
    op, wide = at.op, np.result_type(x.dtype, np.float32)
    n, k, outputs = dim(x, 0), windows.taps, product(at.op, windows.counts)
    m, inner = w.static_shape[0], w.static_shape[1] * k
    channels = w.static_shape[1] * group // offset_group
    sampling = _bent(at, x.cast(wide), offset.cast(wide), windows, offset_group)
    patches = shaped(sampling.forward(), n, offset_group, k, outputs, channels).transpose([0, 1, 4, 2, 3])
    weight = None if mask is None else shaped(mask.cast(wide), n, offset_group, 1, k, outputs)
    columns = shaped(patches if weight is None else patches * weight, n, group, inner, outputs)
    dy = shaped(at.dy.cast(wide), n, group, m // group, outputs)
    dw = (dy @ columns.transpose([0, 1, 3, 2])).sum([0]).reshape(w.static_shape)
    kernels = w.cast(wide).reshape([group, m // group, inner]).transpose([0, 2, 1])
    dtaken = shaped(kernels @ dy, n, offset_group, channels, k, outputs)
    dmask = None if mask is None else (dtaken * patches).sum([2]).reshape(mask.shape).cast(mask)
    if weight is not None:
        dtaken = dtaken * weight
    dsamples = shaped(dtaken.transpose([0, 1, 3, 4, 2]), product(op, n, offset_group), product(op, k, outputs), channels)
    dx = sampling.to_elements(dsamples).reshape(x.shape).cast(x)
    moved = [shaped(p, product(op, n, offset_group), k, 1, outputs) for p in sampling.to_positions(dsamples)]
    doffset = op.concat(moved, axis=2).reshape(offset.shape).cast(offset)
    return dx, dw.cast(w), doffset, _bias(at, windows) if b is not None else None, dmask


def _bent(at, x, offset, windows, groups):
    """The samples that a deformed convolution multiplies with its weights."""
    op, rank = at.op, len(windows.kernel)
    n, outputs = product(op, dim(x, 0), groups), product(op, windows.counts)
    split_offset = shaped(offset, n, windows.taps, rank, outputs)
    image = shaped(x, n, product(op, dim(x, 1)) // groups if isinstance(dim(x, 1), int) else -1, spatial(x))
    around = []
    for axis in range(rank):
        grid = _coordinates(at, windows, axis).cast(x.dtype)
        position = shaped(split_offset.slice(2, axis, axis + 1), n, windows.taps, outputs) + grid
        position = shaped(position, n, product(op, windows.taps, outputs))
        around.append(taps_around(op, position, size(x, 2 + axis), "linear", "zeros", 0))
    return Sampling(op, image, around)


def _coordinates(at, windows, axis):
    """Where along ``axis`` of the unpadded tensor each element of each window lies: ``(taps, windows)``."""
    op, rank = at.op, len(windows.kernel)
    inside = np.arange(windows.kernel[axis]) * windows.dilations[axis]
    inside = np.broadcast_to(inside.reshape([-1 if a == axis else 1 for a in range(rank)]), windows.kernel).reshape(-1, 1)
    begin = windows.begins[axis]
    counts = windows.counts if isinstance(windows.counts, Symbol) else op.constant(windows.counts, np.int64)
    starts = op.Range(0, op.Gather(counts, axis, axis=0), np.int64(1)) * windows.strides[axis] - begin
    flat = _along(starts, axis, rank).expand(counts).reshape([1, -1])
    return flat + inside
