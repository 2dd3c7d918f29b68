"""What writes elements by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.known import dtype_of, rank_of
from deep_bench.adapters.tensorflow.operators._common import computes, tf_dtype
from deep_bench.adapters.tensorflow.operators.indexing import flat_positions, wrapped_indices

__all__ = ["ScatterElements", "ScatterND", "TensorScatter"]

_WRITES = {
    "none": tf.tensor_scatter_nd_update,
    "add": tf.tensor_scatter_nd_add,
    "max": tf.tensor_scatter_nd_max,
    "min": tf.tensor_scatter_nd_min,
}


def _writer(site: Site) -> Callable[..., Any]:
    reduction, dtype = site.attribute("reduction", "none"), dtype_of(site)
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
    depth = indices.shape[-1]
    sizes = tf.shape(x, tf.int64)
    strides = tf.math.cumprod(sizes[:depth], exclusive=True, reverse=True)
    flat = tf.reduce_sum(tf.cast(indices, tf.int64) * strides, -1)
    rows, length = tf.reduce_prod(sizes[:depth]), tf.reduce_prod(sizes[depth:])
    slices = tf.reshape(updates, tf.stack([tf.size(flat, tf.int64), length]))
    factors = tf.math.unsorted_segment_prod(slices, tf.reshape(flat, [-1]), rows)
    return x * tf.reshape(factors, sizes)


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
        if indices.shape.rank == 1:  # one tuple, of which TensorFlow wants a list
            indices, updates = indices[tf.newaxis], updates[tf.newaxis]
        return write(x, tf.where(indices < 0, indices + tf.shape(x, indices.dtype)[:depth], indices), updates)

    return run


def TensorScatter(site: Site) -> Callable[..., Any]:
    """A cache with new elements written along an axis, from each sample's own place on; around the end if asked for."""
    rank, circular = rank_of(site), site.attribute("mode", "linear") == "circular"
    axis = site.attribute("axis", -2) % rank
    order = [0, axis, *(a for a in range(1, rank) if a != axis)]
    back = [order.index(a) for a in range(rank)]
    if not computes(_PROBES["none"], tf_dtype(dtype_of(site)), 1):
        raise NotNative(f"TensorFlow does not scatter {dtype_of(site)}")

    def run(past: Any, update: Any, starts: Any = None) -> Any:
        cache, new = tf.transpose(past, order), tf.transpose(update, order)
        batch, length = tf.shape(new)[0], tf.shape(new)[1]
        first = tf.zeros([batch], tf.int32) if starts is None else tf.cast(starts, tf.int32)
        place = tf.reshape(first, [-1, 1]) + tf.range(length)
        place = tf.math.floormod(place, tf.shape(cache)[1]) if circular else place
        sample = tf.broadcast_to(tf.range(batch)[:, None], tf.shape(place))
        return tf.transpose(tf.tensor_scatter_nd_update(cache, tf.stack([sample, place], -1), new), back)

    return run
