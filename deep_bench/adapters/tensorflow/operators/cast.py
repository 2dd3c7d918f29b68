"""Conversions between element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.layout import elementwise
from deep_bench.adapters.tensorflow.operators._common import in_dtype, out_dtype, tf_dtype
from deep_bench.tensor import is_float

__all__ = ["Cast", "CastLike"]

_FLOAT8 = (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2))
_NUMBERS = tuple(
    np.dtype(n)
    for n in [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
    ]
)
_KNOWN = (*_NUMBERS, np.dtype(ml_dtypes.bfloat16), *_FLOAT8)


def Cast(site: Site) -> Callable[..., Any]:
    """Elements as another type: towards zero for integers, to nearest even for floats, saturated for float8 if asked for."""
    target = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(site.attributes["to"]))
    return _cast(in_dtype(site), target, saturate=bool(site.attribute("saturate", 1)))


def CastLike(site: Site) -> Callable[..., Any]:
    """Elements as another tensor's type."""
    run = _cast(in_dtype(site), out_dtype(site), saturate=bool(site.attribute("saturate", 1)))
    from deep_bench.adapters.tensorflow.layout import on_values

    return on_values(lambda x, _: run(x))


def _cast(source: np.dtype, target: np.dtype, *, saturate: bool) -> Callable[..., Any]:
    native = tf_dtype(target)
    if source not in _KNOWN or target not in _KNOWN:
        raise NotNative(f"TensorFlow does not convert {source} to {target} as ONNX does")
    if source == target:
        return elementwise(lambda x: x)
    if target in _FLOAT8:
        return elementwise(lambda x: _to_float8(x, source, native, target, saturate=saturate))
    if is_float(source) and target.kind == "u" and target.itemsize < 8:
        return elementwise(lambda x: tf.cast(tf.cast(x, tf.int64), native))
    return elementwise(lambda x: tf.cast(x, native))


def _to_float8(x: Any, source: np.dtype, native: tf.DType, target: np.dtype, *, saturate: bool) -> Any:
    if source != np.float64:
        x = tf.cast(x, tf.float32)
    if saturate:
        limit = float(ml_dtypes.finfo(target).max)
        x = tf.where(tf.math.is_nan(x), x, tf.clip_by_value(x, -limit, limit))
    return tf.cast(x, native)
