"""Quantisation to and from 8 and 16-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.layout import on_values, wrapped
from deep_bench.adapters.tensorflow.operators._common import in_dtype, out_dtype, rank_of, tf_dtype
from deep_bench.adapters.tensorflow.operators.convolution import ConvInteger
from deep_bench.adapters.tensorflow.operators.linear import MatMulInteger

__all__ = ["DequantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear"]

_INTEGERS = tuple(np.dtype(n) for n in ("int8", "uint8", "int16", "uint16"))


def _along(site: Site) -> Callable[[Any, Any], Any]:
    """A scale or zero point aligned with the axis it belongs to, repeated within blocks."""
    rank, scale = rank_of(site), site.input(1)
    block = site.attribute("block_size", 0)
    if scale is None or scale.shape is None:
        raise NotNative("the rank of the scale is not known when the network is prepared")
    axis = site.attribute("axis", 1)

    def align(t: Any, x: Any) -> Any:
        if len(scale.shape or ()) == 0 or t.shape.num_elements() == 1:
            return tf.reshape(t, [])
        at = axis % rank
        if block:
            spread = tf.repeat(t, block, axis=at)
            return tf.gather(spread, tf.range(tf.shape(x)[at]), axis=at)
        return tf.reshape(t, [-1 if a == at else 1 for a in range(rank)])

    return align


def QuantizeLinear(site: Site) -> Callable[..., Any]:
    """``saturate(round(x / scale) + zero)``."""
    target = out_dtype(site)
    if target not in _INTEGERS:
        raise NotNative(f"TensorFlow does not quantise to {target}")
    if site.attribute("precision", 0) not in (0, 1):
        raise NotNative("the division is asked for in another precision than float32")
    align, native, limits = _along(site), tf_dtype(target), np.iinfo(target)
    inner = tf.float64 if in_dtype(site) == np.float64 else tf.float32

    def run(x: Any, scale: Any, zero: Any = None) -> Any:
        steps = tf.round(tf.cast(x, inner) / tf.cast(align(scale, x), inner))
        if zero is not None:
            steps = steps + tf.cast(align(zero, x), inner)
        return tf.cast(tf.clip_by_value(steps, float(limits.min), float(limits.max)), native)

    return run


def DequantizeLinear(site: Site) -> Callable[..., Any]:
    """``(x - zero) * scale``."""
    source = in_dtype(site)
    if source not in (*_INTEGERS, np.dtype("int32")):
        raise NotNative(f"TensorFlow does not dequantise {source}")
    align, native = _along(site), tf_dtype(out_dtype(site))

    def run(x: Any, scale: Any, zero: Any = None) -> Any:
        whole = tf.cast(x, tf.int32)
        if zero is not None:
            whole = whole - tf.cast(align(zero, x), tf.int32)
        return tf.cast(tf.cast(whole, tf.float32) * tf.cast(align(scale, x), tf.float32), native)

    return run


def _requantised(total: Any, scale: Any, zero: Any, native: tf.DType) -> Any:
    """An exact sum in integers as quantised output."""
    limits = np.iinfo(native.as_numpy_dtype)
    exact = tf.cast(total, tf.float64) * tf.cast(scale, tf.float64)  # float32 cannot hold all sums
    steps = tf.round(exact) + tf.cast(zero, tf.float64)
    return tf.cast(tf.clip_by_value(steps, float(limits.min), float(limits.max)), native)


def QLinearMatMul(site: Site) -> Callable[..., Any]:
    """The product of quantised matrices, quantised: the sums in int32, then one multiplication by the scales."""
    native = tf_dtype(out_dtype(site))
    if out_dtype(site) not in _INTEGERS or any(in_dtype(site, i) != np.float32 for i in (1, 4, 6)):
        raise NotNative("TensorFlow multiplies 8-bit integers with float32 scales only")
    product = MatMulInteger(site)

    def run(a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any, zy: Any) -> Any:
        rows = sa[..., None] if sa.shape.rank == 1 and sa.shape[0] != 1 else sa
        return _requantised(product(a, b, za, zb), rows * sb / sy, zy, native)

    return run


def QLinearConv(site: Site) -> Callable[..., Any]:
    """Convolution of quantised tensors, quantised: exact sums, then one multiplication by the scales."""
    native = tf_dtype(out_dtype(site))
    order = (0, 3, 2, 5, 8)
    inputs = tuple(site.input(i) for i in order)
    convolve = ConvInteger(replace(site, inputs=inputs[:4]))
    rank = rank_of(site)

    @on_values
    def run(*values: Any) -> Any:
        x, sx, zx, w, sw, zw, sy, zy, *bias = values
        (total,) = convolve(x, w, zx, zw)
        sums = total.last()
        if bias:
            sums = sums + bias[0].first
        scale = sx.first * tf.reshape(sw.first, [-1]) / sy.first
        return wrapped(_requantised(sums, scale, zy.first, native), last=rank > 2)

    return run
