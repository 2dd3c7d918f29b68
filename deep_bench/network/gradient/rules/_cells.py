"""The gradient of ``MaxRoiPool``: which element of each cell of each region is the largest."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._windows import dim, shaped, size


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
    filled = _filled(op, rows, columns)
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


def _filled(op, rows, columns):
    """Which cells hold any element: ``(R, 1, PH, PW)``."""
    tall, wide = (op.concat([_any(op, c) for c in cells], axis=1) for cells in (rows, columns))
    return op.And(tall.unsqueeze(1, 3), wide.unsqueeze(1, 2))


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
