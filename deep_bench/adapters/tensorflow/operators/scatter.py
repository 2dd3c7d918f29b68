"""What writes elements by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.operators._common import computes, in_dtype, rank_of, tf_dtype
from deep_bench.adapters.tensorflow.operators.indexing import flat_positions, wrapped_indices

__all__ = ["ScatterElements", "ScatterND"]

_WRITES = {
    "none": tf.tensor_scatter_nd_update,
    "add": tf.tensor_scatter_nd_add,
    "max": tf.tensor_scatter_nd_max,
    "min": tf.tensor_scatter_nd_min,
}


def _writer(site: Site) -> Callable[..., Any]:
    reduction, dtype = site.attribute("reduction", "none"), in_dtype(site)
    if reduction == "mul":
        return _multiplied
    write = _WRITES[reduction]
    if computes(_PROBES[reduction], tf_dtype(dtype), 1):
        return write
    if dtype.kind in "bui" and dtype.itemsize < 8:
        wide = tf.int32 if dtype.itemsize < 4 else tf.int64
        return lambda x, i, u: tf.cast(write(tf.cast(x, wide), i, tf.cast(u, wide)), x.dtype)
    raise NotNative(f"TensorFlow does not scatter {dtype}")


def _probe(write: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: write(x, [[0]], x)


_PROBES = {reduction: _probe(write) for reduction, write in _WRITES.items()}


def _multiplied(x: Any, indices: Any, updates: Any) -> Any:
    """Updates multiplied in: grouped by where they go, as TensorFlow scatters no products."""
    strides = tf.math.cumprod(tf.shape(x, tf.int64), exclusive=True, reverse=True)
    depth = indices.shape[-1]
    if depth != x.shape.rank:
        raise NotNative("TensorFlow scatters no products of slices")
    flat = tf.reduce_sum(tf.cast(indices, tf.int64) * strides, -1)
    factors = tf.math.unsorted_segment_prod(tf.reshape(updates, [-1]), tf.reshape(flat, [-1]), tf.size(x, tf.int64))
    return x * tf.reshape(factors, tf.shape(x))


def ScatterElements(site: Site) -> Callable[..., Any]:
    """Single elements written along an axis by index."""
    rank = rank_of(site)
    axis = site.attribute("axis", 0) % max(1, rank)
    write = _writer(site)

    def run(x: Any, indices: Any, updates: Any) -> Any:
        places = flat_positions(wrapped_indices(indices, tf.shape(x)[axis]), tf.shape(x, tf.int64), axis)
        flat = write(tf.reshape(x, [-1]), tf.reshape(places, [-1, 1]), tf.reshape(updates, [-1]))
        return tf.reshape(flat, tf.shape(x))

    return run


def ScatterND(site: Site) -> Callable[..., Any]:
    """Slices written by index tuples."""
    write = _writer(site)

    def run(x: Any, indices: Any, updates: Any) -> Any:
        depth = indices.shape[-1]
        if depth is None:
            raise NotNative("the length of the index tuples is not known when the network is prepared")
        return write(x, tf.where(indices < 0, indices + tf.shape(x, indices.dtype)[:depth], indices), updates)

    if site.attribute("reduction", "none") == "mul":
        slot = site.input(1)
        if slot is None or slot.shape is None or slot.shape[-1] != rank_of(site):
            raise NotNative("TensorFlow scatters no products of slices")
    return run
