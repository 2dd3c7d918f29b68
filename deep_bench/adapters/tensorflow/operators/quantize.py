"""Quantisation to and from integers of 4, 8 and 16 bits and floats of 8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, output_dtype, rank_of
from deep_bench.adapters.tensorflow.layout import on_values, wrapped
from deep_bench.adapters.tensorflow.operators._site import tf_dtype
from deep_bench.adapters.tensorflow.operators.cast import to_float8
from deep_bench.adapters.tensorflow.operators.convolution import ConvInteger
from deep_bench.adapters.tensorflow.operators.linear import MatMulInteger

__all__ = ["DequantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear"]

_INT4 = (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))
_FLOAT8 = (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2))
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
    """``saturate(round(x / scale) + zero)``, the quotient in the scale's precision or another one that is asked for."""
    target, code = output_dtype(site), site.attribute("precision", 0)
    if target not in (*_INTEGERS, *_INT4, *_FLOAT8):
        raise NotNative(f"TensorFlow does not quantise to {target}")
    work = tf_dtype(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)) if code else dtype_of(site, 1))
    align, saturate = _along(site), bool(site.attribute("saturate", 1))
    inner = tf.float64 if work == tf.float64 else tf.float32

    def run(x: Any, scale: Any, zero: Any = None) -> Any:
        quotient = tf.cast(tf.cast(x, work) / tf.cast(align(scale, x), work), inner)
        offset = None if zero is None else align(_number(zero, inner), x)
        if target in _FLOAT8:
            shifted = quotient if offset is None else quotient + offset
            return to_float8(shifted, target, saturate=saturate)
        steps = tf.round(quotient) if offset is None else tf.round(quotient) + offset
        limits = ml_dtypes.iinfo(target)
        whole = tf.clip_by_value(steps, float(limits.min), float(limits.max))
        return tf.cast(tf.cast(whole, tf.int32) if target in _INT4 else whole, tf_dtype(target))

    return run


def _number(x: Any, dtype: tf.DType) -> Any:
    """A quantised tensor as another type; TensorFlow converts 4-bit integers to other integers only."""
    return tf.cast(tf.cast(x, tf.int32) if np.dtype(x.dtype.as_numpy_dtype) in _INT4 else x, dtype)


def DequantizeLinear(site: Site) -> Callable[..., Any]:
    """``(x - zero) * scale``."""
    source = dtype_of(site)
    if source not in (*_INTEGERS, *_INT4, *_FLOAT8, np.dtype("int32")):
        raise NotNative(f"TensorFlow does not dequantise {source}")
    align, native = _along(site), tf_dtype(output_dtype(site))
    exact = tf.float32 if source in _FLOAT8 else tf.int32
    inner = tf.float64 if dtype_of(site, 1) == np.float64 else tf.float32

    def run(x: Any, scale: Any, zero: Any = None) -> Any:
        whole = tf.cast(x, exact)
        if zero is not None:
            whole = whole - align(tf.cast(zero, exact), x)
        return tf.cast(tf.cast(whole, inner) * tf.cast(align(scale, x), inner), native)

    return run


def _requantised(total: Any, scale: Any, zero: Any, native: tf.DType) -> Any:
    """An exact sum in integers as quantised output."""
    limits = np.iinfo(native.as_numpy_dtype)
    exact = tf.cast(total, tf.float64) * tf.cast(scale, tf.float64)  # float32 cannot hold all sums
    steps = tf.round(exact) + tf.cast(zero, tf.float64)
    return tf.cast(tf.clip_by_value(steps, float(limits.min), float(limits.max)), native)


def QLinearMatMul(site: Site) -> Callable[..., Any]:
    """The product of quantised matrices, quantised: the sums in int32, then one multiplication by the scales."""
    native = tf_dtype(output_dtype(site))
    if output_dtype(site) not in _INTEGERS:
        raise NotNative(f"TensorFlow does not quantise a product to {output_dtype(site)}")
    product = MatMulInteger(site)

    def rows(t: Any, x: Any) -> Any:
        return t[..., None] if t.shape.rank == 1 and t.shape[0] != 1 and x.shape.rank != 1 else t

    def run(a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any, zy: Any) -> Any:
        y = product(a, b, za, zb)
        by_row, by_column, divisor = (tf.cast(t, tf.float32) for t in (rows(sa, a), sb, rows(sy, y)))
        if b.shape.rank == 1 and by_row.shape.rank > 1:
            by_row = tf.squeeze(by_row, -1)  # a vector leaves the product without columns
        if a.shape.rank == 1 and by_column.shape.rank > 1:
            by_column = tf.squeeze(by_column, -2)  # … or without rows
        return _requantised(y, by_row * by_column / divisor, rows(zy, y), native)

    return run


def QLinearConv(site: Site) -> Callable[..., Any]:
    """Convolution of quantised tensors, quantised: exact sums, then one multiplication by the scales."""
    native = tf_dtype(output_dtype(site))
    order = (0, 3, 2, 5, 8)
    inputs = tuple(site.input(i) for i in order)
    convolve = ConvInteger(replace(site, inputs=inputs[:4]))
    rank = rank_of(site)

    @on_values
    def run(*values: Any) -> Any:
        x, sx, zx, w, sw, zw, sy, zy, *bias = values
        (total,) = convolve(x, w, zx, zw)
        sums = total.last()
        if bias and bias[0] is not None:
            sums = sums + bias[0].first
        scale = sx.first * tf.reshape(sw.first, [-1]) / sy.first
        return wrapped(_requantised(sums, scale, zy.first, native), last=rank > 2)

    return run
