"""Arithmetic, comparison and elementary functions, element by element of the broadcast result ``y``."""

from __future__ import annotations

from math import prod

from deep_bench.operators.cost.model import Shape, Work

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


def Add(*, y: Shape) -> Work:
    """An addition. Source: ONNX Add, opset 14."""
    return Work(flops=prod(y))


def Sub(*, y: Shape) -> Work:
    """A subtraction. Source: ONNX Sub, opset 14."""
    return Work(flops=prod(y))


def Mul(*, y: Shape) -> Work:
    """A multiplication. Source: ONNX Mul, opset 14."""
    return Work(flops=prod(y))


def Div(*, y: Shape) -> Work:
    """A division. Source: ONNX Div, opset 14."""
    return Work(flops=prod(y))


def Mod(*, y: Shape) -> Work:
    """``a - floor(a / b) * b``: a division, a multiplication, a subtraction. Source: ONNX Mod, opset 28."""
    return Work(flops=3 * prod(y))


def Pow(*, y: Shape) -> Work:
    """A power. Source: ONNX Pow, opset 15."""
    return Work(special=prod(y))


def Neg() -> Work:
    """A change of sign: nothing. Source: ONNX Neg, opset 13."""
    return Work()


def Abs() -> Work:
    """An absolute value: nothing. Source: ONNX Abs, opset 13."""
    return Work()


def Sign(*, y: Shape) -> Work:
    """A comparison with zero. Source: ONNX Sign, opset 13."""
    return Work(comparisons=prod(y))


def Reciprocal(*, y: Shape) -> Work:
    """A division. Source: ONNX Reciprocal, opset 13."""
    return Work(flops=prod(y))


def Sqrt(*, y: Shape) -> Work:
    """A square root. Source: ONNX Sqrt, opset 13."""
    return Work(special=prod(y))


def Exp(*, y: Shape) -> Work:
    """An exponential. Source: ONNX Exp, opset 13."""
    return Work(special=prod(y))


def Log(*, y: Shape) -> Work:
    """A logarithm. Source: ONNX Log, opset 13."""
    return Work(special=prod(y))


def Erf(*, y: Shape) -> Work:
    """An error function. Source: ONNX Erf, opset 13."""
    return Work(special=prod(y))


def Floor() -> Work:
    """A rounding to a whole number: nothing. Source: ONNX Floor, opset 13."""
    return Work()


def Ceil() -> Work:
    """A rounding to a whole number: nothing. Source: ONNX Ceil, opset 13."""
    return Work()


def Round() -> Work:
    """A rounding to a whole number: nothing. Source: ONNX Round, opset 22."""
    return Work()


def Sin(*, y: Shape) -> Work:
    """A sine. Source: ONNX Sin, opset 22."""
    return Work(special=prod(y))


def Cos(*, y: Shape) -> Work:
    """A cosine. Source: ONNX Cos, opset 22."""
    return Work(special=prod(y))


def Tan(*, y: Shape) -> Work:
    """A tangent. Source: ONNX Tan, opset 22."""
    return Work(special=prod(y))


def Asin(*, y: Shape) -> Work:
    """An arcsine. Source: ONNX Asin, opset 22."""
    return Work(special=prod(y))


def Acos(*, y: Shape) -> Work:
    """An arccosine. Source: ONNX Acos, opset 22."""
    return Work(special=prod(y))


def Atan(*, y: Shape) -> Work:
    """An arctangent. Source: ONNX Atan, opset 22."""
    return Work(special=prod(y))


def Sinh(*, y: Shape) -> Work:
    """A hyperbolic sine. Source: ONNX Sinh, opset 22."""
    return Work(special=prod(y))


def Cosh(*, y: Shape) -> Work:
    """A hyperbolic cosine. Source: ONNX Cosh, opset 22."""
    return Work(special=prod(y))


def Tanh(*, y: Shape) -> Work:
    """A hyperbolic tangent. Source: ONNX Tanh, opset 13."""
    return Work(special=prod(y))


def Asinh(*, y: Shape) -> Work:
    """An inverse hyperbolic sine. Source: ONNX Asinh, opset 22."""
    return Work(special=prod(y))


def Acosh(*, y: Shape) -> Work:
    """An inverse hyperbolic cosine. Source: ONNX Acosh, opset 22."""
    return Work(special=prod(y))


def Atanh(*, y: Shape) -> Work:
    """An inverse hyperbolic tangent. Source: ONNX Atanh, opset 22."""
    return Work(special=prod(y))


def Max(*inputs: Shape, y: Shape) -> Work:
    """A maximum for each input but the first. Source: ONNX Max, opset 13."""
    return Work(comparisons=(len(inputs) - 1) * prod(y))


def Min(*inputs: Shape, y: Shape) -> Work:
    """A minimum for each input but the first. Source: ONNX Min, opset 13."""
    return Work(comparisons=(len(inputs) - 1) * prod(y))


def Sum(*inputs: Shape, y: Shape) -> Work:
    """An addition for each input but the first. Source: ONNX Sum, opset 13."""
    return Work(flops=(len(inputs) - 1) * prod(y))


def Mean(*inputs: Shape, y: Shape) -> Work:
    """An addition for each input but the first, and a division. Source: ONNX Mean, opset 13."""
    return Work(flops=(len(inputs) if len(inputs) > 1 else 0) * prod(y))


def Clip(x: Shape, low: Shape | None = None, high: Shape | None = None) -> Work:
    """A maximum and a minimum, as far as there are bounds. Source: ONNX Clip, opset 13."""
    return Work(comparisons=((low is not None) + (high is not None)) * prod(x))


def Where() -> Work:
    """A choice: nothing. Source: ONNX Where, opset 16."""
    return Work()


def Equal(*, y: Shape) -> Work:
    """A comparison. Source: ONNX Equal, opset 19."""
    return Work(comparisons=prod(y))


def Greater(*, y: Shape) -> Work:
    """A comparison. Source: ONNX Greater, opset 13."""
    return Work(comparisons=prod(y))


def GreaterOrEqual(*, y: Shape) -> Work:
    """A comparison. Source: ONNX GreaterOrEqual, opset 16."""
    return Work(comparisons=prod(y))


def Less(*, y: Shape) -> Work:
    """A comparison. Source: ONNX Less, opset 13."""
    return Work(comparisons=prod(y))


def LessOrEqual(*, y: Shape) -> Work:
    """A comparison. Source: ONNX LessOrEqual, opset 16."""
    return Work(comparisons=prod(y))


def IsNaN(*, y: Shape) -> Work:
    """A comparison. Source: ONNX IsNaN, opset 20."""
    return Work(comparisons=prod(y))


def IsInf(*, y: Shape) -> Work:
    """A comparison. Source: ONNX IsInf, opset 20."""
    return Work(comparisons=prod(y))


def Not() -> Work:
    """Logic: nothing. Source: ONNX Not, opset 1."""
    return Work()


def And() -> Work:
    """Logic: nothing. Source: ONNX And, opset 7."""
    return Work()


def Or() -> Work:
    """Logic: nothing. Source: ONNX Or, opset 7."""
    return Work()


def Xor() -> Work:
    """Logic: nothing. Source: ONNX Xor, opset 7."""
    return Work()


def BitwiseAnd() -> Work:
    """Logic on bits: nothing. Source: ONNX BitwiseAnd, opset 18."""
    return Work()


def BitwiseOr() -> Work:
    """Logic on bits: nothing. Source: ONNX BitwiseOr, opset 18."""
    return Work()


def BitwiseXor() -> Work:
    """Logic on bits: nothing. Source: ONNX BitwiseXor, opset 18."""
    return Work()


def BitwiseNot() -> Work:
    """Logic on bits: nothing. Source: ONNX BitwiseNot, opset 18."""
    return Work()


def BitShift() -> Work:
    """A shift of bits: nothing. Source: ONNX BitShift, opset 28."""
    return Work()
