"""Resize, for every mode and coordinate transformation, in either layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.layout import either
from deep_bench.adapters.tensorflow.operators._common import HALF, constant, in_dtype, normal_axes, rank_of, tf_dtype
from deep_bench.tensor import is_float

__all__ = ["Resize"]

TIE = 1e-6
"""Coordinates this close to the middle of two elements are meant to be there: a scale such as 2/7 is rounded."""

MANY = 8
"""From this many elements per result on, a product of matrices is used."""


@dataclass(frozen=True)
class Goal:
    """What one axis becomes.

    Args:
        size: Its length after, if known.
        scale: The scale, if it is known.
        start, end: The region of interest.
    """

    size: int | None
    scale: float | None
    start: float = 0.0
    end: float = 1.0


def Resize(site: Site) -> Callable[..., Any]:
    """Another resolution: each element from its neighbours' weighted sum, one axis after the other."""
    rank, mode, dtype = rank_of(site), site.attribute("mode", "nearest"), in_dtype(site)
    tf_dtype(dtype)
    if mode != "nearest" and not is_float(dtype):
        raise NotNative("TensorFlow interpolates floats only")
    axes = normal_axes(site.attribute("axes") or range(rank), rank)
    if (site.has(2) and (site.constant(2) is None or site.constant(2).size)) or not site.has(3):  # type: ignore[union-attr]
        return _by_scales(site, axes, rank)
    return _by_sizes(site, axes, rank)


def _roi(site: Site, count: int) -> list[tuple[float, float]]:
    if site.attribute("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    roi = constant(site, 1, "the region of interest")
    if roi is None or roi.size == 0:
        return [(0.0, 1.0)] * count
    starts, ends = np.asarray(roi, np.float64).reshape(2, -1).tolist()
    return list(zip(starts, ends, strict=True))


def _by_scales(site: Site, axes: list[int], rank: int) -> Callable[..., Any]:
    scales = constant(site, 2, "the scales")
    if scales is None:
        raise NotNative("neither scales nor sizes are given")
    regions = _roi(site, len(axes))
    goals = {a: Goal(None, float(np.float32(s)), *r) for a, s, r in zip(axes, scales.tolist(), regions, strict=True)}
    return _resized(site, goals, rank)


def _by_sizes(site: Site, axes: list[int], rank: int) -> Callable[..., Any]:
    known = site.constant(3)
    policy = site.attribute("keep_aspect_ratio_policy", "stretch")
    regions = _roi(site, len(axes))
    if policy != "stretch":
        dims = [None if site.inputs[0] is None or site.inputs[0].shape is None else site.inputs[0].shape[a] for a in axes]
        if known is None or None in dims:
            raise NotNative("sizes that keep the aspect ratio are not known when the network is prepared")
        ratios = [int(s) / int(d or 1) for s, d in zip(known, dims, strict=True)]
        scale = min(ratios) if policy == "not_larger" else max(ratios)
        sizes = [int(np.floor(scale * int(d or 0) + 0.5)) for d in dims]
        return _resized(site, {a: Goal(s, scale, *r) for a, s, r in zip(axes, sizes, regions, strict=True)}, rank)
    if known is not None:
        return _resized(site, {a: Goal(int(s), None, *r) for a, s, r in zip(axes, known, regions, strict=True)}, rank)
    places = {a: i for i, a in enumerate(axes)}
    goals = {a: Goal(None, None, *r) for a, r in zip(axes, regions, strict=True)}
    return _resized(site, goals, rank, lambda sizes, axis: tf.cast(sizes[places[axis]], tf.int32))


def _resized(
    site: Site, goals: dict[int, Goal], rank: int, asked: Callable[[Any, int], Any] | None = None
) -> Callable[..., Any]:
    transformation = site.attribute("coordinate_transformation_mode", "half_pixel")
    cropped = transformation == "tf_crop_and_resize"
    outside_value = site.attribute("extrapolation_value", 0.0)
    narrow, half = tf_dtype(in_dtype(site)), in_dtype(site) in HALF and site.attribute("mode", "nearest") != "nearest"

    def make(at: Callable[[int], int]) -> Callable[..., Any]:
        def run(x: Any, _roi: Any = None, _scales: Any = None, sizes: Any = None) -> Any:
            y, beyond = tf.cast(x, tf.float32) if half else x, []
            for axis, goal in goals.items():
                if goal.scale == 1 and not cropped:
                    continue
                table = Table(goal, _dim(x, at(axis)), asked(sizes, axis) if asked else goal.size, transformation)
                if table.unchanged and not cropped:
                    continue
                y = _applied(y, at(axis), table, site)
                beyond.append(tf.reshape(table.outside(), [-1 if a == at(axis) else 1 for a in range(rank)]))
            if cropped:
                for mask in beyond:
                    y = tf.where(mask, tf.cast(outside_value, y.dtype), y)
            return tf.cast(y, narrow)

        return run

    return either(make)


def _dim(x: Any, axis: int) -> Any:
    known = x.shape[axis]
    return tf.shape(x)[axis] if known is None else known


class Table:
    """Where the elements of one resized axis come from; in NumPy where its sizes are known, else in the graph.

    Args:
        goal: What is asked for.
        length: The elements before: a number or a tensor.
        size: The elements after, if they are asked for.
        transformation: ONNX's ``coordinate_transformation_mode``.
    """

    def __init__(self, goal: Goal, length: Any, size: Any, transformation: str) -> None:
        self.goal, self.length, self.transformation = goal, length, transformation
        self.known = isinstance(length, int) and (isinstance(size, int) or (size is None and goal.scale is not None))
        self.resized = self._scaled_length() if size is None else size
        self.scale = goal.scale if goal.scale is not None else self._ratio()
        self.xp: Any = np if self.known else tf

    def _scaled_length(self) -> Any:
        if self.known:
            return int(np.floor(np.float32(self.length) * np.float32(self.goal.scale)))
        return tf.cast(tf.floor(tf.cast(self.length, tf.float32) * tf.constant(self.goal.scale, tf.float32)), tf.int32)

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
        start, end, one = number(self.goal.start), number(self.goal.end), number(1)
        single = self.xp.equal(m, one)
        match self.transformation:
            case "asymmetric":
                return x / scale
            case "half_pixel":
                return (x + half) / scale - half
            case "pytorch_half_pixel":
                return self.xp.where(single, x * 0, (x + half) / scale - half)
            case "half_pixel_symmetric":
                return half * n * (one - m / (n * scale)) + (x + half) / scale - half
            case "align_corners":
                return x * (n - one) / self.xp.maximum(m - one, one)
            case _:
                along = start * (n - one) + x * (end - start) * (n - one) / self.xp.maximum(m - one, one)
                return self.xp.where(single, x * 0 + half * (start + end) * (n - one), along)

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
        place = self.positions(dtype)
        if antialias and not self.known:
            raise NotNative("an antialiased size is not known when the network is prepared")
        stretch = max(1.0, 1.0 / self.scale) if antialias else 1.0
        radius = int(np.ceil((1 if mode == "linear" else 2) * stretch))
        around = np.arange(1 - radius, radius + 1)
        if self.known:
            taps = np.floor(place).astype(np.int64)[:, None] + around
            distance = np.abs(taps.astype(dtype) - place[:, None]) / np.asarray(stretch, dtype)
        else:
            taps = tf.cast(tf.floor(place), tf.int32)[:, None] + around.astype(np.int32)
            distance = tf.abs(tf.cast(taps, place.dtype) - place[:, None])
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
    if table.known and taps.shape[1] > MANY:
        return _by_matrix(x, axis, taps, weights, table.length)
    shape = [-1 if a == axis else 1 for a in range(x.shape.rank)]
    terms = [tf.gather(x, taps[:, k], axis=axis) * tf.reshape(weights[:, k], shape) for k in range(taps.shape[1])]
    return tf.add_n(terms)


def _by_matrix(x: Any, axis: int, taps: Any, weights: Any, length: int) -> Any:
    matrix = np.zeros((taps.shape[0], length), weights.dtype)
    np.add.at(matrix, (np.arange(taps.shape[0])[:, None], taps), weights)
    rank = x.shape.rank
    moved = tf.tensordot(x, tf.constant(matrix.T), [[axis], [0]])
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return tf.transpose(moved, order)
