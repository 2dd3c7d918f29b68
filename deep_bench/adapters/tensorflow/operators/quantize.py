"""Quantisation to and from 8 and 16-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.operators._common import in_dtype, out_dtype, rank_of, tf_dtype

__all__ = ["DequantizeLinear", "QuantizeLinear"]

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
