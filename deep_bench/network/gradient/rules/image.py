"""Resampling: each result hands its gradient back to the pixels it came from.

``Resize`` along one axis is a matrix on the tape, ``y = A x``. Of ``RoiAlign`` it says where the samples of each region lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.network.gradient.rules._windows import Sampling, dim, product, shaped, size, taps_around, zeros
from deep_bench.network.gradient.tape import Symbol

__all__ = ["AffineGrid", "GridSample", "Resize", "RoiAlign"]


def Resize(
    at,
    x,
    roi=None,
    scales=None,
    sizes=None,
    *,
    antialias=0,
    axes=None,
    coordinate_transformation_mode="half_pixel",
    cubic_coeff_a=-0.75,
    exclude_outside=0,
    extrapolation_value=0.0,
    keep_aspect_ratio_policy="stretch",
    mode="nearest",
    nearest_mode="round_prefer_floor",
):
    """Along each axis ``y = A x``, hence ``dx = A^T dy``; the rows of ``A`` are computed as the operator defines them."""
    if coordinate_transformation_mode != "tf_crop_and_resize":
        roi = None
    elif mode != "nearest" and at.wants(1):
        raise at.refusal("the gradient of its region of interest is not written")
    axis_specs = resized_axes(at, x, axes, roi, scales, sizes, keep_aspect_ratio_policy)
    factors = repeated(at, axis_specs, mode, coordinate_transformation_mode, nearest_mode)
    if factors is not None:
        # The sum over the copies of each element; pools run faster than sums over inner axes.
        mean = at.op.AveragePool(at.dy, kernel_shape=factors, strides=factors)
        return mean * float(np.prod(factors)), None, None, None
    wide = np.result_type(x.dtype, np.float32)
    dx = at.dy.cast(wide)
    for axis in axis_specs:
        rows = matrix(
            at.op,
            axis,
            wide,
            mode,
            coordinate_transformation_mode,
            nearest_mode,
            cubic_coeff_a,
            antialias,
            exclude_outside,
        )
        dx = transposed_product(at, dx, rows, axis, x)
    return dx.cast(x), None, None, None


def GridSample(at, x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """``dx`` adds up ``weight * dy`` at the elements that were read; ``dgrid = Σ dy * x * d weight / d position``.

    Source:
        Jaderberg et al., *Spatial Transformer Networks*, 2015, equations 6 and 7.
    """
    op, rank = at.op, x.rank - 2
    wide = np.result_type(grid.dtype, np.result_type(x.dtype, np.float32))
    n, points = dim(grid, 0), product(op, *(dim(grid, axis) for axis in range(1, 1 + rank)))
    flat = shaped(grid.cast(wide), n, points, rank)
    taps, stretches = [], []
    for axis in range(rank):
        extent = size(x, 2 + axis)
        shifted = flat.slice(2, rank - 1 - axis, rank - axis).squeeze(2) + 1
        length = (extent - 1 if align_corners else extent).cast(wide)
        position = shifted * length / 2 if align_corners else (shifted * length - 1) / 2
        taps.append(taps_around(op, position, extent, mode, padding_mode, align_corners))
        stretches.append(length / 2)
    sampling = Sampling(op, x.cast(wide), taps)
    dy = shaped(at.dy.cast(wide), n, dim(x, 1), points).transpose([0, 2, 1])
    dx = sampling.to_elements(dy).cast(x) if at.wants(0) else None
    if not at.wants(1) or mode == "nearest":
        return dx, None
    moved = [(d * s).unsqueeze(2) for d, s in zip(sampling.to_positions(dy), stretches, strict=True)]
    return dx, op.concat(moved[::-1], axis=2).reshape(grid.shape).cast(grid)


def AffineGrid(at, theta, size, *, align_corners=0):
    """``dtheta = Σ dy ⊗ (x, y, z, 1)`` over the positions, which are the grid of the identity."""
    op, rank = at.op, at.y.rank - 2
    wide = np.result_type(theta.dtype, np.float32)
    unit_size = op.Concat([1, 1], op.Slice(size, [2], [2 + rank]), axis=0)
    identity = op.constant(np.eye(rank, rank + 1)[np.newaxis], wide)
    places = op.AffineGrid(identity, unit_size, align_corners=align_corners)
    area = product(op, *(dim(at.y, axis) for axis in range(1, 1 + rank)))
    places = op.Pad(shaped(places, area, rank), [0, 0, 0, 1], op.constant(1, wide))
    dy = shaped(at.dy.cast(wide), dim(theta, 0), area, rank)
    return (dy.transpose([0, 2, 1]) @ places).cast(theta), None


def RoiAlign(
    at,
    x,
    rois,
    batch_indices,
    *,
    coordinate_transformation_mode="half_pixel",
    mode="avg",
    output_height=1,
    output_width=1,
    sampling_ratio=0,
    spatial_scale=1.0,
):
    """For means ``y = A x B^T`` in each region, hence ``dx = A^T dy B``; for maxima ``dy`` goes to the first largest corner.

    The regions' gradients follow from the slopes of ``A`` and ``B``.

    Source:
        He et al., *Mask R-CNN*, 2017, section 3.
    """
    rule = averaged if mode == "avg" else largest
    half_pixel = coordinate_transformation_mode == "half_pixel"
    bins = (output_height, output_width)
    return *rule(at, x, rois, batch_indices, half_pixel, bins, sampling_ratio, spatial_scale), None


_TIE = 1e-6
"""Coordinates this close to the middle of two elements are meant to be there, as in the operator's definition."""


@dataclass(frozen=True, eq=False, slots=True)
class AxisResize:
    """One axis that is resized.

    Args:
        index: Which axis.
        length: Its elements before; a scalar on the tape.
        resized: Its elements after.
        scale: The scale that was asked for, in float64 or float32.
        factor: The same, where it is known before the run.
        start: Where the region of interest begins, as a share of the axis; ``None`` without one.
        end: Where it ends.
    """

    index: int
    length: Symbol
    resized: Symbol
    scale: Symbol
    factor: float | None
    start: Symbol | None
    end: Symbol | None


def resized_axes(at, x, axes, roi, scales, sizes, policy):
    """The axes that are not known to stay as they are. Source: ONNX Resize, opset 19."""
    op, rank = at.op, x.rank
    axes = list(range(rank)) if axes is None else [axis % rank for axis in axes]
    by_size = sizes is not None and sizes.static_shape != (0,)
    shared_scale = _one_scale(op, x, axes, sizes, policy) if by_size and policy != "stretch" else None
    axis_specs = []
    for number, axis in enumerate(axes):
        length, resized = size(x, axis), size(at.y, axis)
        factor = _factor(x, at.y, axis)
        if shared_scale is not None:
            scale, factor = shared_scale, None
        elif by_size:
            scale = _ratio(op, resized, length)
        else:
            scale = op.Gather(scales, np.int64(number), axis=0)
            scale_values = scales.known
            factor = None if scale_values is None else float(scale_values[number])
        if factor == 1 and roi is None:
            continue
        region = (None, None) if roi is None else (op.Gather(roi, np.int64(i), axis=0) for i in (number, number + len(axes)))
        axis_specs.append(AxisResize(axis, length, resized, scale, factor, *region))
    return axis_specs


def _factor(x, y, axis):
    before, after = dim(x, axis), dim(y, axis)
    return after / before if isinstance(before, int) and isinstance(after, int) and before else None


def _ratio(op, resized, length):
    """The one length by the other, and 1 for an axis without elements."""
    return op.Where(length > 0, resized.cast(np.float64) / op.Max(length, 1).cast(np.float64), 1.0)


def _one_scale(op, x, axes, sizes, policy):
    """The scale that all axes share when the aspect ratio is kept."""
    lengths = op.concat([size(x, axis).reshape([1]) for axis in axes])
    ratios = _ratio(op, sizes, lengths)
    return op.reduce("ReduceMin" if policy == "not_larger" else "ReduceMax", ratios, [0])


def repeated(at, axes, mode, transformation, rounding):
    """How often each element along each spatial axis is repeated, if that is all that is done, and in float32."""
    x = at.inputs[0]
    centred = transformation in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel") and rounding.startswith("round")
    if mode != "nearest" or x.dtype != np.float32 or not (centred or (transformation, rounding) == ("asymmetric", "floor")):
        return None
    rank = x.rank - 2
    factors = [1] * max(rank, 0)
    for axis in axes:
        ratio = _factor(x, at.y, axis.index)
        if axis.index < 2 or not axis.factor or axis.factor % 1 or ratio != axis.factor:
            return None
        factors[axis.index - 2] = int(axis.factor)
    return factors if axes and 1 <= rank <= 3 else None


def transposed_product(at, dy, rows, axis, x):
    """``A^T dy`` along an axis; the axes are treated from the first to the last."""
    op, last = at.op, axis.index == x.rank - 1
    before = [dim(dy, a) for a in range(axis.index)]
    after = [dim(dy, a) for a in range(axis.index + 1, x.rank)]
    m = dim(dy, axis.index)
    if last:
        return shaped(shaped(dy, product(op, before), m) @ rows, before, dim(x, axis.index))
    flat = shaped(dy, product(op, before), m, product(op, after))
    return shaped(rows.transpose([1, 0]) @ flat, before, dim(x, axis.index), after)


def matrix(op, axis, wide, mode, transformation, rounding, a, antialias, exclude_outside):
    """``A``: the weights of the original elements, ``(resized, length)``."""
    elements = op.Range(0, axis.length, np.int64(1))
    plain = _original(op, axis, np.float32, transformation)
    if mode == "nearest":
        rows = _nearest(op, axis, plain, rounding).unsqueeze(1).equals(elements).cast(wide)
    else:
        position = _original(op, axis, wide, transformation)
        taps, weights = _weighted(op, axis, position, mode, a, antialias, exclude_outside)
        rows = (taps.unsqueeze(2).equals(elements).cast(wide) * weights.unsqueeze(2)).sum([1])
    if transformation == "tf_crop_and_resize":
        beyond = op.Or(plain < 0, plain > (axis.length - 1).cast(np.float32))
        rows = op.Where(beyond.unsqueeze(1), op.constant(0, wide), rows)
    return rows


def _original(op, axis, dtype, transformation):
    """The coordinates of the resized elements in the original tensor. Source: ONNX Resize, opset 19."""
    x = op.Range(0, axis.resized, np.int64(1)).cast(dtype)
    n, m, scale = (v.cast(dtype) for v in (axis.length, axis.resized, axis.scale))
    match transformation:
        case "asymmetric":
            return x / scale
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return op.Where(axis.resized <= 1, 0, (x + 0.5) / scale - 0.5)
        case "half_pixel_symmetric":
            offset = n * 0.5 * (1 - m / (n * scale))
            return offset + (x + 0.5) / scale - 0.5
        case "align_corners":
            return x * (n - 1) / op.Max(m - 1, 1)
        case _:  # tf_crop_and_resize
            start, end = axis.start.cast(dtype), axis.end.cast(dtype)
            spread = start * (n - 1) + x * (end - start) * (n - 1) / op.Max(m - 1, 1)
            return op.Where(axis.resized <= 1, (start + end) * 0.5 * (n - 1), spread)


def _nearest(op, axis, position, rounding):
    exact = position.cast(np.float64)
    match rounding:
        case "round_prefer_floor":
            index = op.Ceil(exact - 0.5 - _TIE)
        case "round_prefer_ceil":
            index = op.Floor(exact + 0.5 + _TIE)
        case "floor":
            index = op.Floor(exact)
        case _:
            index = op.Ceil(exact)
    return _inside(op, index.cast(np.int64), axis.length)


def _inside(op, index, length):
    return op.Max(op.Min(index, length - 1), 0)


def _weighted(op, axis, position, mode, a, antialias, exclude_outside):
    """The elements around each position and their weights, one row per position."""
    radius: Any = 1 if mode == "linear" else 2
    first = op.Floor(position).cast(np.int64).unsqueeze(1)
    if antialias:
        stretch = op.Max(1 / axis.scale.cast(position.dtype), 1)
        reach = op.Ceil(stretch * radius).cast(np.int64)
        taps = first + op.Range(1 - reach, reach + 1, np.int64(1))
    else:
        taps = first + np.arange(1 - radius, radius + 1)
    distance = taps.cast(position.dtype) - position.unsqueeze(1)
    weights = _kernel(op, op.Abs(distance / stretch if antialias else distance), mode, a)
    inside = _inside(op, taps, axis.length)
    if exclude_outside:
        weights = op.Where(taps.equals(inside), weights, 0)
    if exclude_outside or antialias:
        weights = weights / weights.sum([1], keepdims=True)
    return inside, weights


def _kernel(op, t, mode, a):
    """The weight of an element at distance ``t``. Source: Keys, 1981, equation 4."""
    if mode == "linear":
        return op.Max(1 - t, 0)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return op.Where(t <= 1, near, op.Where(t < 2, far, 0))


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
    # ``dy`` of ``(R, C, PH, PW)`` at the first largest of the candidates ``(R, PH, PW, T, T, C)``, and zeros
    candidates = op.Where(real, values * weights, op.constant(-np.inf, kind))
    dy = at.dy.cast(kind)
    dims = [dim(candidates, axis) for axis in range(6)]
    corners = product(op, dims[3], dims[4])
    chosen = op.ArgMax(shaped(candidates, *dims[:3], corners, dims[5]), axis=3, keepdims=1)
    number = op.constant(corners, np.int64) if isinstance(corners, int) else corners.squeeze(0)
    first = chosen.equals(op.Range(0, number, np.int64(1)).unsqueeze(1)).cast(dy.dtype)
    sample_gradients = shaped(dy.transpose([0, 2, 3, 1]).unsqueeze(3) * first, *dims)
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


def _paired(samples, gradient):
    """The sum over the two elements next to each sample."""
    index = samples.index
    return shaped(gradient, *(dim(index, axis) for axis in range(4))).sum([3])
