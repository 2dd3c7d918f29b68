"""Operators that move, select or make numbers; most were in this domain before the standard had them."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators import generate, image, indexing, shape
from deep_bench.reference.operators._arguments import check_choice, in_float32

__all__ = ["CDist", "CropAndResize", "ExpandDims", "GatherND", "GridSample", "Pad", "Range", "Trilu", "Unique"]


def Trilu(x, k=None, *, upper=1):
    """Trilu of the standard. Source: ONNX Runtime Trilu."""
    return indexing.Trilu(x, k, upper=upper)


def Range(start, limit, delta=None):
    """Range of the standard, of scalars or vectors of one element, in steps of 1 unless told. Source: ONNX Runtime Range."""
    return generate.Range(start, limit, np.ones_like(start) if delta is None else delta)


def Unique(x):
    """The different elements of a vector, in the order in which they come.

    Returns:
        Them; for each element of ``x`` its index among them; and how often each occurs.

    Source:
        ONNX Runtime Unique.
    """
    values, _, inverse, counts = indexing.Unique(x, sorted=0)
    return values, inverse, counts


def ExpandDims(x, axis):
    """``x`` with a new axis of size 1 at ``axis``. Source: ONNX Runtime ExpandDims."""
    return np.expand_dims(x, int(axis.reshape(())))


def Pad(data, pads, value=None, *, mode="constant"):
    """Pad of the standard, for all axes; ``pads`` may be a matrix of one row. Source: ONNX Runtime Pad."""
    return shape.Pad(data, pads.reshape(-1), None if value is None else value.reshape(()), mode=mode)


def GatherND(data, indices):
    """GatherND of the standard. Source: ONNX Runtime GatherND."""
    return indexing.GatherND(data, indices)


def GridSample(x, grid, *, align_corners=0, mode="bilinear", padding_mode="zeros"):
    """GridSample of the standard, for images. Source: ONNX Runtime GridSample."""
    names = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    check_choice("GridSample", "mode", mode, names)
    return image.GridSample(x, grid, align_corners=align_corners, mode=names[mode], padding_mode=padding_mode)


@in_float32
def CropAndResize(x, rois, batch_indices, crop_size, *, extrapolation_value=0.0, mode="bilinear"):
    """Cut boxes out of images and sample each at ``crop_size`` points, the outermost ones on the box's corners.

    A box ``(y1, x1, y2, x2)`` is in units of the image's last index, so that 0 and 1 are its first and last row or column;
    a single point lies in the middle. Points outside the image give ``extrapolation_value``.

    Source:
        ONNX Runtime CropAndResize.
    """
    check_choice("CropAndResize", "mode", mode, ("bilinear", "nearest"))
    height, width = crop_size.tolist()
    y = np.zeros_like(x, shape=(len(rois), x.shape[1], height, width))
    for number, (roi, index) in enumerate(zip(rois, batch_indices.tolist(), strict=True)):
        picture = x[index]
        rows = _points(roi[0], roi[2], height, picture.shape[1])
        columns = _points(roi[1], roi[3], width, picture.shape[2])
        outside = ~(_inside(rows, picture.shape[1])[:, np.newaxis] & _inside(columns, picture.shape[2]))
        sampled = _sampled(_sampled(picture, rows, 1, mode), columns, 2, mode)
        y[number] = np.where(outside, extrapolation_value, sampled)
    return y


def _points(first, last, count, size):
    if count == 1:
        return 0.5 * (first + last) * (size - 1) * np.ones_like(first, shape=1)
    return first * (size - 1) + np.arange(count).astype(first.dtype) * ((last - first) * (size - 1) / (count - 1))


def _inside(points, size):
    return (points >= 0) & (points <= size - 1)


def _sampled(x, points, axis, mode):
    """``x`` at ``points`` along ``axis``, clipped to it: the nearest element, or between the two around it."""
    last = x.shape[axis] - 1
    points = np.clip(points, 0, last)
    if mode == "nearest":
        return np.take(x, np.floor(points + 0.5).astype(np.int64), axis=axis)
    low = np.floor(points).astype(np.int64)
    weight = (points - low).astype(x.dtype)
    weight = weight[:, np.newaxis] if axis == 1 else weight
    return np.take(x, low, axis=axis) * (1 - weight) + np.take(x, np.minimum(low + 1, last), axis=axis) * weight


def CDist(a, b, *, metric="sqeuclidean"):
    """The distance of each row of ``a`` from each row of ``b``, or its square.

    Source:
        ONNX Runtime CDist.
    """
    check_choice("CDist", "metric", metric, ("euclidean", "sqeuclidean"))
    squares = np.sum(np.square(a[:, np.newaxis] - b), axis=-1)
    return np.sqrt(squares) if metric == "euclidean" else squares
