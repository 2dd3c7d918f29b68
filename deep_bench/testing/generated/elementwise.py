"""Arithmetic, comparison and logic: every element type, broadcasting, extreme values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deep_bench.tensor import is_float, is_integer
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes, styles

Generator = Callable[[Draw], GeneratedProblem]


def unary(operator: str, **attributes: Callable[[Draw], object]) -> Generator:
    """An operator of one tensor; each attribute is drawn, or left out where ``None`` is."""

    def generate(draw: Draw) -> GeneratedProblem:
        x = draw.array(draw.shape(), draw.pick(dtypes(operator)))
        return GeneratedProblem(operator, [x], {name: choose(draw) for name, choose in attributes.items()})

    return generate


def binary(operator: str) -> Generator:
    """An operator of two tensors that broadcast."""

    def generate(draw: Draw) -> GeneratedProblem:
        dtype, shape = draw.pick(dtypes(operator)), draw.shape()
        a, b = draw.array(draw.broadcast(shape), dtype), draw.array(shape, dtype)
        return GeneratedProblem(operator, [b, a] if draw.boolean() else [a, b])

    return generate


def variadic(operator: str) -> Generator:
    """An operator of any number of tensors that broadcast."""

    def generate(draw: Draw) -> GeneratedProblem:
        dtype, shape = draw.pick(dtypes(operator)), draw.shape()
        return GeneratedProblem(operator, [draw.array(draw.broadcast(shape), dtype) for _ in range(draw.integer(1, 4))])

    return generate


def Div(draw: Draw) -> GeneratedProblem:
    """No integer is divided by zero, nor the least one by -1: the standard does not say what comes of it."""
    dtype, shape = draw.pick(dtypes("Div")), draw.shape()
    a, b = draw.array(shape, dtype), draw.array(draw.broadcast(shape), dtype)
    return GeneratedProblem("Div", [a, b if is_float(dtype) else np.where(_undivided(b), np.asarray(3, dtype), b)])


def Mod(draw: Draw) -> GeneratedProblem:
    """As Div; floating-point tensors need ``fmod``."""
    dtype, shape = draw.pick(dtypes("Mod")), draw.shape()
    a, b = draw.array(shape, dtype), draw.array(draw.broadcast(shape), dtype)
    if is_float(dtype):
        return GeneratedProblem("Mod", [a, b], {"fmod": 1})
    return GeneratedProblem("Mod", [a, np.where(_undivided(b), np.asarray(3, dtype), b)], {"fmod": draw.boolean()})


def _undivided(b: np.ndarray) -> np.ndarray:
    return (b == 0) | (b == -1) if b.dtype.kind == "i" else b == 0


def Pow(draw: Draw) -> GeneratedProblem:
    """Whole numbers to small powers that are not negative, so that nothing overflows; floats to any."""
    base, exponent, shape = draw.pick(dtypes("Pow")), draw.pick(dtypes("Pow", 1)), draw.shape()
    style = None if is_float(base) and is_float(exponent) else "small" if is_integer(base) else "normal"
    x = draw.array(shape, base, style)
    y = draw.array(draw.broadcast(shape), exponent, "small" if is_integer(exponent) else None)
    return GeneratedProblem("Pow", [x, np.abs(y) if not is_float(base) else y])


def BitShift(draw: Draw) -> GeneratedProblem:
    """By less than the number of bits."""
    dtype, shape = draw.pick(dtypes("BitShift")), draw.shape()
    by = draw.array(draw.broadcast(shape), np.int64, "small") % (8 * dtype.itemsize)
    return GeneratedProblem(
        "BitShift", [draw.array(shape, dtype), by.astype(dtype)], {"direction": draw.pick(("LEFT", "RIGHT"))}
    )


def Where(draw: Draw) -> GeneratedProblem:
    """All three broadcast."""
    dtype, shape = draw.pick(dtypes("Where", 1)), draw.shape()
    return GeneratedProblem(
        "Where", [draw.array(draw.broadcast(shape), bool), *(draw.array(draw.broadcast(shape), dtype) for _ in "ab")]
    )


def Clip(draw: Draw) -> GeneratedProblem:
    """Crossed limits give the upper one.

    No limit is NaN; and no number infinite without a limit, which the text takes to be the largest number.
    """
    dtype = draw.pick(dtypes("Clip"))
    finite = ("normal", "ties", "wide") if is_float(dtype) else styles(dtype)
    limits = [draw.maybe(draw.array((), dtype, draw.pick(finite))) for _ in range(2)]
    x = draw.array(draw.shape(), dtype, draw.pick(finite) if any(limit is None for limit in limits) else None)
    return GeneratedProblem("Clip", [x, *limits])


_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Cos Cosh Erf Exp Floor IsNaN Log Neg Not Reciprocal Round Sign "
    "Sin Sinh Sqrt Tan Tanh"
)
_BINARY = "Add And BitwiseAnd BitwiseOr BitwiseXor Equal Greater GreaterOrEqual Less LessOrEqual Mul Or Sub Xor"

GENERATORS: dict[str, Generator] = {
    **{name: unary(name) for name in _UNARY.split()},
    **{name: binary(name) for name in _BINARY.split()},
    **{name: variadic(name) for name in ("Max", "Mean", "Min", "Sum")},
    "BitShift": BitShift,
    "Clip": Clip,
    "Div": Div,
    "IsInf": unary("IsInf", detect_negative=lambda d: d.maybe(d.boolean()), detect_positive=lambda d: d.maybe(d.boolean())),
    "Mod": Mod,
    "Pow": Pow,
    "Where": Where,
}
