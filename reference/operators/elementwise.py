"""Arithmetic, comparison and logic, element by element, with NumPy's broadcasting (which is ONNX's)."""

from __future__ import annotations

import functools

import numpy as np
from scipy import special

from deep_bench.reference.operators._arguments import check_choice, in_float32
from deep_bench.tensor import is_float, is_integer

__all__ = [
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Ceil",
    "Clip",
    "Cos",
    "Cosh",
    "Div",
    "Equal",
    "Erf",
    "Exp",
    "Floor",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "Reciprocal",
    "Round",
    "Sign",
    "Sin",
    "Sinh",
    "Sqrt",
    "Sub",
    "Sum",
    "Tan",
    "Tanh",
    "Where",
    "Xor",
]


def Add(a, b):
    """``a + b``. Source: ONNX Add, opset 14."""
    return np.add(a, b)


def Sub(a, b):
    """``a - b``. Source: ONNX Sub, opset 14."""
    return np.subtract(a, b)


def Mul(a, b):
    """``a * b``. Source: ONNX Mul, opset 14."""
    return np.multiply(a, b)


def Div(a, b):
    """``a / b``; integers are truncated towards zero. Source: ONNX Div, opset 14."""
    if is_integer(a.dtype):
        return np.floor_divide(np.subtract(a, np.fmod(a, b)), b)
    return np.divide(a, b)


def Mod(a, b, *, fmod=0):
    """The remainder, ``a - floor(a / b) * b``, or ``a - trunc(a / b) * b`` if ``fmod``. Source: ONNX Mod, opset 28."""
    return np.fmod(a, b) if fmod else np.remainder(a, b)


def Pow(x, y):
    """``x ** y`` in the dtype of ``x``. Source: ONNX Pow, opset 15."""
    if is_float(x.dtype):
        return np.power(x, y.astype(x.dtype) if is_integer(y.dtype) else y).astype(x.dtype, copy=False)
    if is_integer(y.dtype) and np.all(y >= 0):
        return np.power(x, y).astype(x.dtype)
    return np.power(x.astype(np.float64), y).astype(x.dtype)


def Neg(x):
    """``-x``. Source: ONNX Neg, opset 13."""
    return np.negative(x)


def Abs(x):
    """``|x|``. Source: ONNX Abs, opset 13."""
    return np.absolute(x)


def Sign(x):
    """-1, 0 or 1. Source: ONNX Sign, opset 13."""
    return np.sign(x)


def Reciprocal(x):
    """``1 / x``. Source: ONNX Reciprocal, opset 13."""
    return np.divide(1, x) if x.dtype.itemsize >= 4 else np.reciprocal(x)


def Sqrt(x):
    """The square root. Source: ONNX Sqrt, opset 13."""
    return np.sqrt(x)


def Exp(x):
    """``e ** x``. Source: ONNX Exp, opset 13."""
    return np.exp(x)


def Log(x):
    """The natural logarithm. Source: ONNX Log, opset 13."""
    return np.log(x)


@in_float32
def Erf(x):
    """The error function, ``2 / sqrt(pi) * integral of exp(-t^2) from 0 to x``. Source: ONNX Erf, opset 13."""
    return special.erf(x).astype(x.dtype) if is_integer(x.dtype) else special.erf(x)


def Floor(x):
    """The next integer below. Source: ONNX Floor, opset 13."""
    return np.floor(x)


def Ceil(x):
    """The next integer above. Source: ONNX Ceil, opset 13."""
    return np.ceil(x)


def Round(x):
    """The nearest integer, halves to the even one. Source: ONNX Round, opset 22."""
    return np.rint(x)


def Sin(x):
    """The sine. Source: ONNX Sin, opset 22."""
    return np.sin(x)


def Cos(x):
    """The cosine. Source: ONNX Cos, opset 22."""
    return np.cos(x)


def Tan(x):
    """The tangent. Source: ONNX Tan, opset 22."""
    return np.tan(x)


def Asin(x):
    """The arcsine. Source: ONNX Asin, opset 22."""
    return np.arcsin(x)


def Acos(x):
    """The arccosine. Source: ONNX Acos, opset 22."""
    return np.arccos(x)


def Atan(x):
    """The arctangent. Source: ONNX Atan, opset 22."""
    return np.arctan(x)


def Sinh(x):
    """The hyperbolic sine. Source: ONNX Sinh, opset 22."""
    return np.sinh(x)


def Cosh(x):
    """The hyperbolic cosine. Source: ONNX Cosh, opset 22."""
    return np.cosh(x)


def Tanh(x):
    """The hyperbolic tangent. Source: ONNX Tanh, opset 13."""
    return np.tanh(x)


def Asinh(x):
    """The inverse hyperbolic sine. Source: ONNX Asinh, opset 22."""
    return np.arcsinh(x)


def Acosh(x):
    """The inverse hyperbolic cosine. Source: ONNX Acosh, opset 22."""
    return np.arccosh(x)


def Atanh(x):
    """The inverse hyperbolic tangent. Source: ONNX Atanh, opset 22."""
    return np.arctanh(x)


def Max(*inputs):
    """The largest of all inputs; NaN if one is. Source: ONNX Max, opset 13."""
    return functools.reduce(np.maximum, inputs)


def Min(*inputs):
    """The smallest of all inputs; NaN if one is. Source: ONNX Min, opset 13."""
    return functools.reduce(np.minimum, inputs)


def Sum(*inputs):
    """``x1 + x2 + …``. Source: ONNX Sum, opset 13."""
    return functools.reduce(np.add, inputs)


@in_float32
def Mean(*inputs):
    """``(x1 + … + xn) / n``. Source: ONNX Mean, opset 13."""
    return np.divide(Sum(*inputs), len(inputs))


def Clip(x, low=None, high=None):
    """``min(max(x, low), high)``; an absent bound does nothing. Source: ONNX Clip, opset 13."""
    return x if low is None and high is None else np.clip(x, low, high).astype(x.dtype, copy=False)


def Where(condition, x, y):
    """``x`` where ``condition`` holds, ``y`` elsewhere. Source: ONNX Where, opset 16."""
    return np.where(condition, x, y)


def Equal(a, b):
    """``a == b``. Source: ONNX Equal, opset 19."""
    return np.equal(a, b).astype(np.bool_)


def Greater(a, b):
    """``a > b``. Source: ONNX Greater, opset 13."""
    return np.greater(a, b)


def GreaterOrEqual(a, b):
    """``a >= b``. Source: ONNX GreaterOrEqual, opset 16."""
    return np.greater_equal(a, b)


def Less(a, b):
    """``a < b``. Source: ONNX Less, opset 13."""
    return np.less(a, b)


def LessOrEqual(a, b):
    """``a <= b``. Source: ONNX LessOrEqual, opset 16."""
    return np.less_equal(a, b)


def Not(x):
    """``not x``. Source: ONNX Not, opset 1."""
    return np.logical_not(x)


def And(a, b):
    """``a and b``. Source: ONNX And, opset 7."""
    return np.logical_and(a, b)


def Or(a, b):
    """``a or b``. Source: ONNX Or, opset 7."""
    return np.logical_or(a, b)


def Xor(a, b):
    """``a or b``, but not both. Source: ONNX Xor, opset 7."""
    return np.logical_xor(a, b)


def BitwiseAnd(a, b):
    """``a & b``. Source: ONNX BitwiseAnd, opset 18."""
    return np.bitwise_and(a, b)


def BitwiseOr(a, b):
    """``a | b``. Source: ONNX BitwiseOr, opset 18."""
    return np.bitwise_or(a, b)


def BitwiseXor(a, b):
    """``a ^ b``. Source: ONNX BitwiseXor, opset 18."""
    return np.bitwise_xor(a, b)


def BitwiseNot(x):
    """``~x``. Source: ONNX BitwiseNot, opset 18."""
    return np.bitwise_not(x)


def BitShift(x, y, *, direction):
    """``x << y`` or ``x >> y``; a shift by all bits or by less than 0 leaves the sign. Source: ONNX BitShift, opset 28."""
    check_choice("BitShift", "direction", direction, ("LEFT", "RIGHT"))
    bits = 8 * x.dtype.itemsize
    inside = (y >= 0) & (y < bits)
    shift = np.where(inside, y, 0).astype(x.dtype)
    if direction == "LEFT":
        return np.where(inside, np.left_shift(x, shift), 0).astype(x.dtype)
    return np.where(inside, np.right_shift(x, shift), np.where(x < 0, -1, 0).astype(x.dtype))


def IsNaN(x):
    """Whether ``x`` is not a number. Source: ONNX IsNaN, opset 20."""
    return np.isnan(x)


def IsInf(x, *, detect_negative=1, detect_positive=1):
    """Whether ``x`` is an infinity of a sign that is looked for. Source: ONNX IsInf, opset 20."""
    mask = np.where(np.signbit(x), detect_negative != 0, detect_positive != 0)
    return np.logical_and(np.isinf(x), mask)
