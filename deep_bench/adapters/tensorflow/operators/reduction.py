"""Reductions along axes, and what orders or accumulates along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, rank_of
from deep_bench.adapters.tensorflow.graph import with_gradient
from deep_bench.adapters.tensorflow.layout import is_last, on_values, wrapped
from deep_bench.adapters.tensorflow.operators._site import HALF, computes, in_float, maybe_rank, normal_axes, root, tf_dtype

__all__ = [  # noqa: RUF022 (grouped by kind)
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin", "CumSum", "CumProd", "TopK",
]  # fmt: skip

Reduce = Callable[..., Any]


def _reducer(function: Reduce, prepare: Callable[[Any], Any] | None = None) -> Callable[[Site], Callable[..., Any]]:
    def build(site: Site) -> Callable[..., Any]:
        dtype = dtype_of(site)
        full = function if prepare is None else (lambda x, axes, keep: function(prepare(x), axes, keep))
        return _reduction(site, in_float(_with_kernel(full, dtype), dtype))

    return build


def _with_kernel(function: Reduce, dtype: np.dtype) -> Reduce:
    """The reduction, in int64 for integers that TensorFlow has no kernel for: they wrap around when they are cast back."""
    if computes(lambda x: function(x, [0], True), tf_dtype(dtype), 1) or dtype in HALF:
        return function
    if dtype.kind not in "iu":
        raise NotNative(f"TensorFlow has no such reduction of {dtype}")
    return lambda x, axes, keep: tf.cast(function(tf.cast(x, tf.int64), axes, keep), x.dtype)


def _reduction(site: Site, function: Reduce) -> Callable[..., Any]:
    keep = bool(site.attribute("keepdims", 1))
    constant = site.constant(1)
    if site.has(1) and constant is None:
        return lambda x, axes: function(x, _all_if_empty(axes, x, site), keep)
    empty = constant is None or constant.size == 0
    if empty and site.attribute("noop_with_empty_axes", 0):
        return lambda x, *_: function(x, [], keep)
    rank = maybe_rank(site)
    if rank is None:
        return lambda x, *_: function(x, tf.range(tf.rank(x)) if empty else constant.tolist(), keep)  # type: ignore[union-attr]
    axes = list(range(rank)) if empty else normal_axes(constant.tolist(), rank)  # type: ignore[union-attr]
    return _along(axes, rank, function, keep)


def _all_if_empty(axes: Any, x: Any, site: Site) -> Any:
    if site.attribute("noop_with_empty_axes", 0):
        return tf.cast(axes, tf.int32)
    return tf.cond(tf.size(axes) > 0, lambda: tf.cast(axes, tf.int32), lambda: tf.range(tf.rank(x)))


def _along(axes: list[int], rank: int, function: Reduce, keep: bool) -> Callable[..., Any]:
    """The reduction in either layout; without the channels, what is left lies as ONNX wants it."""
    still_last = keep or (1 not in axes and rank - len(axes) > 2)

    @on_values
    def run(x: Any, *_: Any) -> Any:
        if not is_last(x, rank) or (0 in axes and not keep):
            return wrapped(function(x.first, axes, keep), last=False)
        moved = [{0: 0, 1: rank - 1}.get(a, a - 1) for a in axes]
        return wrapped(function(x.tensor, moved, keep), last=still_last)

    return run


def _any_max(x: Any, axes: Any, keep: bool) -> Any:
    return tf.reduce_any(x, axes, keep) if x.dtype == tf.bool else tf.reduce_max(x, axes, keep)


def _all_min(x: Any, axes: Any, keep: bool) -> Any:
    return tf.reduce_all(x, axes, keep) if x.dtype == tf.bool else tf.reduce_min(x, axes, keep)


def _sqrt(x: Any) -> Any:
    return root(x) if x.dtype.is_floating else tf.cast(tf.sqrt(tf.cast(x, tf.float64)), x.dtype)


ReduceSum = _reducer(tf.reduce_sum)
ReduceMean = _reducer(tf.reduce_mean)
ReduceMax = _reducer(_any_max)
ReduceMin = _reducer(_all_min)
ReduceProd = _reducer(tf.reduce_prod)
ReduceSumSquare = _reducer(tf.reduce_sum, tf.square)
ReduceL1 = _reducer(tf.reduce_sum, tf.abs)
ReduceL2 = _reducer(lambda x, axes, keep: _sqrt(tf.reduce_sum(tf.square(x), axes, keep)))
ReduceLogSum = _reducer(lambda x, axes, keep: tf.math.log(tf.reduce_sum(x, axes, keep)))
ReduceLogSumExp = _reducer(tf.reduce_logsumexp)


def ArgMax(site: Site) -> Callable[..., Any]:
    """The index of the first (or last) maximum along an axis."""
    return _argument(site, tf.argmax)


def ArgMin(site: Site) -> Callable[..., Any]:
    """The index of the first (or last) minimum along an axis."""
    return _argument(site, tf.argmin)


def _argument(site: Site, function: Callable[..., Any]) -> Callable[..., Any]:
    axis, keep = site.attribute("axis", 0), site.attribute("keepdims", 1)
    backwards = site.attribute("select_last_index", 0)
    narrow = tf_dtype(dtype_of(site))
    wide = narrow if computes(function, narrow, 1) else tf.int32
    rank = rank_of(site)

    def run(x: Any) -> Any:
        x = tf.cast(x, wide)
        if backwards:
            index = tf.shape(x, tf.int64)[axis] - 1 - function(tf.reverse(x, [axis % rank]), axis, output_type=tf.int64)
        else:
            index = function(x, axis, output_type=tf.int64)
        return tf.expand_dims(index, axis) if keep else index

    return run


def _cumulative(function: Callable[..., Any]) -> Callable[[Site], Callable[..., Any]]:
    def build(site: Site) -> Callable[..., Any]:
        exclusive, reverse = bool(site.attribute("exclusive", 0)), bool(site.attribute("reverse", 0))
        dtype_of(site)
        constant = site.constant(1)

        def run(x: Any, axis: Any) -> Any:
            axis = int(constant.reshape(())) if constant is not None else tf.reshape(axis, [])
            return function(x, axis=axis, exclusive=exclusive, reverse=reverse)

        return run

    return build


def _cumprod(x: Any, *, axis: Any, exclusive: bool, reverse: bool) -> Any:
    """TensorFlow's gradient of it divides by ``x``: wrong where that is 0, so that zeros get one of their own.

    Results from the first 0 on are 0. What they are without it is its own gradient; elements behind it have none.
    """

    def gradient(dy: Any, y: Any, x: Any) -> Any:
        zero = tf.equal(x, 0)
        count = tf.cumsum(tf.cast(zero, tf.int32), axis, reverse=reverse)
        first = tf.cast(zero & tf.equal(count, 1), x.dtype)
        before = tf.cumsum(dy * y, axis, exclusive=exclusive, reverse=not reverse) / (x + tf.cast(zero, x.dtype))
        without = tf.math.cumprod(x + first, axis, exclusive=exclusive, reverse=reverse)
        at_first = tf.cumsum(dy * without, axis, exclusive=exclusive, reverse=not reverse)
        return tf.where(tf.equal(count, 0), before, first * at_first)

    return with_gradient(lambda t: tf.math.cumprod(t, axis, exclusive=exclusive, reverse=reverse), gradient)(x)


CumSum = _cumulative(tf.cumsum)
CumProd = _cumulative(_cumprod)


def TopK(site: Site) -> Callable[..., Any]:
    """The ``k`` largest or smallest along an axis with their indices; the lower index first among equals."""
    axis, largest, dtype = site.attribute("axis", -1), site.attribute("largest", 1), dtype_of(site)
    rank = rank_of(site)
    axis = axis % rank
    constant = site.constant(1)
    if dtype.kind not in "fiuV":
        raise NotNative(f"TensorFlow has no order of {dtype}")
    mirror = tf.negative if dtype.kind in "fV" else tf.bitwise.invert
    perm = [*(a for a in range(rank) if a != axis), axis]
    back = [int(p) for p in np.argsort(perm)]

    def run(x: Any, k: Any) -> tuple[Any, Any]:
        k = int(constant.reshape(())) if constant is not None else tf.cast(tf.reshape(k, []), tf.int32)
        moved = x if axis == rank - 1 else tf.transpose(x, perm)
        values, indices = tf.math.top_k(moved if largest else mirror(moved), k)
        if not largest:
            values = mirror(values)
        if axis != rank - 1:
            values, indices = tf.transpose(values, back), tf.transpose(indices, back)
        return values, tf.cast(indices, tf.int64)

    return run
