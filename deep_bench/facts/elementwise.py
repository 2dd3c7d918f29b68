"""Arithmetic, comparison and elementary functions, element by element of the broadcast result ``y``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from deep_bench.facts.row import OperatorFacts, Shape, Work
from deep_bench.facts.rules import (
    ShapedCase,
    aligned,
    exponential,
    named,
    passing,
    powers,
    products,
    single,
    single_result,
    summing,
)
from deep_bench.tensor import is_integer


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


def _shift(case: ShapedCase) -> str:
    return f"below:{8 * named(case, 'Y').dtype.itemsize}"


def _divisor(case: ShapedCase) -> str:
    return "nonzero" if is_integer(named(case, "B").dtype) else "normal"


def _base(case: ShapedCase) -> str:
    return "normal" if is_integer(named(case, "X").dtype) else "domain:0:inf"


def _exponent(case: ShapedCase) -> str:
    return "below:4" if is_integer(named(case, "Y").dtype) else "between:-2:2"


_ALIGNED = OperatorFacts(row_axes=aligned)

OPERATORS: Mapping[str, OperatorFacts] = {
    "Abs": replace(_ALIGNED, cost=Abs, index_arithmetic=True, growth=passing, defines_special=True),
    "Acos": replace(_ALIGNED, cost=Acos, draws={"input": "domain:-1:1"}),
    "Acosh": replace(_ALIGNED, cost=Acosh, draws={"input": "domain:1:inf"}),
    "Add": replace(_ALIGNED, cost=Add, index_arithmetic=True, growth=summing, defines_special=True, commutative=True),
    "And": replace(_ALIGNED, cost=And, index_arithmetic=True, commutative=True),
    "Asin": replace(_ALIGNED, cost=Asin, draws={"input": "domain:-1:1"}),
    "Asinh": replace(_ALIGNED, cost=Asinh),
    "Atan": replace(_ALIGNED, cost=Atan),
    "Atanh": replace(_ALIGNED, cost=Atanh, draws={"input": "domain:-0.99:0.99"}),
    "BitShift": OperatorFacts(cost=BitShift, choices={"direction": "LEFT RIGHT"}, draws={"Y": _shift}),
    "BitwiseAnd": replace(_ALIGNED, cost=BitwiseAnd),
    "BitwiseNot": OperatorFacts(cost=BitwiseNot),
    "BitwiseOr": replace(_ALIGNED, cost=BitwiseOr),
    "BitwiseXor": replace(_ALIGNED, cost=BitwiseXor),
    "Ceil": replace(_ALIGNED, cost=Ceil, index_arithmetic=True, stepped=True, growth=passing, defines_special=True),
    "Clip": OperatorFacts(cost=Clip, initializer_settings=(1, 2), index_arithmetic=True, growth=passing),
    "Cos": replace(_ALIGNED, cost=Cos, allowance=1.0, defines_special=True),
    "Cosh": replace(_ALIGNED, cost=Cosh, growth=exponential),
    "Div": replace(
        _ALIGNED, cost=Div, index_arithmetic=True, draws={"B": _divisor}, growth=products(single), defines_special=True
    ),
    "Equal": replace(_ALIGNED, cost=Equal, index_arithmetic=True, growth=passing, commutative=True),
    "Erf": replace(_ALIGNED, cost=Erf, allowance=1.0, growth=passing, by_sample=single_result, defines_special=True),
    "Exp": replace(_ALIGNED, cost=Exp, index_arithmetic=True, growth=exponential, defines_special=True),
    "Floor": replace(_ALIGNED, cost=Floor, index_arithmetic=True, stepped=True, growth=passing, defines_special=True),
    "Greater": replace(_ALIGNED, cost=Greater, index_arithmetic=True, growth=passing),
    "GreaterOrEqual": replace(_ALIGNED, cost=GreaterOrEqual, index_arithmetic=True, growth=passing),
    "IsInf": replace(_ALIGNED, cost=IsInf, growth=passing, defines_special=True),
    "IsNaN": replace(_ALIGNED, cost=IsNaN, growth=passing, defines_special=True),
    "Less": replace(_ALIGNED, cost=Less, index_arithmetic=True, growth=passing),
    "LessOrEqual": replace(_ALIGNED, cost=LessOrEqual, index_arithmetic=True, growth=passing),
    "Log": replace(
        _ALIGNED, cost=Log, index_arithmetic=True, draws={"input": "domain:0:inf"}, growth=passing, defines_special=True
    ),
    "Max": replace(_ALIGNED, cost=Max, index_arithmetic=True, growth=passing, defines_special=True, commutative=True),
    "Mean": replace(_ALIGNED, cost=Mean, index_arithmetic=True, growth=summing, defines_special=True, commutative=True),
    "Min": replace(_ALIGNED, cost=Min, index_arithmetic=True, growth=passing, defines_special=True, commutative=True),
    "Mod": replace(_ALIGNED, cost=Mod, index_arithmetic=True, stepped=True, draws={"B": _divisor}),
    "Mul": replace(
        _ALIGNED, cost=Mul, index_arithmetic=True, growth=products(single), defines_special=True, commutative=True
    ),
    "Neg": replace(_ALIGNED, cost=Neg, index_arithmetic=True, growth=passing, defines_special=True),
    "Not": replace(_ALIGNED, cost=Not, index_arithmetic=True),
    "Or": replace(_ALIGNED, cost=Or, index_arithmetic=True, commutative=True),
    "Pow": replace(
        _ALIGNED, cost=Pow, index_arithmetic=True, draws={"X": _base, "Y": _exponent}, growth=powers(lambda _: 4)
    ),
    "Reciprocal": replace(_ALIGNED, cost=Reciprocal, index_arithmetic=True, defines_special=True),
    "Round": replace(_ALIGNED, cost=Round, index_arithmetic=True, stepped=True, growth=passing, defines_special=True),
    "Sign": replace(_ALIGNED, cost=Sign, index_arithmetic=True, stepped=True, growth=passing),
    "Sin": replace(_ALIGNED, cost=Sin, allowance=1.0, defines_special=True),
    "Sinh": replace(_ALIGNED, cost=Sinh, growth=exponential),
    "Sqrt": replace(
        _ALIGNED, cost=Sqrt, index_arithmetic=True, draws={"X": "domain:0:inf"}, growth=passing, defines_special=True
    ),
    "Sub": replace(_ALIGNED, cost=Sub, index_arithmetic=True, growth=summing, defines_special=True),
    "Sum": replace(_ALIGNED, cost=Sum, index_arithmetic=True, growth=summing, defines_special=True, commutative=True),
    "Tan": replace(_ALIGNED, cost=Tan),
    "Tanh": replace(_ALIGNED, cost=Tanh, allowance=1.0, growth=passing, by_sample=single_result, defines_special=True),
    "Where": replace(_ALIGNED, cost=Where, index_arithmetic=True, growth=passing, defines_special=True),
    "Xor": replace(_ALIGNED, cost=Xor, index_arithmetic=True, commutative=True),
}
"""The rows, by operator."""
