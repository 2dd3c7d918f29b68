"""Convolution's columns: Col2Im, which adds them up in an image, and DeformConv, whose windows are bent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.known import dims_of, dtype_of, rank_of
from deep_bench.adapters.tensorflow.differentiation import differentiating
from deep_bench.adapters.tensorflow.operators._common import HALF, in_float, tf_dtype

__all__ = ["Col2Im", "DeformConv"]


def _numbers(site: Site, index: int, value: Any, count: int) -> list[Any]:
    """Integers that are given as a tensor: plain ones if they are known."""
    constant = site.constant(index)
    return [int(v) for v in constant] if constant is not None else tf.unstack(tf.cast(value, tf.int32), count)


def _steps(site: Site, n: int) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Strides, dilations and pads."""
    strides, dilations = site.attribute("strides") or (1,) * n, site.attribute("dilations") or (1,) * n
    return strides, dilations, site.attribute("pads") or (0,) * (2 * n)


def Col2Im(site: Site) -> Callable[..., Any]:
    """Blocks put back where they lie in an image, added where they overlap."""
    n = dims_of(site, 1)[0]
    if n is None:
        raise NotNative("the number of axes is not known when the network is prepared")
    strides, dilations, pads = _steps(site, n)
    tf_dtype(dtype_of(site))

    def run(x: Any, image_shape: Any, block_shape: Any) -> Any:
        image, block = _numbers(site, 1, image_shape, n), _numbers(site, 2, block_shape, n)
        padded = [image[i] + pads[i] + pads[n + i] for i in range(n)]
        place: Any = tf.zeros([1] * (2 * n), tf.int32)
        for i in range(n):
            count = (padded[i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
            inside = tf.reshape(tf.range(block[i]) * dilations[i], [-1 if a == i else 1 for a in range(2 * n)])
            start = tf.reshape(tf.range(count) * strides[i], [-1 if a == n + i else 1 for a in range(2 * n)])
            place = place * padded[i] + inside + start
        positions = tf.reduce_prod(tf.stack(block))
        batch, channels = tf.shape(x)[0], tf.shape(x)[1] // positions
        columns = tf.transpose(tf.reshape(x, tf.stack([batch * channels, positions * tf.shape(x)[2]])))
        total = tf.math.unsorted_segment_sum(columns, tf.reshape(place, [-1]), tf.reduce_prod(tf.stack(padded)))
        y = tf.reshape(tf.transpose(total), tf.stack([batch, channels, *padded]))
        return y[(slice(None), slice(None), *(slice(pads[i], pads[i] + image[i]) for i in range(n)))]

    return in_float(run, dtype_of(site))


def DeformConv(site: Site) -> Callable[..., Any]:
    """A convolution whose windows' elements are each moved by an offset and weighed by a mask."""
    n, shape = rank_of(site) - 2, dims_of(site, 1)
    if None in shape:
        raise NotNative("the size of the filter is not known when the network is prepared")
    kernel = [int(d or 0) for d in shape[2:]]
    strides, dilations, pads = _steps(site, n)
    group, parts, positions = site.attribute("group", 1), site.attribute("offset_group", 1), int(np.prod(kernel))
    inside = np.stack([k.reshape(-1) for k in np.meshgrid(*map(np.arange, kernel), indexing="ij")], 1) * np.array(dilations)

    native = tf_dtype(dtype_of(site))
    inner = tf.float32 if dtype_of(site) in HALF else native

    def run(*tensors: Any) -> Any:
        return tf.cast(convolve(*(None if t is None else tf.cast(t, inner) for t in tensors)), native)

    def convolve(x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
        batch = tf.shape(x)[0]
        out = tf.unstack(tf.shape(offset)[2:], n)
        cells = tf.reduce_prod(tf.stack(out))
        moved = tf.reshape(offset, tf.stack([batch, parts, positions, n, *out]))
        places = []
        for i in range(n):
            start = tf.reshape(tf.range(out[i]) * strides[i] - pads[i], [-1 if a == i + 1 else 1 for a in range(n + 1)])
            grid = tf.cast(start + inside[:, i].reshape(-1, *[1] * n), x.dtype)
            places.append(tf.reshape(moved[:, :, :, i] + grid, tf.stack([batch, parts, positions * cells])))
        columns = _sampled(x, places, parts)
        if mask is not None:
            columns = columns * tf.reshape(mask, tf.stack([batch, parts, positions * cells, 1]))
        columns = tf.reshape(tf.transpose(columns, [0, 1, 3, 2]), tf.stack([batch, group, -1, cells]))
        filters = tf.reshape(w, [group, (shape[0] or 0) // group, -1])
        y = tf.reshape(tf.matmul(filters, columns), tf.stack([batch, shape[0] or 0, *out]))
        return y if bias is None else y + tf.reshape(bias, [-1] + [1] * n)

    return run


def _sampled(x: Any, places: Sequence[Any], parts: int) -> Any:
    """Elements between those of a tensor, interpolated along each axis, zero outside: one row of channels for each place."""
    n, sizes = len(places), tf.unstack(tf.shape(x)[2:], len(places))
    flat = tf.reshape(x, tf.stack([tf.shape(x)[0], parts, tf.shape(x)[1] // parts, tf.reduce_prod(tf.stack(sizes))]))
    rows = tf.transpose(flat, [0, 1, 3, 2])
    lows = [tf.floor(p) for p in places]
    total: Any = None
    for corner in product((0, 1), repeat=n):
        weight, index, valid = tf.ones([], x.dtype), tf.zeros([], tf.int32), tf.constant(True)
        for place, low, step, size in zip(places, lows, corner, sizes, strict=True):
            at = low + step
            if differentiating():  # of 1 - |place - at| TensorFlow takes no slope where a place is an element's own
                weight = weight * (place - low if step else 1 - (place - low))
            else:
                weight = weight * (1 - tf.abs(place - at))
            valid = valid & (at >= 0) & (at < tf.cast(size, at.dtype))
            near = tf.clip_by_value(at, tf.zeros([], at.dtype), tf.cast(size - 1, at.dtype))
            index = index * size + tf.clip_by_value(tf.cast(near, tf.int32), 0, size - 1)
        term = tf.where(valid, weight, tf.zeros([], x.dtype))[..., None] * tf.gather(rows, index, batch_dims=2)
        total = term if total is None else total + term
    return total
