"""Pictures read at arbitrary places: GridSample."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.layout import channels_last
from deep_bench.adapters.tensorflow.operators._common import HALF, in_dtype, rank_of, tf_dtype
from deep_bench.tensor import is_float

__all__ = ["GridSample"]


def GridSample(site: Site) -> Callable[..., Any]:
    """Each element from the neighbours of the place that a grid gives, in coordinates from -1 to 1."""
    mode, outside = site.attribute("mode", "linear"), site.attribute("padding_mode", "zeros")
    corners, n = site.attribute("align_corners", 0), rank_of(site) - 2
    if mode == "cubic":
        raise NotNative("TensorFlow has no cubic sampling")
    if not is_float(in_dtype(site)) or in_dtype(site) in HALF:
        raise NotNative("TensorFlow samples float32 and float64 only")
    native = tf_dtype(in_dtype(site))

    def run(x: Any, grid: Any) -> Any:
        sizes = [tf.cast(tf.shape(x)[i + 1], native) for i in range(n)]
        places = [_place(tf.cast(grid[..., n - 1 - i], native), sizes[i], corners, outside) for i in range(n)]
        if mode == "nearest":
            return _read(x, [tf.round(p) for p in places], sizes, outside)
        low = [tf.floor(p) for p in places]
        total = tf.zeros([], native)
        for corner in product((0, 1), repeat=n):
            weight = tf.ones([], native)
            for p, f, c in zip(places, low, corner, strict=True):
                weight = weight * (p - f if c else f + 1 - p)
            total = total + weight[..., None] * _read(x, [f + c for f, c in zip(low, corner, strict=True)], sizes, outside)
        return total

    return channels_last(run)


def _place(at: Any, size: Any, corners: int, outside: str) -> Any:
    """Coordinates in elements; folded back into the picture where that is asked for."""
    place = (at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2
    if outside == "border":
        return tf.clip_by_value(place, tf.zeros([], at.dtype), size - 1)
    if outside == "reflection":
        low, high = (tf.zeros([], at.dtype), size - 1) if corners else (tf.constant(-0.5, at.dtype), size - 0.5)
        span = tf.maximum(high - low, tf.constant(1e-30, at.dtype))
        folded = tf.math.floormod(place - low, 2 * span)
        return tf.clip_by_value(low + span - tf.abs(folded - span), tf.zeros([], at.dtype), size - 1)
    return place


def _read(x: Any, places: list[Any], sizes: list[Any], outside: str) -> Any:
    """The elements at whole coordinates; zero outside, where that is asked for."""
    inside = [tf.clip_by_value(p, tf.zeros([], p.dtype), s - 1) for p, s in zip(places, sizes, strict=True)]
    found = tf.gather_nd(x, tf.cast(tf.stack(inside, -1), tf.int32), batch_dims=1)
    if outside != "zeros":
        return found
    valid = tf.reduce_all(tf.stack([tf.equal(p, i) for p, i in zip(places, inside, strict=True)]), 0)
    return tf.where(valid[..., None], found, tf.zeros([], x.dtype))
