"""Arithmetic, comparison, logic, bits and mathematical functions, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of
from deep_bench.adapters.tensorflow.graph import with_gradient
from deep_bench.adapters.tensorflow.layout import elementwise
from deep_bench.adapters.tensorflow.operators._site import (
    broadcast_gradient,
    computes,
    pointwise,
    tf_dtype,
    variadic,
    widened,
)
from deep_bench.adapters.tensorflow.operators.linear import as_bias
from deep_bench.tensor import STRING, is_float, is_integer

__all__ = [  # noqa: RUF022 (grouped by kind)
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min", "Sum", "Mean", "Neg", "Abs", "Sign", "Reciprocal",
    "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "Where",
    "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitCast",
    "Ceil", "Floor", "Round", "Sqrt", "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
    "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "IsNaN", "IsInf", "Clip",
]  # fmt: skip


def _rounded(function: Callable[..., Any]) -> Callable[[Site], Callable[..., Any]]:
    """Rounding to integers: nothing to do where they are integers already."""

    def build(site: Site) -> Callable[..., Any]:
        dtype = dtype_of(site)
        return elementwise(tf.identity if is_integer(dtype) else widened(function, dtype, 1))

    return build


def _with_slope(function: Callable[..., Any], slope: Callable[[Any], Any]) -> Callable[[Site], Callable[..., Any]]:
    """A function with a slope that is no number outside its domain, where a result that nobody wants has no gradient."""
    return pointwise(with_gradient(function, lambda dy, _, x: tf.math.multiply_no_nan(slope(x), dy)), 1)


Sub = pointwise(tf.subtract, 2)
Mul = pointwise(tf.multiply, 2)
Max = variadic(tf.maximum)
Min = variadic(tf.minimum)
Sum = variadic(tf.add)
Neg = pointwise(tf.negative, 1)
Abs = pointwise(tf.abs, 1)
Sign = pointwise(tf.sign, 1)
Reciprocal = pointwise(tf.math.reciprocal, 1)
Greater = pointwise(tf.greater, 2, back=False)
GreaterOrEqual = pointwise(tf.greater_equal, 2, back=False)
Less = pointwise(tf.less, 2, back=False)
LessOrEqual = pointwise(tf.less_equal, 2, back=False)
And = pointwise(tf.logical_and, 2)
Or = pointwise(tf.logical_or, 2)
Xor = pointwise(tf.math.logical_xor, 2)
Not = pointwise(tf.logical_not, 1)
BitwiseAnd = pointwise(tf.bitwise.bitwise_and, 2)
BitwiseOr = pointwise(tf.bitwise.bitwise_or, 2)
BitwiseXor = pointwise(tf.bitwise.bitwise_xor, 2)
BitwiseNot = pointwise(tf.bitwise.invert, 1)
Ceil = _rounded(tf.math.ceil)
Floor = _rounded(tf.floor)
Round = _rounded(tf.round)
Sqrt = pointwise(tf.sqrt, 1)
Exp = pointwise(tf.exp, 1)
Log = pointwise(tf.math.log, 1)


def _erf(x: tf.Tensor) -> tf.Tensor:
    """TensorFlow's has no value at infinity in float64; from 6 on it is 1 to the last digit."""
    return tf.math.erf(tf.clip_by_value(x, -8.0, 8.0) if x.dtype == tf.float64 else x)


Erf = pointwise(_erf, 1)
Sin = pointwise(tf.sin, 1)
Cos = pointwise(tf.cos, 1)
Tan = pointwise(tf.tan, 1)
Asin = _with_slope(tf.asin, lambda x: tf.math.rsqrt((1 - x) * (1 + x)))
Acos = _with_slope(tf.acos, lambda x: -tf.math.rsqrt((1 - x) * (1 + x)))
Atan = pointwise(tf.atan, 1)
Sinh = pointwise(tf.sinh, 1)
Cosh = pointwise(tf.cosh, 1)
Tanh = pointwise(tf.tanh, 1)
Asinh = pointwise(tf.asinh, 1)
Acosh = _with_slope(tf.acosh, lambda x: tf.math.rsqrt(x - 1) * tf.math.rsqrt(x + 1))
Atanh = pointwise(tf.atanh, 1)
IsNaN = pointwise(tf.math.is_nan, 1, back=False)


def Equal(site: Site) -> Callable[..., Any]:
    """Whether elements are equal, strings included."""
    return elementwise(tf.equal if dtype_of(site) == STRING else widened(tf.equal, dtype_of(site), 2, back=False))


def Add(site: Site) -> Callable[..., Any]:
    """The sum of two tensors."""
    add = widened(tf.add, dtype_of(site), 2)

    def run(a: Any, b: Any) -> Any:
        if a.shape.rank == b.shape.rank == 2:
            row = b.shape[0] == 1
            a, b = (a, as_bias(b)) if row else (as_bias(a), b)
        return add(a, b)

    return elementwise(run)


def Div(site: Site) -> Callable[..., Any]:
    """Division; that of integers rounds towards zero."""
    dtype = dtype_of(site)
    return elementwise(widened(tf.truncatediv if is_integer(dtype) else tf.divide, dtype, 2))


def Mod(site: Site) -> Callable[..., Any]:
    """Remainder with the divisor's sign, or with the dividend's for ``fmod``."""
    dtype = dtype_of(site)
    truncates = site.attribute("fmod", 0)
    remainder = widened(tf.truncatemod if truncates else tf.math.floormod, dtype, 2)
    if not is_float(dtype):
        return elementwise(remainder)

    def gradient(dy: Any, _: Any, a: Any, b: Any) -> tuple[Any, Any]:
        quotient = a / b
        whole = tf.where(quotient < 0, tf.math.ceil(quotient), tf.floor(quotient)) if truncates else tf.floor(quotient)
        return dy, -tf.math.multiply_no_nan(whole, dy)

    return elementwise(broadcast_gradient(remainder, gradient))


def Mean(site: Site) -> Callable[..., Any]:
    """The mean of the inputs."""
    total = widened(tf.add, dtype_of(site), 2)

    def run(*tensors: Any) -> Any:
        result = tensors[0]
        for tensor in tensors[1:]:
            result = total(result, tensor)
        return result / tf.constant(len(tensors), result.dtype)

    return elementwise(run)


def Pow(site: Site) -> Callable[..., Any]:
    """Power, in the base's element type."""
    base, exponent = dtype_of(site, 0), dtype_of(site, 1)
    narrow = tf_dtype(base)
    constant = site.constant(1)
    if (
        is_float(base)
        and constant is not None
        and constant.size == 1
        and float(constant.reshape(())) == 2.0
        and constant.ndim == 0
    ):
        return elementwise(lambda x, _: tf.square(x))
    if is_float(base):
        wide = narrow if base.itemsize >= exponent.itemsize or not is_float(exponent) else tf_dtype(exponent)
    else:
        wide = tf.float64 if is_float(exponent) else tf.int64
    if not computes(tf.pow, wide, 2):
        raise NotNative(f"TensorFlow has no power of {base}")
    power = broadcast_gradient(tf.pow, _pow_gradient) if wide.is_floating and _may_be_zero(constant) else tf.pow
    return elementwise(lambda x, y: tf.cast(power(tf.cast(x, wide), tf.cast(y, wide)), narrow))


def _may_be_zero(exponent: np.ndarray | None) -> bool:
    return exponent is None or not exponent.all()


def _pow_gradient(dy: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """TensorFlow's own is no number where base and exponent are 0."""
    none, unit = tf.zeros([], a.dtype), tf.ones([], a.dtype)
    constant = tf.equal(b, 0)
    slope = tf.where(constant, none, b * tf.pow(a, tf.where(constant, unit, b - 1)))
    return dy * slope, dy * tf.where(a > 0, y * tf.math.log(tf.where(a > 0, a, unit)), none)


def Where(site: Site) -> Callable[..., Any]:
    """Choice between two tensors by a third."""
    tf_dtype(dtype_of(site, 1))
    return elementwise(tf.where)


def BitShift(site: Site) -> Callable[..., Any]:
    """Bits shifted to the left or right."""
    leftward, dtype = site.attributes["direction"] == "LEFT", dtype_of(site)
    shift = widened(tf.bitwise.left_shift if leftward else tf.bitwise.right_shift, dtype, 2)
    bits = 8 * dtype.itemsize

    def run(x: Any, y: Any) -> Any:
        inside = tf.logical_and(y >= 0, y < bits)
        most = tf.where(inside, y, tf.cast(bits - 1, y.dtype))
        # All bits are shifted out; only the sign of a signed integer stays.
        return shift(x, most) if dtype.kind == "i" and not leftward else tf.where(inside, shift(x, most), tf.zeros_like(x))

    return elementwise(run)


_REINTERPRETED = {
    *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    *(tf.bfloat16, tf.float16, tf.float32, tf.float64, tf.complex64, tf.complex128),
}


def BitCast(site: Site) -> Callable[..., Any]:
    """The same bits as another element type of the same size."""
    import onnx

    target = tf_dtype(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(site.attributes["to"])))
    source = tf_dtype(dtype_of(site))
    if tf.bool in (source, target) and {source, target} <= {tf.bool, tf.uint8}:
        return elementwise(lambda x: tf.cast(x, target))  # a boolean is stored as 0 or 1
    if tf.bool in (source, target) or source.size != target.size:
        raise NotNative(f"TensorFlow does not reinterpret {source.name} as {target.name}")
    if not {source, target} <= _REINTERPRETED:
        raise NotNative(f"TensorFlow does not reinterpret {source.name} as {target.name}")
    return elementwise(lambda x: tf.bitcast(x, target))


def IsInf(site: Site) -> Callable[..., Any]:
    """Whether an element is infinite, with the signs asked for."""
    negative, positive = site.attribute("detect_negative", 1), site.attribute("detect_positive", 1)

    def run(x: Any) -> Any:
        infinite = tf.math.is_inf(x)
        if not negative:
            infinite = tf.logical_and(infinite, x > 0)
        return infinite if positive else tf.logical_and(infinite, x < 0)

    return elementwise(widened(run, dtype_of(site), 1, back=False))


def Clip(site: Site) -> Callable[..., Any]:
    """Elements kept within limits; NaN stays, and the upper limit wins."""
    dtype = dtype_of(site)
    less = widened(tf.less, dtype, 2, back=False)
    bounds = [site.constant(i) for i in (1, 2) if site.has(i)]
    plain = is_float(dtype) and all(b is not None and not np.isnan(b.astype(np.float64)).any() for b in bounds)

    def run(x: Any, low: Any = None, high: Any = None) -> Any:
        if low is not None:
            x = tf.maximum(x, low) if plain else tf.where(less(x, low), low, x)
        if high is not None:
            x = tf.minimum(x, high) if plain else tf.where(less(high, x), high, x)
        return x

    return elementwise(run)
