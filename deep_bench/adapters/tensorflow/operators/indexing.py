"""What reads or writes elements by index or condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, output_dtype, rank_of
from deep_bench.adapters.tensorflow.operators._site import computes, tf_dtype
from deep_bench.tensor import is_float

__all__ = [
    "Compress",
    "Gather",
    "GatherElements",
    "GatherND",
    "NonZero",
    "OneHot",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "TensorScatter",
    "Trilu",
    "Unique",
]


def wrapped_indices(indices: Any, size: Any) -> Any:
    """Indices counted from the front."""
    return tf.where(indices < 0, indices + tf.cast(size, indices.dtype), indices)


def _dim(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def _gathers(site: Site) -> None:
    if not computes(_gather_probe, tf_dtype(dtype_of(site)), 1):
        raise NotNative(f"TensorFlow does not gather {dtype_of(site)}")


def _gather_probe(x: Any) -> Any:
    return tf.gather(x, [0])


def Gather(site: Site) -> Callable[..., Any]:
    """Slices along an axis by index."""
    axis, constant = site.attribute("axis", 0), site.constant(1)
    _gathers(site)
    if constant is not None and (constant.size == 0 or constant.min() >= 0):
        if constant.ndim == 0:
            return lambda x, _: tf.gather(x, int(constant), axis=axis)
        return lambda x, _: tf.gather(x, constant, axis=axis)
    return lambda x, indices: tf.gather(x, wrapped_indices(indices, _dim(x, axis)), axis=axis)


def flat_positions(indices: Any, shape: Any, axis: int) -> Any:
    """For each element of ``indices``, where it points to in the flattened tensor of ``shape``."""
    rank = indices.shape.rank
    dims, strides = tf.shape(indices, tf.int64), tf.math.cumprod(shape, exclusive=True, reverse=True)
    place: Any = tf.cast(indices, tf.int64) * strides[axis]
    for a in range(rank):
        if a != axis:
            place = place + tf.reshape(tf.range(dims[a]) * strides[a], [-1 if i == a else 1 for i in range(rank)])
    return place


def GatherElements(site: Site) -> Callable[..., Any]:
    """Single elements along an axis by index."""
    rank = rank_of(site)
    axis = site.attribute("axis", 0) % max(1, rank)
    _gathers(site)

    def run(x: Any, indices: Any) -> Any:
        place = flat_positions(wrapped_indices(indices, _dim(x, axis)), tf.shape(x, tf.int64), axis)
        return tf.gather(tf.reshape(x, [-1]), place)

    return run


def GatherND(site: Site) -> Callable[..., Any]:
    """Slices by index tuples."""
    batch = site.attribute("batch_dims", 0)
    _gathers(site)

    def run(x: Any, indices: Any) -> Any:
        depth = indices.shape[-1]
        if depth is None:
            raise NotNative("the length of the index tuples is not known when the network is prepared")
        sizes = tf.shape(x, indices.dtype)[batch : batch + depth]
        return tf.gather_nd(x, tf.where(indices < 0, indices + sizes, indices), batch_dims=batch)

    return run


def NonZero(site: Site) -> Callable[..., Any]:
    """The indices of all elements that are not zero, one column each."""
    dtype_of(site)
    return lambda x: tf.transpose(tf.where(x if x.dtype == tf.bool else tf.not_equal(x, tf.zeros([], x.dtype))))


def OneHot(site: Site) -> Callable[..., Any]:
    """One value where the index says, another one elsewhere."""
    axis, native = site.attribute("axis", -1), tf_dtype(output_dtype(site))
    axis = axis if axis >= -1 else axis + rank_of(site) + 1
    constant = site.constant(1)

    def run(indices: Any, depth: Any, values: Any) -> Any:
        depth = int(constant.reshape(())) if constant is not None else tf.cast(tf.reshape(depth, []), tf.int32)
        whole = tf.cast(indices, tf.int64)
        places = wrapped_indices(whole, depth)
        hot = tf.one_hot(places, depth, True, False, axis=axis, dtype=tf.bool)
        return tf.where(hot, tf.cast(values[1], native), tf.cast(values[0], native))

    return run


def Compress(site: Site) -> Callable[..., Any]:
    """Slices along an axis (or elements) where a condition holds."""
    axis = site.attribute("axis")
    rank = rank_of(site)

    def run(x: Any, condition: Any) -> Any:
        places = tf.where(condition)[:, 0]
        return tf.gather(tf.reshape(x, [-1]), places) if axis is None else tf.gather(x, places, axis=axis % rank)

    return run


def ReverseSequence(site: Site) -> Callable[..., Any]:
    """Each sequence of a batch reversed up to its length."""
    batch, time = site.attribute("batch_axis", 1), site.attribute("time_axis", 0)
    return lambda x, lengths: tf.reverse_sequence(x, lengths, seq_axis=time, batch_axis=batch)


def Trilu(site: Site) -> Callable[..., Any]:
    """The upper or lower triangle of the innermost matrices."""
    upper = site.attribute("upper", 1)

    def run(x: Any, k: Any = None) -> Any:
        shift = tf.constant(0, tf.int64) if k is None else tf.reshape(k, [])
        rows, columns = (tf.range(tf.shape(x, tf.int64)[a]) for a in (-2, -1))
        distance = columns[None, :] - rows[:, None]
        return tf.where(distance >= shift if upper else distance <= shift, x, tf.zeros([], x.dtype))

    return run


def Unique(site: Site) -> Callable[..., Any]:
    """The different elements (or slices along an axis), where each is first, which one each is, and how many there are."""
    ordered, axis, rank = site.attribute("sorted", 1), site.attribute("axis"), rank_of(site)
    along = 0 if axis is None or rank == 1 else axis % rank
    dtype = dtype_of(site)
    if not computes(_gathered_probe, tf_dtype(dtype), 1) or not computes(tf.unique, _key_type(dtype), 1):
        raise NotNative(f"TensorFlow has no unique of {dtype}")

    def run(x: Any) -> Any:
        x = tf.reshape(x, [-1]) if axis is None else x
        keys = _keys(x)
        if x.shape.rank == 1:
            values, inverse, counts = tf.unique_with_counts(keys, tf.int64)
        else:
            order = [along, *(a for a in range(rank) if a != along)]
            rows = tf.transpose(_ranks(keys, x), order)
            rows = tf.reshape(rows, [tf.shape(rows)[0], -1])
            values, inverse, counts = tf.raw_ops.UniqueWithCountsV2(x=rows, axis=tf.constant([0]), out_idx=tf.int64)
        number = tf.shape(values, tf.int64)[0]
        firsts = tf.math.unsorted_segment_min(tf.range(tf.size(inverse, tf.int64)), inverse, number)
        if ordered:
            order = _ascending(tf.gather(x, firsts)) if x.shape.rank == 1 else _lexicographic(values)
            firsts, counts = (tf.gather(t, order) for t in (firsts, counts))
            inverse = tf.gather(tf.cast(tf.argsort(order), tf.int64), inverse)
        results = (tf.gather(x, firsts, axis=along), firsts, inverse, counts)[: len(site.outputs)]
        return results if len(results) > 1 else results[0]

    return run


def _gathered_probe(x: Any) -> Any:
    return tf.argsort(tf.gather(x, [0]))


def _key_type(dtype: np.dtype) -> tf.DType:
    return tf_dtype(np.dtype(f"int{8 * dtype.itemsize}")) if is_float(dtype) else tf_dtype(dtype)


def _keys(x: Any) -> Any:
    """What equal elements have in common: of floats the bits, where zeros are one and all that are no numbers are one."""
    if not x.dtype.is_floating:
        return x
    canonical = tf.where(tf.math.is_nan(x), tf.constant(np.nan, x.dtype), tf.where(x == 0, tf.zeros([], x.dtype), x))
    return tf.bitcast(canonical, f"int{8 * x.dtype.size}")


def _ranks(keys: Any, x: Any) -> Any:
    """For each element, its place among the different ones."""
    flat = tf.reshape(x, [-1])
    values, inverse = tf.unique(tf.reshape(keys, [-1]), tf.int64)
    firsts = tf.math.unsorted_segment_min(tf.range(tf.size(flat)), inverse, tf.size(values, tf.int64))
    places = tf.argsort(_ascending(tf.gather(flat, firsts)))
    return tf.reshape(tf.gather(places, inverse), tf.shape(x))


def _ascending(x: Any) -> Any:
    """The order of a vector's elements, with what is no number at the end."""
    if not x.dtype.is_floating:
        return tf.argsort(x, stable=True)
    missing = tf.math.is_nan(x)
    order = tf.argsort(tf.where(missing, tf.constant(np.inf, x.dtype), x), stable=True)
    return tf.gather(order, tf.argsort(tf.cast(tf.gather(missing, order), tf.int32), stable=True))


def _lexicographic(rows: Any) -> Any:
    """The order of rows by their first elements, then by their second ones, and so on."""

    def step(column: Any, order: Any) -> Any:
        return column - 1, tf.gather(order, tf.argsort(tf.gather(rows[:, column], order), stable=True))

    start = (tf.shape(rows)[1] - 1, tf.range(tf.shape(rows)[0]))
    return tf.while_loop(lambda column, _: column >= 0, step, start)[1]


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
    if computes(_SCATTER_PROBES[reduction], tf_dtype(dtype), 1):
        return write
    if dtype.kind in "bui" and dtype.itemsize < 8:
        wide = tf.int32 if dtype.itemsize < 4 else tf.int64
        return lambda x, i, u: tf.cast(write(tf.cast(x, wide), i, tf.cast(u, wide)), x.dtype)
    raise NotNative(f"TensorFlow does not scatter {dtype}")


def _scatter_probe(write: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: write(x, [[0]], x)


_SCATTER_PROBES = {reduction: _scatter_probe(write) for reduction, write in _WRITES.items()}


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
    if not computes(_SCATTER_PROBES["none"], tf_dtype(dtype_of(site)), 1):
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
