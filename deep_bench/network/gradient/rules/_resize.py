"""``Resize`` along one axis as a matrix on the tape: ``y = A x``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.network.gradient.rules._windows import dim, product, shaped, size
from deep_bench.network.gradient.symbol import Symbol

_TIE = 1e-6
"""Coordinates this close to the middle of two elements are meant to be there, as in the operator's definition."""


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
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
        axis_specs.append(Axis(axis, length, resized, scale, factor, *region))
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


def applied(at, dy, rows, axis, x):
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
