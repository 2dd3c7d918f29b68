"""Pictures read at arbitrary places: GridSample, and the grids for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.known import dims_of, dtype_of, rank_of
from deep_bench.adapters.tensorflow.differentiation import differentiating
from deep_bench.adapters.tensorflow.layout import channels_last
from deep_bench.adapters.tensorflow.operators._common import in_float, tf_dtype
from deep_bench.tensor import is_float

__all__ = ["AffineGrid", "GridSample"]

COEFFICIENT = -0.75
"""Of cubic convolution, as ONNX has it."""


def AffineGrid(site: Site) -> Callable[..., Any]:
    """A grid of places from -1 to 1, each transformed by a matrix."""
    corners, constant, n = site.attribute("align_corners", 0), site.constant(1), dims_of(site)[1]
    if n is None:
        raise NotNative("the number of axes is not known when the network is prepared")

    def run(theta: Any, size: Any) -> Any:
        sizes = [int(s) for s in constant[2:]] if constant is not None else tf.unstack(tf.cast(size[2:], tf.int32), n)
        ticks = [tf.cast(_ticks(s, corners), theta.dtype) for s in sizes]
        places = [tf.reshape(t, [-1]) for t in reversed(tf.meshgrid(*ticks, indexing="ij"))]
        grid = tf.matmul(tf.stack([*places, tf.ones_like(places[0])], -1), theta, transpose_b=True)
        return tf.reshape(grid, tf.stack([tf.shape(theta)[0], *sizes, n]))

    return in_float(run, dtype_of(site))


def _ticks(size: Any, corners: int) -> Any:
    steps = tf.cast(tf.range(size), tf.float64)
    count = tf.cast(size, tf.float64)
    if not corners:
        return (2 * steps + 1) / count - 1
    return tf.where(count > 1, 2 * steps / tf.maximum(count - 1, 1) - 1, 0)


def GridSample(site: Site) -> Callable[..., Any]:
    """Each element from the neighbours of the place that a grid gives, in coordinates from -1 to 1."""
    mode, outside = site.attribute("mode", "linear"), site.attribute("padding_mode", "zeros")
    corners, n, dtype = site.attribute("align_corners", 0), rank_of(site) - 2, dtype_of(site)
    if mode != "nearest" and not is_float(dtype):
        raise NotNative(f"TensorFlow does not interpolate {dtype}")
    native, wide = tf_dtype(dtype), tf_dtype(np.result_type(dtype_of(site, 1), np.float32))
    inner = native if mode == "nearest" else tf.float64 if tf.float64 in (native, wide) else tf.float32

    def run(x: Any, grid: Any) -> Any:
        sizes = [tf.shape(x)[i + 1] for i in range(n)]
        flat = tf.reshape(tf.cast(x, inner), tf.stack([tf.shape(x)[0], -1, tf.shape(x)[-1]]))
        axes = []
        for i, size in enumerate(sizes):
            length, at = tf.cast(size, wide), tf.cast(grid[..., n - 1 - i], wide) + 1
            place = at / 2 * (length - 1) if corners else (at * length - 1) / 2
            axes.append([(*_index(t, size), w) for t, w in _taps(place, length, mode, outside, corners)])
        total = None
        for parts in product(*axes):
            samples = tf.gather(flat, _combined(parts, sizes), batch_dims=1)
            if outside == "zeros":
                samples = tf.where(reduce(tf.logical_and, [p[1] for p in parts])[..., None], samples, tf.zeros([], inner))
            if mode == "nearest":
                return samples
            term = tf.cast(reduce(tf.multiply, [p[2] for p in parts]), inner)[..., None] * samples
            total = term if total is None else total + term
        return tf.cast(total, native)

    return channels_last(run)


def _combined(parts: Sequence[tuple[Any, Any, Any]], sizes: Sequence[Any]) -> Any:
    """Where an element lies among all of a picture."""
    place = parts[0][0]
    for (index, *_), size in zip(parts[1:], sizes[1:], strict=True):
        place = place * size + index
    return place


def _taps(place: Any, length: Any, mode: str, outside: str, corners: int) -> list[tuple[Any, Any]]:
    """The whole coordinates around a place along an axis, each with its weight."""
    reflected = outside == "reflection"
    if mode == "nearest":
        return [(tf.round(_reflected(place, length, corners) if reflected else place), None)]
    low, reach = tf.floor(place), 1 if mode == "linear" else 2
    taps = []
    for step in range(1 - reach, reach + 1):
        tap = low + step
        distance = tf.abs(tap - place)
        if mode != "linear":
            weight = _cubic(distance)
        elif differentiating():  # of 1 - distance TensorFlow takes no slope where a place is an element's own
            weight = (1 - (place - low), place - low)[step]
        else:
            weight = tf.maximum(1 - distance, 0)
        taps.append((tf.round(_reflected(tap, length, corners)) if reflected else tap, weight))
    return taps


def _cubic(t: Any) -> Any:
    """The kernel of cubic convolution."""
    a = COEFFICIENT
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return tf.where(t <= 1, near, tf.where(t < 2, far, tf.where(tf.math.is_nan(t), t, tf.zeros_like(t))))


def _reflected(place: Any, length: Any, corners: int) -> Any:
    """A place mirrored at the outermost centres or edges until it is inside."""
    edge = 0.0 if corners else 0.5
    span = length - 1 + 2 * edge
    distance = tf.math.floormod(place + edge, tf.maximum(2 * span, 1))
    return tf.minimum(distance, 2 * span - distance) - edge


def _index(place: Any, size: Any) -> tuple[Any, Any]:
    """A whole coordinate as an index inside an axis, and whether it was inside."""
    near = tf.clip_by_value(place, tf.zeros([], place.dtype), tf.cast(size - 1, place.dtype))
    # What is no number becomes an arbitrary index, which is brought inside once more.
    return tf.clip_by_value(tf.cast(near, tf.int32), 0, size - 1), tf.equal(place, near)
