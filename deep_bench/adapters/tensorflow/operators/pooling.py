"""Pools, channels-last."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dims_of, dtype_of, rank_of
from deep_bench.adapters.tensorflow.graph import with_gradient
from deep_bench.adapters.tensorflow.layout import channels_last, either
from deep_bench.adapters.tensorflow.operators._site import (
    SpatialWindow,
    computes,
    in_float,
    pad,
    pad_pairs,
    root,
    spatial_rank,
    tf_dtype,
    window,
)
from deep_bench.tensor import is_float

__all__ = ["AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool", "MaxUnpool"]


def _global(function: Callable[..., Any]) -> Callable[[Site], Callable[..., Any]]:
    def build(site: Site) -> Callable[..., Any]:
        rank = rank_of(site)
        run = in_float(function, dtype_of(site))
        return either(lambda at: lambda x: run(x, sorted(at(a) for a in range(2, rank))))

    return build


GlobalAveragePool = _global(lambda x, axes: tf.reduce_mean(x, axes, keepdims=True))
GlobalMaxPool = _global(lambda x, axes: tf.reduce_max(x, axes, keepdims=True))


def GlobalLpPool(site: Site) -> Callable[..., Any]:
    """The p-norm over all spatial axes."""
    p = site.attribute("p", 2)
    return _global(lambda x, axes: _root(tf.reduce_sum(_power(x, p), axes, keepdims=True), p))(site)


def _power(x: Any, p: int) -> Any:
    return tf.abs(x) if p == 1 else tf.square(x) if p == 2 else tf.pow(tf.abs(x), tf.cast(p, x.dtype))


def _root(x: Any, p: int) -> Any:
    """The p-th root, whose gradient at 0 counts as 0 (that of a norm)."""
    if p == 1:
        return x
    if p == 2:
        return root(x)
    power = tf.constant(1 / p, x.dtype)
    return with_gradient(lambda t: tf.pow(t, power), lambda dy, y, t: dy * power * tf.math.divide_no_nan(y, t))(x)


def _setup(site: Site) -> tuple[SpatialWindow, int]:
    n = spatial_rank(rank_of(site), "pool")
    tf_dtype(dtype_of(site))
    return window(site, tuple(site.attributes["kernel_shape"]), dims_of(site)[2:]), n


def _extended(site: Site, w: SpatialWindow, x: Any) -> tuple[list[Any], list[Any]]:
    """Pads, and what ``ceil_mode`` adds at the end so that the last window fits (or takes away, as none is left there)."""
    pairs = pad_pairs(w, x)
    if not site.attribute("ceil_mode", 0) or site.attribute("auto_pad", "NOTSET") != "NOTSET":
        return pairs, [0] * len(pairs)
    extra = []
    for i, (begin, end) in enumerate(pairs):
        size = tf.shape(x)[i + 1] if x.shape[i + 1] is None else x.shape[i + 1]
        span = size + begin + end - w.reach[i]
        steps = -(-span // w.strides[i])
        # A window that would start in the padding at the end is dropped.
        late = steps * w.strides[i] >= size + begin
        steps = steps - int(late) if isinstance(late, bool) else steps - tf.cast(late, tf.int32)
        remainder = steps * w.strides[i] - span
        extra.append(remainder)  # negative where what a dropped window would have reached is cut off
    return pairs, extra


def windows(x: Any, w: SpatialWindow) -> list[Any]:
    """For each element of the kernel, in row-major order, what lies under it in every window of a padded tensor."""
    outs = [(_dim(x, i + 1) - r) // s + 1 for i, (r, s) in enumerate(zip(w.reach, w.strides, strict=True))]
    parts = []
    for offset in product(*(range(k) for k in w.kernel)):
        starts = [o * d for o, d in zip(offset, w.dilations, strict=True)]
        cut = [slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(starts, outs, w.strides, strict=True)]
        parts.append(x[(slice(None), *cut, slice(None))])
    return parts


def _dim(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def MaxPool(site: Site) -> Callable[..., Any]:
    """The maximum in each window; pads never win."""
    w, n = _setup(site)
    dtype = dtype_of(site)
    lowest = -np.inf if is_float(dtype) else np.iinfo(dtype).min
    native = max(w.dilations) == 1 and computes(_max_probe_3d if n == 3 else _max_probe_2d, tf_dtype(dtype), 1)

    def padded(x: Any) -> Any:
        pairs, extra = _extended(site, w, x)
        return pad(x, [(a, b + m) for (a, b), m in zip(pairs, extra, strict=True)], lowest)

    def run(x: Any) -> Any:
        x = padded(x)  # TensorFlow's pool with pads of its own takes twice as long
        return _max_native(x, w, n) if native else _max_by_axis(x, w)

    if site.wants(1):
        return _with_indices(site, w, n, padded)
    return channels_last(run)


def _max_by_axis(x: Any, w: SpatialWindow) -> Any:
    """The maximum of a padded tensor's windows, one axis after the other: far fewer parts than elements in the kernel."""
    for i in range(len(w.kernel)):
        kernel, strides, dilations = (_along_axis(values, i) for values in (w.kernel, w.strides, w.dilations))
        x = reduce(tf.maximum, windows(x, SpatialWindow(kernel, strides, dilations, None, None)))
    return x


def _along_axis(values: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(v if i == axis else 1 for i, v in enumerate(values))


def _max_probe_2d(x: Any) -> Any:
    return tf.nn.max_pool2d(tf.reshape(x, [1, 1, 1, 1]), 1, 1, "VALID")


def _max_probe_3d(x: Any) -> Any:
    return tf.nn.max_pool3d(tf.reshape(x, [1, 1, 1, 1, 1]), 1, 1, "VALID")


def _max_native(x: Any, w: SpatialWindow, n: int) -> Any:
    if n == 3:
        return tf.nn.max_pool3d(x, w.kernel, w.strides, "VALID")
    if n == 2:
        return tf.nn.max_pool2d(x, w.kernel, w.strides, "VALID")
    y = tf.nn.max_pool2d(tf.expand_dims(x, 1), (1, *w.kernel), (1, *w.strides), "VALID")
    return tf.squeeze(y, [1])


def _with_indices(site: Site, w: SpatialWindow, n: int, padded: Callable[[Any], Any]) -> Callable[..., Any]:
    column_major = site.attribute("storage_order", 0)

    def run(x: Any) -> tuple[Any, Any]:
        parts = tf.stack(windows(padded(x), w))
        best = tf.argmax(parts, 0, output_type=tf.int64)
        sizes = [tf.cast(_dim(x, i + 1), tf.int64) for i in range(n)]
        begins = [tf.cast(b, tf.int64) for b, _ in pad_pairs(w, x)]
        offsets = np.array(list(product(*(range(k) for k in w.kernel))), np.int64) * np.array(w.dilations, np.int64)
        index: Any = tf.zeros([], tf.int64)
        for i in range(n) if not column_major else reversed(range(n)):
            steps = tf.reshape(
                tf.range(tf.shape(best, tf.int64)[i + 1]) * w.strides[i], [-1 if j == i + 1 else 1 for j in range(n + 2)]
            )
            index = index * sizes[i] + tf.gather(tf.constant(offsets[:, i]), best) + steps - begins[i]
        shape = tf.shape(x, tf.int64)
        batch = tf.reshape(tf.range(shape[0]), [-1] + [1] * (n + 1))
        plane = batch * shape[-1] + tf.range(shape[-1])
        return tf.reduce_max(parts, 0), plane * tf.reduce_prod(tf.stack(sizes)) + index

    return channels_last(run)


def AveragePool(site: Site) -> Callable[..., Any]:
    """The mean of each window; pads count only if asked for, and what ``ceil_mode`` adds never does."""
    w, n = _setup(site)
    dtype = dtype_of(site)
    include = bool(site.attribute("count_include_pad", 0))
    area = int(np.prod(w.kernel))
    native = max(w.dilations) == 1 and computes(_mean_probe_3d if n == 3 else _mean_probe_2d, tf_dtype(dtype), 1)

    def run(x: Any) -> Any:
        pairs, extra = _extended(site, w, x)
        plain = all(isinstance(p, int) for pair in pairs for p in pair) and extra == [0] * n and (include or not w.padded)
        y = pad(x, [(a, b + m) for (a, b), m in zip(pairs, extra, strict=True)])
        if plain and native:
            if n == 3:
                return tf.nn.avg_pool3d(y, w.kernel, w.strides, "VALID")
            if n == 2:
                return tf.nn.avg_pool2d(y, w.kernel, w.strides, "VALID")
            return tf.squeeze(tf.nn.avg_pool2d(tf.expand_dims(y, 1), (1, *w.kernel), (1, *w.strides), "VALID"), [1])
        total = reduce(tf.add, windows(y, w))
        if plain:
            return total / tf.cast(area, x.dtype)
        ones = tf.ones(tf.concat([[1], tf.shape(x)[1:-1], [1]], 0), x.dtype)
        counted = pad(ones, pairs, 1) if include else pad(ones, pairs)
        return total / reduce(tf.add, windows(pad(counted, [(0, m) for m in extra]), w))

    return channels_last(in_float(run, dtype))


def _mean_probe_2d(x: Any) -> Any:
    return tf.nn.avg_pool2d(tf.reshape(x, [1, 1, 1, 1]), 1, 1, "VALID")


def _mean_probe_3d(x: Any) -> Any:
    return tf.nn.avg_pool3d(tf.reshape(x, [1, 1, 1, 1, 1]), 1, 1, "VALID")


def LpPool(site: Site) -> Callable[..., Any]:
    """The p-norm of each window."""
    w, _ = _setup(site)
    p = site.attribute("p", 2)

    def run(x: Any) -> Any:
        pairs, extra = _extended(site, w, x)
        y = pad(_power(x, p), [(a, b + m) for (a, b), m in zip(pairs, extra, strict=True)])
        return _root(reduce(tf.add, windows(y, w)), p)

    return channels_last(in_float(run, dtype_of(site)))


def MaxUnpool(site: Site) -> Callable[..., Any]:
    """The maxima put back to where `MaxPool` found them, zeros elsewhere."""
    n = spatial_rank(rank_of(site), "pool")
    dims, kernel = dims_of(site), site.attributes["kernel_shape"]
    strides = site.attribute("strides") or (1,) * n
    pads = site.attribute("pads") or (0,) * (2 * n)
    if any(d is None for d in dims):
        raise NotNative("the output's size is not known when the network is prepared")
    sizes = [int(d or 0) for d in dims]
    inferred = [
        (s - 1) * t - pads[i] - pads[n + i] + k for i, (s, t, k) in enumerate(zip(sizes[2:], strides, kernel, strict=True))
    ]
    natural = [*sizes[:2], *inferred]

    def run(x: Any, indices: Any, shape: Any = None) -> Any:
        flat = tf.scatter_nd(
            tf.reshape(indices, [-1, 1]), tf.reshape(x, [-1]), tf.constant([int(np.prod(natural))], tf.int64)
        )
        y = tf.reshape(flat, natural)
        if shape is None:
            return y
        extra = tf.cast(shape, tf.int32) - tf.constant(natural)
        return tf.pad(y, tf.stack([tf.zeros_like(extra), extra], 1))

    return run
