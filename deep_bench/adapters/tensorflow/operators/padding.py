"""Pad, in all its modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.known import dtype_of, rank_of
from deep_bench.adapters.tensorflow.differentiation import differentiating
from deep_bench.adapters.tensorflow.layout import either
from deep_bench.adapters.tensorflow.operators._common import computes, normal_axes, tf_dtype

__all__ = ["Pad"]


def Pad(site: Site) -> Callable[..., Any]:
    """Elements added around a tensor: a constant, the edge, a reflection, the other end; removed where a pad is negative."""
    rank, mode = rank_of(site), site.attribute("mode", "constant")
    axes, pads = site.constant(3), site.constant(1)
    places = list(range(rank)) if axes is None else normal_axes(axes.tolist(), rank)
    native = tf_dtype(dtype_of(site))
    if not computes(_probe, native, 1):
        raise NotNative(f"TensorFlow does not pad {native.name}")
    if pads is None or (site.has(3) and axes is None):
        return lambda x, p, value=None, a=None: _dynamic(x, *_spread(p, places if a is None else a, rank), value, mode)
    pairs = {a: (int(pads[i]), int(pads[i + len(places)])) for i, a in enumerate(places)}

    def make(at: Callable[[int], int]) -> Callable[..., Any]:
        moved = {at(a): pair for a, pair in pairs.items() if pair != (0, 0)}
        if mode == "constant":
            return lambda x, _=None, value=None, *__: _constant(x, moved, value, rank)
        return lambda x, *_: _gathered(x, moved, mode)

    return either(make)


def _probe(x: Any) -> Any:
    return tf.pad(x, [[0, 1]])


def _constant(x: Any, pairs: dict[int, tuple[int, int]], value: Any, rank: int) -> Any:
    if any(p < 0 for pair in pairs.values() for p in pair):
        sizes = tf.shape(x)
        cut = {a: slice(max(0, -b), sizes[a] - max(0, -e)) for a, (b, e) in pairs.items()}
        x = x[tuple(cut.get(a, slice(None)) for a in range(rank))]
        pairs = {a: (max(0, b), max(0, e)) for a, (b, e) in pairs.items()}
    return _padded(x, [pairs.get(a, (0, 0)) for a in range(rank)], value)


def _padded(x: Any, pairs: Any, value: Any) -> Any:
    if value is None:
        return tf.pad(x, pairs, constant_values="") if x.dtype == tf.string else tf.pad(x, pairs)
    if differentiating() and x.dtype.is_floating:  # TensorFlow takes no gradient with respect to the value
        return tf.where(tf.pad(tf.ones_like(x, tf.bool), pairs), tf.pad(x, pairs), tf.reshape(value, []))
    return tf.pad(x, pairs, constant_values=tf.reshape(value, []))


def _spread(pads: Any, places: Any, rank: int) -> tuple[Any, Any]:
    """The pads before and after every axis."""
    axes = tf.math.floormod(tf.cast(places, tf.int32), max(1, rank))[:, None]
    begin, end = (tf.scatter_nd(axes, part, [rank]) for part in tf.split(tf.cast(pads, tf.int32), 2))
    return begin, end


def _dynamic(x: Any, begin: Any, end: Any, value: Any, mode: str) -> Any:
    """Pads that only the run knows."""
    if mode != "constant":
        return _gathered(x, {a: (begin[a], end[a]) for a in range(x.shape.rank)}, mode)
    cut = tf.strided_slice(x, tf.maximum(0, -begin), tf.shape(x) + tf.minimum(0, end))
    return _padded(cut, tf.stack([tf.maximum(0, begin), tf.maximum(0, end)], 1), value)


def _gathered(x: Any, pairs: dict[int, tuple[int, int]], mode: str) -> Any:
    """Each axis looked up where the padded one falls."""
    for axis, (begin, end) in pairs.items():
        size = x.shape[axis]
        if size is None or tf.is_tensor(begin):
            length = tf.shape(x)[axis]
            x = tf.gather(x, _source(tf.range(-begin, length + end), length, mode, tf), axis=axis)
        else:
            x = tf.gather(x, _source(np.arange(-begin, size + end), size, mode, np), axis=axis)
    return x


def _source(place: Any, size: Any, mode: str, xp: Any) -> Any:
    if mode == "edge":
        return xp.minimum(xp.maximum(place, 0), size - 1)
    if mode == "wrap":
        return place % size
    period = xp.maximum(1, 2 * (size - 1))
    return (size - 1) - xp.abs(place % period - (size - 1))
