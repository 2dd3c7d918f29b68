"""Pools: one number out of each window."""

from __future__ import annotations

import functools
import math

import numpy as np

from deep_bench.reference.operators._arguments import in_float32, padded, windows
from deep_bench.tensor import is_float

__all__ = [
    "AveragePool",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "LpPool",
    "MaxPool",
    "MaxRoiPool",
    "MaxUnpool",
]


def MaxPool(
    x,
    *,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    dilations=None,
    pads=None,
    storage_order=0,
    strides=None,
    n_outputs=1,
):
    """The largest element of each window and, as a second output, its index in the flattened input.

    With ``storage_order`` the indices count the first spatial axis fastest.

    Source:
        ONNX MaxPool, opset 22.
    """
    spatial = x.shape[2:]
    at = windows(
        spatial, kernel_shape, auto_pad=auto_pad, pads=pads, strides=strides, dilations=dilations, ceil_mode=ceil_mode
    )
    lowest = -np.inf if is_float(x.dtype) else np.iinfo(x.dtype).min
    taps = at.taps(at.pad(x, lowest))
    if n_outputs == 1:
        return functools.reduce(np.maximum, taps)

    size = math.prod(spatial)
    inside = np.arange(size).reshape(spatial, order="F" if storage_order else "C")
    index = inside + size * np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * len(spatial))
    elements = np.stack(list(taps))
    largest = np.expand_dims(np.argmax(elements, axis=0), 0)
    sources = np.stack(list(at.taps(at.pad(index, -1))))
    return tuple(np.take_along_axis(a, largest, axis=0)[0] for a in (elements, sources))


@in_float32
def AveragePool(
    x,
    *,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    count_include_pad=0,
    dilations=None,
    pads=None,
    strides=None,
):
    """The mean of each window: of its elements in the tensor, or with ``count_include_pad`` also of those in the padding.

    What ``ceil_mode`` adds beyond the padding never counts.

    Source:
        ONNX AveragePool, opset 22.
    """
    spatial = x.shape[2:]
    at = windows(
        spatial, kernel_shape, auto_pad=auto_pad, pads=pads, strides=strides, dilations=dilations, ceil_mode=ceil_mode
    )
    counted = np.ones(spatial)
    if count_include_pad:
        rank = len(spatial)
        counted = padded(padded(counted, at.begins, at.ends, 1), (0,) * rank, at.overhang, 0)
    else:
        counted = at.pad(counted, 0)
    total = functools.reduce(np.add, at.taps(at.pad(x, 0)))
    count = functools.reduce(np.add, at.taps(counted))
    return total / count.astype(x.dtype)


@in_float32
def LpPool(x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, p=2, pads=None, strides=None):
    """``(sum of |x|^p)^(1/p)`` over each window. Source: ONNX LpPool, opset 22."""
    at = windows(
        x.shape[2:], kernel_shape, auto_pad=auto_pad, pads=pads, strides=strides, dilations=dilations, ceil_mode=ceil_mode
    )
    powers = at.pad(_absolute_power(x, p), 0)
    return _root(functools.reduce(np.add, at.taps(powers)), p)


def GlobalMaxPool(x):
    """The largest element of each channel. Source: ONNX GlobalMaxPool, opset 22."""
    return np.max(x, axis=_spatial(x), keepdims=True)


@in_float32
def GlobalAveragePool(x):
    """The mean of each channel. Source: ONNX GlobalAveragePool, opset 22."""
    return np.mean(x, axis=_spatial(x), keepdims=True)


@in_float32
def GlobalLpPool(x, *, p=2):
    """``(sum of |x|^p)^(1/p)`` over each channel. Source: ONNX GlobalLpPool, opset 22."""
    return _root(np.sum(_absolute_power(x, p), axis=_spatial(x), keepdims=True), p)


def _spatial(x):
    return tuple(range(2, x.ndim))


def _absolute_power(x, p):
    return np.absolute(x) if p == 1 else np.square(x) if p == 2 else np.power(np.absolute(x), p)


def _root(x, p):
    return x if p == 1 else np.sqrt(x) if p == 2 else np.power(x, 1 / p)


def MaxUnpool(x, indices, output_shape=None, *, kernel_shape, pads=None, strides=None):
    """Put each element where ``indices`` says it came from, with zeros elsewhere; undoes MaxPool.

    The indices count in the tensor that the other attributes imply; ``output_shape`` puts that one at the beginning of a
    larger tensor of zeros.

    Source:
        ONNX MaxUnpool, opset 22.
    """
    spatial = x.shape[2:]
    rank = len(spatial)
    strides, pads = strides or (1,) * rank, pads or (0,) * (2 * rank)
    implied = [
        (i - 1) * s + k - p - q
        for i, s, k, p, q in zip(spatial, strides, kernel_shape, pads[:rank], pads[rank:], strict=True)
    ]
    y = np.zeros_like(x, shape=math.prod(x.shape[:2]) * math.prod(implied))
    y[indices.reshape(-1)] = x.reshape(-1)
    y = y.reshape(*x.shape[:2], *implied)
    if output_shape is None:
        return y
    missing = [o - i for o, i in zip(output_shape.tolist()[2:], implied, strict=True)]
    return padded(y, (0,) * rank, missing, 0)


def MaxRoiPool(x, rois, *, pooled_shape, spatial_scale=1.0):
    """The largest element of each cell of a grid laid over each region of interest ``(image, x1, y1, x2, y2)``.

    A region's corners are scaled and rounded; cell ``i`` of ``n`` along a side of length ``l`` reaches from
    ``floor(i * l / n)`` to ``ceil((i + 1) * l / n)``, and is 0 where it lies outside the image.

    Source:
        ONNX MaxRoiPool, opset 22; Girshick, Fast R-CNN, 2015, section 2.1.
    """
    y = np.zeros_like(x, shape=(len(rois), x.shape[1], *pooled_shape))
    for number, roi in enumerate(rois):
        image = x[int(roi[0])]
        left_edge, top, right, bottom = np.floor(roi[1:] * spatial_scale + 0.5).astype(np.int64).tolist()
        rows = _cells(top, bottom, pooled_shape[0], image.shape[1])
        columns = _cells(left_edge, right, pooled_shape[1], image.shape[2])
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                cell = image[:, row, column]
                if cell.size:
                    y[number, :, i, j] = np.max(cell, axis=(1, 2))
    return y


def _cells(first, last, count, size):
    length = max(last - first + 1, 1)
    bounds = [(first + i * length // count, first - (-(i + 1) * length // count)) for i in range(count)]
    return [slice(min(max(b, 0), size), min(max(e, 0), size)) for b, e in bounds]
