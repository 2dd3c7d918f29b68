"""Operators that change a tensor's shape, or read it, and no element."""

from __future__ import annotations

import math

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import check_choice, integers, ints64

__all__ = [
    "CenterCropPad",
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Identity",
    "Pad",
    "Reshape",
    "Shape",
    "Size",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
]


def Identity(x):
    """``x``, be it a tensor, a sequence or an optional value. Source: ONNX Identity, opset 25."""
    return x


def Reshape(x, shape, *, allowzero=0):
    """``x`` in row-major order as another shape: -1 is what is left, 0 keeps that axis unless ``allowzero``.

    Source: ONNX Reshape, opset 25.
    """
    sizes = integers(shape)
    if not allowzero:
        sizes = tuple(x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes))
    if -1 in sizes and x.size == 0:
        fixed_sizes = tuple(size for size in sizes if size != -1)
        if 0 in fixed_sizes:
            raise InvalidInput(f"Reshape of {list(x.shape)} to {list(sizes)}", "a shape whose -1 stands for one number only")
    return np.reshape(x, sizes)


def Transpose(x, *, perm=None):
    """``y``'s axis ``i`` is ``x``'s axis ``perm[i]``; all axes reversed by default. Source: ONNX Transpose, opset 25."""
    return np.transpose(x, perm)


def Squeeze(x, axes=None):
    """``x`` without the given axes, which have size 1; by default without all such. Source: ONNX Squeeze, opset 25."""
    return np.squeeze(x, axis=None if axes is None else integers(axes))


def Unsqueeze(x, axes):
    """``x`` with axes of size 1, at these positions of the result. Source: ONNX Unsqueeze, opset 25."""
    return np.expand_dims(x, integers(axes))


def Flatten(x, *, axis=1):
    """A matrix: the axes before ``axis`` are its rows, the others its columns. Source: ONNX Flatten, opset 25."""
    return np.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def Shape(x, *, start=0, end=None):
    """``x``'s shape, from axis ``start`` to before ``end``. Source: ONNX Shape, opset 25."""
    return ints64(x.shape[start:end])


def Size(x):
    """The number of elements. Source: ONNX Size, opset 25."""
    return ints64(x.size)


def Concat(*inputs, axis):
    """The inputs one after the other along ``axis``. Source: ONNX Concat, opset 13."""
    return np.concatenate(inputs, axis)


def Split(x, split=None, *, axis=0, num_outputs=None, n_outputs=None):
    """Parts of ``x`` along ``axis``: of the sizes ``split``, or equal ones, the last of which may be smaller.

    Source: ONNX Split, opset 18.
    """
    size = x.shape[axis]
    if split is None:
        count = num_outputs or n_outputs
        ends = np.arange(1, count) * -(-size // count)
    else:
        sizes = integers(split)
        if sum(sizes) != size:
            raise InvalidInput(f"Split into {list(sizes)}", f"sizes that sum to {size}, that of axis {axis}")
        ends = np.cumsum(sizes)[:-1]
    return tuple(np.split(x, ends, axis))


def Slice(x, starts, ends, axes=None, steps=None):
    """``x[start:end:step]`` on each axis in ``axes``; limits beyond the tensor are moved to its ends.

    Unlike Python's, a negative step from before the first element starts at the first element.

    Source: ONNX Slice, opset 13.
    """
    starts, ends = integers(starts), integers(ends)
    axes = range(len(starts)) if axes is None else integers(axes)
    steps = (1,) * len(starts) if steps is None else integers(steps)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = _clamped(start, end, step, x.shape[axis])
    return x[tuple(index)]


def _clamped(start: int, end: int, step: int, size: int) -> slice:
    back = 1 if step < 0 else 0
    start = min(max(start + size if start < 0 else start, 0), size - back)
    end = min(max(end + size if end < 0 else end, -back), size - back)
    return slice(max(start, 0), None if end < 0 else end, step)


def Expand(x, shape):
    """``x`` broadcast together with ``shape``. Source: ONNX Expand, opset 13."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, integers(shape)), subok=True).copy()


def Tile(x, repeats):
    """``x`` side by side ``repeats[i]`` times along axis ``i``. Source: ONNX Tile, opset 13."""
    return np.tile(x, integers(repeats))


def DepthToSpace(x, *, blocksize, mode="DCR"):
    """Channels moved into blocks of ``blocksize ** 2`` pixels; ``mode`` says where the block lies among the channels.

    Source: ONNX DepthToSpace, opset 28.
    """
    check_choice("DepthToSpace", "mode", mode, ("DCR", "CRD"))
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    if mode == "DCR":
        y = np.transpose(np.reshape(x, (n, b, b, depth, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = np.transpose(np.reshape(x, (n, depth, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return np.reshape(y, (n, depth, h * b, w * b))


def SpaceToDepth(x, *, blocksize, mode="DCR"):
    """Blocks of ``blocksize ** 2`` pixels moved into channels, the inverse of `DepthToSpace`.

    Source: ONNX SpaceToDepth, opset 28.
    """
    check_choice("SpaceToDepth", "mode", mode, ("DCR", "CRD"))
    n, c, h, w = x.shape
    b = blocksize
    blocks = np.reshape(x, (n, c, h // b, b, w // b, b))
    y = np.transpose(blocks, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return np.reshape(y, (n, c * b * b, h // b, w // b))


def Pad(x, pads, constant_value=None, axes=None, *, mode="constant"):
    """``x`` with elements before and after it along ``axes``; negative ``pads`` remove elements first.

    The new elements are a constant, the nearest one (``edge``), mirrored at the first and last element (``reflect``), or
    those of ``x`` repeated (``wrap``).

    Source: ONNX Pad, opset 25.
    """
    check_choice("Pad", "mode", mode, ("constant", "reflect", "edge", "wrap"))
    begins, ends = np.zeros((2, x.ndim), np.int64)
    where = range(x.ndim) if axes is None else integers(axes)
    begins[list(where)], ends[list(where)] = np.reshape(integers(pads), (2, -1))
    x = _cropped(x, np.maximum(-begins, 0), np.maximum(-ends, 0))
    begins, ends = np.maximum(begins, 0), np.maximum(ends, 0)
    if mode == "constant":
        return _surrounded(x, begins, ends, constant_value)
    for axis in np.flatnonzero(begins + ends).tolist():
        size = x.shape[axis]
        x = np.take(x, _source(mode, np.arange(-begins[axis], size + ends[axis]), size), axis)
    return x


def _source(mode: str, position: np.ndarray, size: int) -> np.ndarray:
    """Which element of an axis of this size is repeated at each position."""
    if mode == "edge":
        return np.clip(position, 0, size - 1)
    if mode == "wrap":
        return position % size
    period = max(2 * (size - 1), 1)
    return np.minimum(position % period, -position % period)


def _cropped(x, begins, ends):
    """``x`` without its first and last elements, as many as these along each axis."""
    return x[tuple(slice(b, max(n - e, b)) for n, b, e in zip(x.shape, begins, ends, strict=True))]


def _surrounded(x, begins, ends, constant=None):
    """``x`` in the middle of a constant, by default the zero of its type."""
    if constant is None:
        constant = "" if x.dtype == object else 0
    y = np.full_like(x, np.reshape(constant, ()), shape=tuple(x.shape + begins + ends))
    y[tuple(slice(b, b + n) for n, b in zip(x.shape, begins, strict=True))] = x
    return y


def CenterCropPad(x, shape, *, axes=None):
    """The middle of ``x`` along ``axes``, or ``x`` in the middle of zeros; an odd element is lost or added at the end.

    Source: ONNX CenterCropPad, opset 18.
    """
    excess = np.zeros(x.ndim, np.int64)
    where = list(range(x.ndim) if axes is None else axes)
    excess[where] = np.array(x.shape)[where] - integers(shape)
    removed, added = np.maximum(excess, 0), np.maximum(-excess, 0)
    return _surrounded(_cropped(x, removed // 2, removed - removed // 2), added // 2, added - added // 2)
