"""Conversions between element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, output_dtype
from deep_bench.adapters.tensorflow.layout import elementwise, on_values, wrapped
from deep_bench.adapters.tensorflow.operators._site import tf_dtype
from deep_bench.tensor import STRING, is_float

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
_INT4 = (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))
_CASTABLE = (*_NUMBERS, np.dtype(ml_dtypes.bfloat16), *_FLOAT8, *_INT4)


def Cast(site: Site) -> Callable[..., Any]:
    """Elements as another type: towards zero for integers, to nearest even for floats, saturated for float8 if asked for."""
    code = site.attributes["to"]
    string = code == onnx.TensorProto.STRING
    target = STRING if string else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    return _cast(dtype_of(site), target, saturate=bool(site.attribute("saturate", 1)))


def CastLike(site: Site) -> Callable[..., Any]:
    """Elements as another tensor's type."""
    run = _cast(dtype_of(site), output_dtype(site), saturate=bool(site.attribute("saturate", 1)))
    return on_values(lambda x, _: run(x))


def _cast(source: np.dtype, target: np.dtype, *, saturate: bool) -> Callable[..., Any]:
    native = tf_dtype(target)
    if STRING in (source, target):
        return elementwise(_of_strings(source, target))
    if source not in _CASTABLE or target not in _CASTABLE:
        raise NotNative(f"TensorFlow does not convert {source} to {target} as ONNX does")
    if source == target:
        return elementwise(lambda x: x)
    if source in _INT4:
        further = _cast(np.dtype(np.int32), target, saturate=saturate)
        return on_values(lambda x: further(*wrapped(tf.cast(x.first, tf.int32), last=False)))
    if target in _INT4:
        # TensorFlow converts from integers only, and keeps the lowest four bits.
        return elementwise(lambda x: tf.cast(tf.cast(tf.cast(x, tf.float32) if is_float(source) else x, tf.int32), native))
    if target in _FLOAT8:
        return elementwise(lambda x: to_float8(x, target, saturate=saturate))
    if is_float(source) and target.kind == "u" and target.itemsize < 8:
        return elementwise(lambda x: tf.cast(tf.cast(x, tf.int64), native))
    return elementwise(lambda x: tf.cast(x, native))


def _of_strings(source: np.dtype, target: np.dtype) -> Callable[..., Any]:
    """Conversions from and to strings that TensorFlow writes and reads as ONNX does."""
    if target == STRING and source == np.bool_:
        return lambda x: tf.where(x, "True", "False")
    if target == STRING and source.kind in "iu":
        return tf.strings.as_string
    if source == STRING and is_float(target) and target in _CASTABLE and target not in _FLOAT8:
        return lambda x: tf.cast(tf.strings.to_number(x, tf.float64), tf_dtype(target))
    raise NotNative(f"TensorFlow does not convert {source} to {target} as ONNX does")


def to_float8(x: Any, target: np.dtype, *, saturate: bool) -> Any:
    """Numbers as 8-bit floats; with ``saturate`` what is beyond the largest one becomes the largest one."""
    x = x if x.dtype == tf.float64 else tf.cast(x, tf.float32)
    if saturate:
        limit = float(ml_dtypes.finfo(target).max)
        x = tf.where(tf.math.is_nan(x), x, tf.clip_by_value(x, -limit, limit))
    return tf.cast(x, tf_dtype(target))
