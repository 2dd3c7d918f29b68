"""Resize, for every mode and coordinate transformation, in either layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.known import dtype_of, rank_of
from deep_bench.adapters.tensorflow.layout import channels_last, either
from deep_bench.adapters.tensorflow.operators._common import HALF, normal_axes, tf_dtype
from deep_bench.tensor import is_float, is_integer

__all__ = ["Resize"]

TIE = 1e-6
"""Coordinates this close to the middle of two elements are meant to be there: a scale such as 2/7 is rounded."""

MANY = 8
"""From this many elements per result on, a product of matrices is used."""


@dataclass(frozen=True)
class Goal:
    """What one axis becomes; each number is a plain one where it is known when the network is prepared, else a tensor.

    Args:
        size: Its length after, if that is asked for.
        scale: The scale, if that is asked for.
        start, end: The region of interest.
    """

    size: Any
    scale: Any
    start: Any = 0.0
    end: Any = 1.0

    @property
    def known(self) -> bool:
        """Whether all of it is known when the network is prepared."""
        return not any(tf.is_tensor(v) for v in (self.size, self.scale, self.start, self.end))


Goals = Callable[[Sequence[Any], Any, Any, Any], list[Goal]]
"""From the lengths of the axes, the region, the scales and the sizes to a goal for each axis."""


def Resize(site: Site) -> Callable[..., Any]:
    """Another resolution: each element from its neighbours' weighted sum, one axis after the other."""
    rank, mode, dtype = rank_of(site), site.attribute("mode", "nearest"), dtype_of(site)
    tf_dtype(dtype)
    if mode != "nearest" and not is_float(dtype) and not (dtype.kind in "iu" and dtype.itemsize < 4):
        raise NotNative(f"TensorFlow does not interpolate {dtype}")
    bilinear = _bilinear_size(site)
    if bilinear is not None:
        return channels_last(lambda x, *_: tf.raw_ops.ResizeBilinear(images=x, size=list(bilinear), half_pixel_centers=True))
    axes = normal_axes(site.attribute("axes") or range(rank), rank)
    scales = site.input(2)
    by_scales = scales is not None and scales.shape != (0,)
    return _resized(site, axes, _by_scales(site) if by_scales or not site.has(3) else _by_sizes(site), rank)


def _bilinear_size(site: Site) -> tuple[int, int] | None:
    """The height and width after, where TensorFlow's kernel for images does the same, several times faster."""
    data, scales, sizes = site.input(0), site.constant(2), site.constant(3)
    plain = {
        "mode": "linear",
        "coordinate_transformation_mode": "half_pixel",
        "antialias": 0,
        "keep_aspect_ratio_policy": "stretch",
    }
    declared = {name: site.attribute(name, default) for name, default in plain.items()}
    if site.attribute("mode") != "linear" or declared != plain or site.attribute("axes") or dtype_of(site) != np.float32:
        return None
    if data is None or data.shape is None or len(data.shape) != 4 or not all(data.shape[2:]):
        return None
    height, width = (float(n or 0) for n in data.shape[2:])
    if sizes is not None and not site.has(2):
        after = [float(n) for n in sizes]
        # the first two lengths must stay
        if list(after[:2]) != [float(n or -1) for n in data.shape[:2]]:
            return None
    elif scales is not None and scales.size == 4 and (scales[:2] == 1).all():
        after = [1.0, 1.0, height * float(scales[2]), width * float(scales[3])]
    else:
        return None
    whole = all(n > 0 and n.is_integer() for n in after[2:])
    return (int(after[2]), int(after[3])) if whole else None


def _regions(site: Site, count: int, roi: Any) -> list[tuple[Any, Any]]:
    if site.attribute("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    constant, slot = site.constant(1), site.input(1)
    if slot is None or slot.shape == (0,) or (constant is not None and constant.size == 0):
        return [(0.0, 1.0)] * count
    if constant is None:
        return list(zip(tf.unstack(roi[:count], count), tf.unstack(roi[count:], count), strict=True))
    starts, ends = np.asarray(constant, np.float64).reshape(2, -1).tolist()
    return list(zip(starts, ends, strict=True))


def _by_scales(site: Site) -> Goals:
    constant = site.constant(2)
    if not site.has(2):
        raise NotNative("neither scales nor sizes are given")

    def goals(lengths: Sequence[Any], roi: Any, scales: Any, _sizes: Any) -> list[Goal]:
        count = len(lengths)
        numbers = constant.astype(np.float32).tolist() if constant is not None else tf.unstack(scales, count)
        return [Goal(None, s, *r) for s, r in zip(numbers, _regions(site, count, roi), strict=True)]

    return goals


def _by_sizes(site: Site) -> Goals:
    constant, policy = site.constant(3), site.attribute("keep_aspect_ratio_policy", "stretch")

    def goals(lengths: Sequence[Any], roi: Any, _scales: Any, sizes: Any) -> list[Goal]:
        count = len(lengths)
        requested = constant.tolist() if constant is not None else tf.unstack(tf.cast(sizes, tf.int32), count)
        regions = _regions(site, count, roi)
        if policy == "stretch":
            return [Goal(s, None, *r) for s, r in zip(requested, regions, strict=True)]
        scale, fitting = _fitting(lengths, requested, policy)
        return [Goal(s, scale, *r) for s, r in zip(fitting, regions, strict=True)]

    return goals


def _fitting(lengths: Sequence[Any], requested: Sequence[Any], policy: str) -> tuple[Any, list[Any]]:
    """One scale for all axes, and the sizes that follow."""
    if not any(tf.is_tensor(v) for v in (*lengths, *requested)):
        ratios = [s / n if n else 1.0 for s, n in zip(requested, lengths, strict=True)]
        scale = min(ratios) if policy == "not_larger" else max(ratios)
        return scale, [int(np.floor(scale * n + 0.5)) for n in lengths]
    before = tf.stack([tf.cast(n, tf.float64) for n in lengths])
    ratio = tf.where(before > 0, tf.stack([tf.cast(s, tf.float64) for s in requested]) / tf.maximum(before, 1), 1)
    chosen = tf.reduce_min(ratio) if policy == "not_larger" else tf.reduce_max(ratio)
    return chosen, tf.unstack(tf.cast(tf.floor(chosen * before + 0.5), tf.int32), len(lengths))


def _resized(site: Site, axes: list[int], goals: Goals, rank: int) -> Callable[..., Any]:
    transformation = site.attribute("coordinate_transformation_mode", "half_pixel")
    cropped = transformation == "tf_crop_and_resize"
    outside_value = site.attribute("extrapolation_value", 0.0)
    dtype = dtype_of(site)
    wide = (dtype in HALF or not is_float(dtype)) and site.attribute("mode", "nearest") != "nearest"

    def make(at: Callable[[int], int]) -> Callable[..., Any]:
        def run(x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
            y, beyond = tf.cast(x, tf.float32) if wide else x, []
            lengths = [_dim(x, at(a)) for a in axes]
            for axis, length, goal in zip(axes, lengths, goals(lengths, roi, scales, sizes), strict=True):
                if not tf.is_tensor(goal.scale) and goal.scale == 1 and not cropped:
                    continue
                table = Table(goal, length, transformation)
                if table.unchanged and not cropped:
                    continue
                y = _applied(y, at(axis), table, site) if cropped else _changed(y, at(axis), table, site)
                beyond.append(tf.reshape(table.outside(), [-1 if a == at(axis) else 1 for a in range(rank)]))
            y = _narrowed(y, dtype)
            if cropped:
                for mask in beyond:
                    y = tf.where(mask, tf.cast(outside_value, y.dtype), y)
            return y

        return run

    return either(make)


def _changed(x: Any, axis: int, table: Table, site: Site) -> Any:
    """The resized tensor; the same one where only the run tells that nothing changes."""
    if table.known or not tf.is_tensor(table.goal.scale):
        return _applied(x, axis, table, site)
    unchanged = tf.logical_and(tf.equal(tf.cast(table.scale, tf.float64), 1), tf.equal(table.resized, table.length))
    return tf.cond(unchanged, lambda: tf.identity(x), lambda: _applied(x, axis, table, site))


def _narrowed(y: Any, dtype: np.dtype) -> Any:
    native = tf_dtype(dtype)
    if y.dtype != native and is_integer(dtype):
        y = tf.clip_by_value(y, float(np.iinfo(dtype).min), float(np.iinfo(dtype).max))
    return tf.cast(y, native)


def _dim(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


class Table:
    """Where the elements of one resized axis come from; in NumPy where its sizes are known, else in the graph.

    Args:
        goal: What is asked for.
        length: The elements before: a number or a tensor.
        transformation: ONNX's ``coordinate_transformation_mode``.
    """

    def __init__(self, goal: Goal, length: Any, transformation: str) -> None:
        self.goal, self.length, self.transformation = goal, length, transformation
        self.known = isinstance(length, int) and goal.known
        self.resized = self._scaled_length() if goal.size is None else goal.size
        self.scale = goal.scale if goal.scale is not None else self._ratio()
        self.xp: Any = np if self.known else tf

    def _scaled_length(self) -> Any:
        if self.known:
            return int(np.floor(np.float32(self.length) * np.float32(self.goal.scale)))
        return tf.cast(tf.floor(tf.cast(self.length, tf.float32) * tf.cast(self.goal.scale, tf.float32)), tf.int32)

    def _ratio(self) -> Any:
        if self.known:
            return self.resized / self.length if self.length else 1.0
        return tf.cast(self.resized, tf.float64) / tf.cast(self.length, tf.float64)

    @property
    def unchanged(self) -> bool:
        """Whether it is known that nothing is resized."""
        return self.known and self.length == self.resized and self.scale == 1

    def positions(self, dtype: Any) -> Any:
        """The coordinates, in the original tensor, of the resized axis's elements."""
        if self.known:
            return self._original(np.arange(self.resized, dtype=dtype), lambda v: np.asarray(v, dtype)[()])
        native = tf.as_dtype(dtype)
        return self._original(tf.cast(tf.range(self.resized), native), lambda v: tf.cast(v, native))

    def _original(self, x: Any, number: Callable[[Any], Any]) -> Any:
        half, n, m, scale = number(0.5), number(self.length), number(self.resized), number(self.scale)
        start, end, unit = number(self.goal.start), number(self.goal.end), number(1)
        single = self.xp.equal(m, unit)
        match self.transformation:
            case "asymmetric":
                return x / scale
            case "half_pixel":
                return (x + half) / scale - half
            case "pytorch_half_pixel":
                return self.xp.where(single, x * 0, (x + half) / scale - half)
            case "half_pixel_symmetric":
                return half * n * (unit - m / (n * scale)) + (x + half) / scale - half
            case "align_corners":
                return x * (n - unit) / self.xp.maximum(m - unit, unit)
            case _:
                along = start * (n - unit) + x * (end - start) * (n - unit) / self.xp.maximum(m - unit, unit)
                return self.xp.where(single, x * 0 + half * (start + end) * (n - unit), along)

    def outside(self) -> Any:
        """Which elements lie outside the original axis."""
        place = self.positions(np.float32)
        return (place < 0) | (place > self._number(place, self.length - 1))

    def _number(self, like: Any, value: Any) -> Any:
        return value if self.known else tf.cast(value, like.dtype)

    def nearest(self, rounding: str) -> Any:
        """The element nearest to each coordinate."""
        place = self.positions(np.float32)
        place = place.astype(np.float64) if self.known else tf.cast(place, tf.float64)
        floor, ceil = (np.floor, np.ceil) if self.known else (tf.floor, tf.math.ceil)
        chosen = {
            "round_prefer_floor": lambda: ceil(place - 0.5 - TIE),
            "round_prefer_ceil": lambda: floor(place + 0.5 + TIE),
            "floor": lambda: floor(place),
            "ceil": lambda: ceil(place),
        }[rounding]()
        whole = chosen.astype(np.int64) if self.known else tf.cast(chosen, tf.int32)
        return self.xp.minimum(self.xp.maximum(whole, 0), self.length - 1)

    def weighted(self, mode: str, dtype: Any, *, a: float, antialias: bool, exclude: bool) -> tuple[Any, Any]:
        """The elements around each coordinate, one row each, and their weights."""
        place, reach = self.positions(dtype), 1 if mode == "linear" else 2
        if self.known:
            stretch = max(1.0, 1.0 / self.scale) if antialias else 1.0
            radius = int(np.ceil(reach * stretch))
            taps = np.floor(place).astype(np.int64)[:, None] + np.arange(1 - radius, radius + 1)
            distance = np.abs(taps.astype(dtype) - place[:, None]) / np.asarray(stretch, dtype)
        else:
            stretch, radius = tf.ones([], place.dtype), reach
            if antialias:
                stretch = tf.maximum(stretch, 1 / tf.cast(self.scale, place.dtype))
                radius = tf.cast(tf.math.ceil(reach * stretch), tf.int32)
            taps = tf.cast(tf.floor(place), tf.int32)[:, None] + tf.range(1 - radius, radius + 1)
            distance = tf.abs(tf.cast(taps, place.dtype) - place[:, None]) / stretch
        weights = self.xp.maximum(1 - distance, 0) if mode == "linear" else self._cubic(distance, a)
        inside = self.xp.minimum(self.xp.maximum(taps, 0), self.length - 1)
        if exclude:
            weights = self.xp.where(self.xp.equal(taps, inside), weights, weights * 0)
        if exclude or antialias:
            total = weights.sum(1, keepdims=True) if self.known else tf.reduce_sum(weights, 1, keepdims=True)
            weights = weights / total
        return inside, weights

    def _cubic(self, t: Any, a: float) -> Any:
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return self.xp.where(t <= 1, near, self.xp.where(t < 2, far, t * 0))


def _applied(x: Any, axis: int, table: Table, site: Site) -> Any:
    mode = site.attribute("mode", "nearest")
    if mode == "nearest":
        return tf.gather(x, table.nearest(site.attribute("nearest_mode", "round_prefer_floor")), axis=axis)
    taps, weights = table.weighted(
        mode,
        x.dtype.as_numpy_dtype,
        a=site.attribute("cubic_coeff_a", -0.75),
        antialias=bool(site.attribute("antialias", 0)),
        exclude=bool(site.attribute("exclude_outside", 0)),
    )
    if taps.shape[1] is None or taps.shape[1] > MANY:
        return _by_matrix(x, axis, _matrix(table, taps, weights))
    shape = [-1 if a == axis else 1 for a in range(x.shape.rank)]
    terms = [tf.gather(x, taps[:, k], axis=axis) * tf.reshape(weights[:, k], shape) for k in range(taps.shape[1])]
    return tf.add_n(terms)


def _matrix(table: Table, taps: Any, weights: Any) -> Any:
    """The weight of each element (a row) in each resized one (a column)."""
    if table.known:
        matrix = np.zeros((table.length, table.resized), weights.dtype)
        np.add.at(matrix, (taps, np.arange(table.resized)[:, None]), weights)
        return tf.constant(matrix)
    columns = tf.broadcast_to(tf.range(table.resized)[:, None], tf.shape(taps))
    return tf.scatter_nd(tf.stack([taps, columns], -1), weights, [table.length, table.resized])


def _by_matrix(x: Any, axis: int, matrix: Any) -> Any:
    rank = x.shape.rank
    moved = tf.tensordot(x, matrix, [[axis], [0]])
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return tf.transpose(moved, order)
