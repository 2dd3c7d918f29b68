"""``RoiAlign``: where the samples of each region lie, and the gradients of elements and regions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.network.gradient.rules._windows import dim, product, shaped, size, zeros
from deep_bench.network.gradient.symbol import Symbol


@dataclass(frozen=True, eq=False, slots=True)
class Samples:
    """The samples of each bin of each region along one axis.

    Args:
        index: The two elements next to each: ``(R, bins, samples, 2)``.
        weights: Their weights; 0 for a sample outside the image, and for one that a region has not.
        slopes: The derivatives of the weights by the position.
        places: Where the samples lie, in bins: ``(R, bins, samples)``.
        real: The samples that a region has: ``(R, 1, samples)``.
        count: How many these are, at least 1: ``(R, 1, 1)``.
        wide: Whether a region's length is its own, not the least one: ``(R, 1, 1)``; 1 or 0.
    """

    index: Symbol
    weights: Symbol
    slopes: Symbol
    places: Symbol
    real: Symbol
    count: Symbol
    wide: Symbol


def _samples(op, start, end, bins, ratio, extent, half_pixel):
    """Source: ONNX RoiAlign, opset 22. ``start`` and ``end`` are ``(R, 1, 1)``."""
    kind = start.dtype
    length = end - start
    wide = op.constant(1, kind) if half_pixel else (length > 1).cast(kind)
    step = (length if half_pixel else op.Max(length, 1)) / bins
    if ratio > 0:
        number = op.constant(ratio, np.int64)
        count = number.reshape([1, 1, 1])
    else:
        count = op.Max(op.Ceil(step.cast(np.float32)).cast(np.int64), 0)
        number = op.reduce("ReduceMax", op.Concat(count.reshape([-1]), [1], axis=0), [0])
    ticks = op.Range(0, number, np.int64(1))
    real, least = ticks < count, op.Max(count, 1)
    places = (ticks.cast(kind) + 0.5) / least.cast(kind) + np.arange(bins, dtype=kind)[:, np.newaxis]
    position = start + step * places
    last = extent.cast(kind)
    valid = op.And(op.And(position >= -1, position <= last), real)
    clipped = op.Max(op.Min(position, last - 1), 0)
    low = op.Floor(clipped)
    part = clipped - low
    free = op.And(valid, clipped.equals(position)).cast(kind)
    index = op.concat([v.unsqueeze(3) for v in (low, op.Min(low + 1, last - 1))], axis=3).cast(np.int64)
    counts = valid.cast(kind)
    weights = op.concat([(w * counts).unsqueeze(3) for w in (1 - part, part)], axis=3)
    slopes = op.concat([(s * free).unsqueeze(3) for s in (-1, 1)], axis=3)
    return Samples(index, weights, slopes, places, real, least.cast(kind), wide)


def _both(at, x, rois, half_pixel, bins, ratio, scale):
    """The samples along both axes."""
    op, kind = at.op, np.result_type(x.dtype, np.float32)
    scaled = rois.cast(kind) * scale - (0.5 if half_pixel else 0)
    left_edge, top, right, bottom = (scaled.slice(1, i, i + 1).unsqueeze(2) for i in range(4))
    rows = _samples(op, top, bottom, bins[0], ratio, size(x, 2), half_pixel)
    columns = _samples(op, left_edge, right, bins[1], ratio, size(x, 3), half_pixel)
    return rows, columns


def averaged(at, x, rois, images, half_pixel, bins, ratio, scale):
    """The gradients of elements and regions where bins are means: a product with a matrix along each axis."""
    op, kind = at.op, np.result_type(x.dtype, np.float32)
    rows, columns = _both(at, x, rois, half_pixel, bins, ratio, scale)
    a, b = _matrix(op, rows, size(x, 2), kind), _matrix(op, columns, size(x, 3), kind)  # (R, PH, H), (R, PW, W)
    dy = at.dy.cast(kind)
    dx = drois = None
    if at.wants(0):
        inside = a.transpose([0, 2, 1]).unsqueeze(1) @ dy @ b.unsqueeze(1)  # (R, C, H, W)
        whose = op.Range(0, size(x, 0), np.int64(1)).unsqueeze(1).equals(images.cast(np.int64)).cast(kind)
        area = product(op, *(dim(x, axis) for axis in (1, 2, 3)))
        dx = (whose @ shaped(inside, dim(rois, 0), area)).reshape(x.shape).cast(x)
    if at.wants(1):
        regions = op.Gather(x.cast(kind), images, axis=0)
        tall = (regions @ b.transpose([0, 2, 1]).unsqueeze(1)).transpose([0, 1, 3, 2])  # (R, C, PW, H)
        wide = a.unsqueeze(1) @ regions  # (R, C, PH, W)
        da = _joined(dy.transpose([0, 2, 1, 3]), tall)
        db = _joined(dy.transpose([0, 3, 1, 2]), wide)
        moved = [_moved(op, s, d, size(x, i), kind) for s, d, i in ((rows, da, 2), (columns, db, 3))]
        drois = _regions(op, (rows, columns), moved, bins, scale).cast(rois)
    return dx, drois


def _matrix(op, samples, extent, kind):
    """The weights of the elements in the mean of each bin: ``(R, bins, extent)``."""
    hits = _hits(op, samples, extent, kind)
    return (hits * samples.weights.unsqueeze(4)).sum([2, 3]) / samples.count


def _hits(op, samples, extent, kind):
    return samples.index.unsqueeze(4).equals(op.Range(0, extent, np.int64(1))).cast(kind)


def _joined(left_factor, right):
    """``(R, P, C, Q)`` times ``(R, C, Q, L)``, summed over ``C`` and ``Q``."""
    op = left_factor.tape
    inner = product(op, dim(left_factor, 2), dim(left_factor, 3))
    return shaped(left_factor, dim(left_factor, 0), dim(left_factor, 1), inner) @ shaped(
        right, dim(right, 0), inner, dim(right, 3)
    )


def _moved(op, samples, gradient, extent, kind):
    """The gradient of the samples' positions by that of the matrix: ``(R, bins, samples)``."""
    hits = _hits(op, samples, extent, kind) * gradient.unsqueeze(2, 3)
    return (hits.sum([4]) * samples.slopes).sum([3]) / samples.count


def _regions(op, axes, moved, bins, scale):
    """The gradient of the regions ``(x1, y1, x2, y2)`` by those of the positions ``start + step * place``."""
    starts, ends = [], []
    for samples, gradient, count in zip(axes, moved, bins, strict=True):
        step = (gradient * samples.places).sum([1, 2]) / count * samples.wide.reshape([-1])
        starts.append(gradient.sum([1, 2]) - step)
        ends.append(step)
    corners = [starts[1], starts[0], ends[1], ends[0]]
    return op.concat([c.unsqueeze(1) for c in corners], axis=1) * scale


def largest(at, x, rois, images, half_pixel, bins, ratio, scale):
    """The gradients where a bin is the largest weighted corner of its samples; it goes to the first one."""
    op, kind = at.op, np.result_type(x.dtype, np.float32)
    rows, columns = _both(at, x, rois, half_pixel, bins, ratio, scale)
    down, across = _corners(op, rows), _corners(op, columns)
    index = down.index.unsqueeze(2, 4) * size(x, 3) + across.index.unsqueeze(1, 3)  # (R, PH, PW, T, T)
    weights = (down.weights.unsqueeze(2, 4) * across.weights.unsqueeze(1, 3)).unsqueeze(5)
    area = product(op, dim(x, 2), dim(x, 3))
    pixels = shaped(op.Gather(x.cast(kind), images, axis=0), dim(rois, 0), dim(x, 1), area).transpose([0, 2, 1])
    values = op.GatherND(pixels, index.unsqueeze(5), batch_dims=1)  # (R, PH, PW, T, T, C)
    real = op.And(down.real.unsqueeze(2, 4), across.real.unsqueeze(1, 3)).unsqueeze(5)
    sample_gradients = _at_largest(op, op.Where(real, values * weights, op.constant(-np.inf, kind)), at.dy.cast(kind))
    dx = drois = None
    if at.wants(0):
        starts = (images.cast(np.int64) * area).reshape([-1, 1, 1, 1, 1])
        places = (index + starts).reshape([-1, 1])
        empty = zeros(op, kind, product(op, dim(x, 0), area), dim(x, 1))
        updates = shaped(sample_gradients * weights, product(op, op.Shape(index)), dim(x, 1))
        flat = op.ScatterND(empty, places, updates, reduction="add")
        dx = shaped(flat, dim(x, 0), area, dim(x, 1)).transpose([0, 2, 1]).reshape(x.shape).cast(x)
    if at.wants(1):
        share = (sample_gradients * values).sum([5])
        moved = [
            _paired(rows, (share * across.weights.unsqueeze(1, 3)).sum([2, 4]) * down.slopes),
            _paired(columns, (share * down.weights.unsqueeze(2, 4)).sum([1, 3]) * across.slopes),
        ]
        drois = _regions(op, (rows, columns), moved, bins, scale).cast(rois)
    return dx, drois


def _corners(op, samples):
    """Samples with the two elements next to each in one axis: ``(R, bins, 2 * samples)``."""
    index = samples.index
    flat = [dim(index, 0), dim(index, 1), product(op, dim(index, 2), 2)]
    real = op.And(samples.real.unsqueeze(3), op.constant([True, True], bool))
    real = shaped(real, dim(real, 0), 1, flat[2])
    index, weights, slopes = (shaped(v, *flat) for v in (index, samples.weights, samples.slopes))
    return Samples(index, weights, slopes, samples.places, real, samples.count, samples.wide)


def _at_largest(op, candidates, dy):
    """``dy`` of ``(R, C, PH, PW)`` at the first largest of the candidates ``(R, PH, PW, T, T, C)``, and zeros."""
    dims = [dim(candidates, axis) for axis in range(6)]
    corners = product(op, dims[3], dims[4])
    chosen = op.ArgMax(shaped(candidates, *dims[:3], corners, dims[5]), axis=3, keepdims=1)
    number = op.constant(corners, np.int64) if isinstance(corners, int) else corners.squeeze(0)
    first = chosen.equals(op.Range(0, number, np.int64(1)).unsqueeze(1)).cast(dy.dtype)
    return shaped(dy.transpose([0, 2, 3, 1]).unsqueeze(3) * first, *dims)


def _paired(samples, gradient):
    """The sum over the two elements next to each sample."""
    index = samples.index
    return shaped(gradient, *(dim(index, axis) for axis in range(4))).sum([3])
