"""Pools: the gradient goes back to the elements of each window, by their share in it.

Of ``MaxRoiPool``, to the largest element of each cell of each region.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from deep_bench.network.gradient.rules._windows import dim, layout, overlap, product, shaped, size, spatial, zeros
from deep_bench.network.gradient.tape import Symbol

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


def MaxPool(at, x, *, kernel_shape, storage_order=0, strides=None, **attributes):
    """``dx[i] = Σ dy`` over the windows whose first maximum is element ``i``.

    The forward node is asked for the indices of its maxima. Where windows neither overlap nor leave anything over, the
    gradients are put there by MaxUnpool, which runtimes run far faster than a scatter that adds.
    """
    if at.gradient_or_none(0) is None:
        return None
    options = {"kernel_shape": kernel_shape, "strides": strides, **attributes}
    if storage_order:  # indices in another order than that of the elements
        _, indices = at.op.MaxPool(x, outputs=2, **options)
    else:
        indices = at.output(1)
    rank = len(kernel_shape)
    windows = layout(at, x, kernel_shape, strides=strides, **attributes)
    if x.dtype == np.float32 and _tiled(windows):
        return at.op.MaxUnpool(at.dy, indices, x.shape, kernel_shape=kernel_shape, strides=strides or (1,) * rank)
    wide = np.result_type(x.dtype, np.float32)
    empty = zeros(at.op, wide, product(at.op, *(dim(x, axis) for axis in range(2 + rank))))
    dy = at.dy.cast(wide).reshape([-1])
    return at.op.ScatterElements(empty, indices.reshape([-1]), dy, axis=0, reduction="add").cast(x).reshape(x.shape)


def _tiled(windows):
    """Whether the windows lie side by side and cover the whole tensor."""
    if not windows.static:
        return False
    axes = zip(windows.kernel, windows.strides, windows.begins, windows.ends(None), windows.dilations, strict=True)
    return all(k == s and b == e == 0 and (d == 1 or k == 1) for k, s, b, e, d in axes)


def AveragePool(at, x, *, kernel_shape, auto_pad="NOTSET", count_include_pad=0, pads=None, **attributes):
    """``dx[i] = Σ dy / count`` over the windows that hold element ``i``: a transposed convolution with ones."""
    windows = layout(at, x, kernel_shape, auto_pad=auto_pad, pads=pads, **attributes)
    rank = len(kernel_shape)
    after = tuple(pads[rank:]) if pads and auto_pad == "NOTSET" else (0,) * rank
    if auto_pad.startswith("SAME"):
        # As many windows as fit: the padding after the tensor is just what they reach.
        after = windows.ends(at.op)
    counts = [_counted(at, windows, axis, after if count_include_pad else None) for axis in range(rank)]
    count = functools.reduce(lambda a, b: a * b, counts)
    if isinstance(count, np.ndarray):
        if math.prod(count.shape) and (count == count.flat[0]).all():
            count = count.flat[:1]
        return _gathered(at, at.dy / count.astype(x.dtype), windows)
    return _gathered(at, at.dy / count.cast(x.dtype), windows)


def _counted(at, windows, axis, after):
    """How many elements of each window count along an axis, shaped to lie along it."""
    k, d, s = windows.kernel[axis], windows.dilations[axis], windows.strides[axis]
    place = [-1 if a == axis else 1 for a in range(len(windows.kernel))]
    inside = np.arange(k) * d
    if windows.static:
        begin, size = windows.begins[axis], windows.sizes[axis]
        low, high = (0, size) if after is None else (-begin, size + max(after[axis], 0))
        positions = np.arange(windows.counts[axis])[:, np.newaxis] * s - begin + inside
        return np.sum((positions >= low) & (positions < high), axis=1).reshape(place)
    take = functools.partial(_size_along, at, axis)
    begin, size = take(windows.begins), take(windows.sizes)
    positions = at.op.Range(0, take(windows.counts), np.int64(1)).unsqueeze(1) * s - begin + inside
    low, high = (begin * 0, size) if after is None else (-begin, size + take(after))
    return at.op.And(positions >= low, positions < high).cast(np.int64).sum([1]).reshape(place)


def _size_along(at, axis, sizes):
    """One of the sizes along the spatial axes, as a scalar on the tape."""
    return at.op.Gather(sizes, axis, axis=0) if isinstance(sizes, Symbol) else at.op.constant(sizes[axis], np.int64)


def _gathered(at, y, windows):
    """For each element the sum over the windows that hold it: ``y`` convolved with ones, channel by channel."""
    ones = at.op.constant(np.ones((1, 1, *windows.kernel)), y.dtype)
    x = at.inputs[0]
    alone = shaped(y, product(at.op, dim(x, 0), dim(x, 1)), 1, windows.counts)
    return overlap(at, alone, ones, windows).reshape(x.shape)


def LpPool(at, x, *, kernel_shape, p=2, **attributes):
    """``dx[i] = sign(x) |x|^(p-1) Σ dy y^(1-p)`` over the windows that hold element ``i``; 0 where a window is all 0."""
    windows = layout(at, x, kernel_shape, **attributes)
    return _power(at, x, p) * _gathered(at, _root(at, p), windows)


def GlobalLpPool(at, x, *, p=2):
    """``dx = sign(x) |x|^(p-1) dy y^(1-p)``; 0 where a channel is all 0."""
    return _power(at, x, p) * _root(at, p)


def _power(at, x, p):
    """``sign(x) |x|^(p-1)``."""
    if p == 1:
        return at.op.Sign(x)
    if p == 2:
        return x
    size = at.op.Abs(x)
    return x * (size if p == 3 else at.op.Pow(size, p - 2))


def _root(at, p):
    """``dy y^(1-p)``, and 0 where ``y`` is 0."""
    if p == 1:
        return at.dy
    zero = at.y.equals(0)
    safe = at.y + zero.cast(at.y.dtype)
    power = safe if p == 2 else at.op.Pow(safe, p - 1)
    return at.op.Where(zero, 0, at.dy / power)


def GlobalAveragePool(at, x):
    """``dx = dy / count``."""
    count = at.op.Size(x).cast(x.dtype) / at.op.Size(at.y).cast(x.dtype) if x.static_shape is None else None
    share = at.dy / (math.prod(x.static_shape[2:]) if count is None else count)
    return share.expand(x.shape)


def GlobalMaxPool(at, x):
    """``dx = dy`` at each channel's first maximum."""
    flat = at.op.Flatten(x, axis=2)
    best = at.op.ArgMax(flat, axis=1, keepdims=1)
    length = at.op.Shape(flat, start=1)
    places = at.op.Range(0, length.squeeze(0), np.int64(1))
    dy = at.op.Flatten(at.dy, axis=2)
    return at.op.Where(best.equals(places), dy, 0).reshape(x.shape)


def MaxUnpool(at, x, indices, output_shape=None, *, kernel_shape, pads=None, strides=None):
    """``dx[i] = dy[indices[i]]``; 0 for an element whose place another one took after it."""
    rank = len(kernel_shape)
    strides, pads = np.array(strides or (1,) * rank), np.array(pads or (0,) * (2 * rank))
    counts, beyond = spatial(x), np.array(kernel_shape) - pads[:rank] - pads[rank:]
    if isinstance(counts, Symbol):
        implied = (counts - 1) * strides + beyond
    else:
        implied = at.op.constant((np.array(counts) - 1) * strides + beyond, np.int64)
    dy = at.dy
    if output_shape is not None:
        dy = at.op.Slice(dy, [0] * rank, implied, list(range(2, 2 + rank)))
    dy, places = dy.reshape([-1]), indices.reshape([-1])
    number = at.op.Range(0, at.op.Size(places), np.int64(1))
    last = at.op.ScatterElements(at.op.zeros_like(dy).cast(np.int64), places, number, axis=0)
    retained = at.op.Gather(last, places, axis=0).equals(number)
    return at.op.Where(retained, at.op.Gather(dy, places, axis=0), 0).reshape(x.shape), None, None


def MaxRoiPool(at, x, rois, *, pooled_shape, spatial_scale=1.0):
    """``dx[i] = Σ dy`` over the cells of regions whose first maximum is element ``i``; the regions move in steps."""
    return cell_maximum(at, x, rois, pooled_shape, spatial_scale), None


def cell_maximum(at, x, rois, pooled_shape, spatial_scale):
    """``dy`` where the first maximum of each cell lies; first the best column in each row, then the best row."""
    op = at.op
    scaled = op.Floor(rois.slice(1, 1, 5) * spatial_scale + 0.5).cast(np.int64)
    left_edge, top, right, bottom = (scaled.slice(1, i, i + 1) for i in range(4))
    rows = _cells(op, top, bottom, pooled_shape[0], size(x, 2))
    columns = _cells(op, left_edge, right, pooled_shape[1], size(x, 3))
    image = rois.slice(1, 0, 1).cast(np.int64).reshape([-1])
    regions = op.Gather(x, image, axis=0)  # (R, C, H, W)
    lowest = op.constant(-np.inf, np.float32).cast(x.dtype)
    best, place = [], []
    for column in columns:
        inside = op.Where(column.unsqueeze(1, 2), regions, lowest)
        best.append(op.ReduceMax(inside, [3], keepdims=1))
        place.append(op.ArgMax(inside, axis=3, keepdims=1))
    best, place = op.concat(best, axis=3), op.concat(place, axis=3)  # (R, C, H, PW)
    chosen = []
    for row in rows:
        number = op.ArgMax(op.Where(row.unsqueeze(1, 3), best, lowest), axis=2, keepdims=1)  # (R, C, 1, PW)
        chosen.append(number * size(x, 3) + op.GatherElements(place, number, axis=2))
    where = op.concat(chosen, axis=2)  # (R, C, PH, PW)
    # which cells hold any element: ``(R, 1, PH, PW)``
    tall, wide = (op.concat([_any(op, c) for c in cells], axis=1) for cells in (rows, columns))
    filled = op.And(tall.unsqueeze(1, 3), wide.unsqueeze(1, 2))
    return _placed(at, x, image, where, op.Where(filled, at.dy, 0))


def _cells(op, first, last, count, extent):
    """For each cell along an axis the elements it holds: ``(R, extent)``."""
    length = op.Max(last - first + 1, 1)
    ticks = op.Range(0, extent, np.int64(1)).unsqueeze(0)
    cells = []
    for i in range(count):
        # floor and ceil of positive fractions
        begin = first + op.Div(length * i, count)
        end = first + op.Div(length * (i + 1) + (count - 1), count)
        cells.append(op.And(ticks >= begin, ticks < end))
    return cells


def _any(op, inside):
    return op.ReduceMax(inside.cast(np.int32), [1], keepdims=1).cast(bool)


def _placed(at, x, image, where, dy):
    """Add ``dy`` to channel ``c`` of each region's image, at the flattened position ``where``."""
    op = at.op
    n, c, area = size(x, 0), size(x, 1), size(x, 2) * size(x, 3)
    channel = op.Range(0, c, np.int64(1))
    start = (image.unsqueeze(1) * c + channel) * area  # (R, C)
    index = (where + start.unsqueeze(2, 3)).reshape([-1])
    wide = np.result_type(x.dtype, np.float32)
    zeros = op.constant(0, wide).expand((n * c * area).unsqueeze(0))
    flat = op.ScatterElements(zeros, index, dy.cast(wide).reshape([-1]), axis=0, reduction="add")
    return shaped(flat.cast(x), dim(x, 0), dim(x, 1), dim(x, 2), dim(x, 3))
