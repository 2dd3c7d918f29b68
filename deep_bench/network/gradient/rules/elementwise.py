"""Arithmetic on each element: the sum of the gradient over what broadcasting repeated.

The gradients of a power have shorter forms for exponents that are known.
"""

from __future__ import annotations

import math

from deep_bench.network.gradient.rules._arithmetic import (
    bounded,
    finite,
    in_float32,
    mask,
    nonzero,
    positive,
    root,
    steep,
    where,
)

__all__ = [
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Clip",
    "Cos",
    "Cosh",
    "Div",
    "Erf",
    "Exp",
    "Identity",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Pow",
    "Reciprocal",
    "Sin",
    "Sinh",
    "Sqrt",
    "Sub",
    "Sum",
    "Tan",
    "Tanh",
    "Where",
]


def Identity(at, x):
    """``dx = dy``."""
    return at.dy


def Add(at, a, b):
    """``da = dy``, ``db = dy``."""
    return at.op.sum_to(at.dy, a), at.op.sum_to(at.dy, b)


def Sum(at, *inputs):
    """``dx = dy`` for every input."""
    return [at.op.sum_to(at.dy, x) for x in inputs]


def Mean(at, *inputs):
    """``dx = dy / n`` for each of ``n`` inputs."""
    share = at.dy / len(inputs) if len(inputs) > 1 else at.dy
    return [at.op.sum_to(share, x) for x in inputs]


def Sub(at, a, b):
    """``da = dy``, ``db = -dy``."""
    return at.op.sum_to(at.dy, a), -at.op.sum_to(at.dy, b)


def Mul(at, a, b):
    """``da = dy * b``, ``db = dy * a``."""
    if a.value is b.value:
        return at.dy * (a + a), None
    return at.op.sum_to(at.dy * b, a), at.op.sum_to(at.dy * a, b)


@in_float32
def Div(at, a, b):
    """``da = dy / b``, ``db = -dy * a / b ** 2``."""
    divisor = nonzero(b)
    da = at.dy / divisor
    return at.op.sum_to(da, a), -at.op.sum_to(da * a, b) / divisor if at.wants(1) else None


@in_float32
def Mod(at, a, b, *, fmod=0):
    """``da = dy``, ``db = -dy * q`` with the quotient ``q``, a whole number, from ``a = q * b + y``."""
    if not at.wants(1):
        return at.op.sum_to(at.dy, a), None
    quotient = at.op.Round((a - bounded(at.y)) / nonzero(b))
    quotient = at.op.Where(at.op.IsNaN(quotient), 0, quotient)
    return at.op.sum_to(at.dy, a), -at.op.sum_to(at.dy * quotient, b)


@in_float32
def Pow(at, x, y):
    """``dx = dz * y * x ** (y - 1)``, ``dy = dz * z * log(x)``; where ``x`` is not positive ``dy`` is 0."""
    return base_gradient(at, x, y) if at.wants(0) else None, exponent_gradient(at, x, y) if at.wants(1) else None


def Neg(at, x):
    """``dx = -dy``."""
    return -at.dy


def Abs(at, x):
    """``dx = dy * sign(x)``, 0 at 0."""
    return at.dy * at.op.Sign(x)


@in_float32
def Exp(at, x):
    """``dx = dy * y``."""
    return at.dy * finite(at.y)


@in_float32
def Log(at, x):
    """``dx = dy / x``."""
    return at.dy / positive(x)


@in_float32
def Sqrt(at, x):
    """``dx = dy / (2 * sqrt(x))``."""
    return at.dy / root(x) * 0.5


@in_float32
def Reciprocal(at, x):
    """``dx = -dy / x ** 2``."""
    divisor = nonzero(x)
    return -at.dy / divisor / divisor


@in_float32
def Erf(at, x):
    """``dx = dy * 2 / sqrt(pi) * exp(-x ** 2)``."""
    return at.dy * (at.op.Exp(-(x * x)) * (2 / math.sqrt(math.pi)))


def Sin(at, x):
    """``dx = dy * cos(x)``."""
    return at.dy * at.op.Cos(x)


def Cos(at, x):
    """``dx = -dy * sin(x)``."""
    return -at.dy * at.op.Sin(x)


@in_float32
def Tan(at, x):
    """``dx = dy * (1 + y ** 2)``."""
    return at.dy * (at.y * at.y + 1)


@in_float32
def Asin(at, x):
    """``dx = dy / sqrt(1 - x ** 2)``."""
    return at.dy / root((1 - x) * (x + 1))


@in_float32
def Acos(at, x):
    """``dx = -dy / sqrt(1 - x ** 2)``."""
    return -at.dy / root((1 - x) * (x + 1))


@in_float32
def Atan(at, x):
    """``dx = dy / (1 + x ** 2)``."""
    return at.dy / (x * x + 1)


@in_float32
def Sinh(at, x):
    """``dx = dy * cosh(x)``."""
    return at.dy * finite(at.op.Cosh(x))


@in_float32
def Cosh(at, x):
    """``dx = dy * sinh(x)``."""
    return at.dy * bounded(at.op.Sinh(x))


@in_float32
def Tanh(at, x):
    """``dx = dy * (1 - y ** 2)``."""
    return at.dy * (1 - at.y * at.y)


@in_float32
def Asinh(at, x):
    """``dx = dy / sqrt(x ** 2 + 1)``."""
    return at.dy / at.op.Sqrt(x * x + 1)


@in_float32
def Acosh(at, x):
    """``dx = dy / sqrt(x ** 2 - 1)``."""
    return at.dy / root((x - 1) * (x + 1))


@in_float32
def Atanh(at, x):
    """``dx = dy / (1 - x ** 2)``."""
    return at.dy / nonzero((1 - x) * (x + 1))


def Max(at, *inputs):
    """``dx = dy`` for the input that is the largest; inputs that are equally large share it."""
    return _extreme(at, inputs, lambda a, b: (a > b, a >= b))


def Min(at, *inputs):
    """``dx = dy`` for the input that is the smallest; inputs that are equally small share it."""
    return _extreme(at, inputs, lambda a, b: (a < b, a <= b))


def _extreme(at, inputs, wins):
    if len(inputs) == 1:
        return at.dy
    if len(inputs) == 2:
        a, b = inputs
        alone, shared = (mask(condition, at.dy) for condition in wins(a, b))
        da = at.dy * ((alone + shared) * 0.5)
        return at.op.sum_to(da, a), at.op.sum_to(at.dy - da, b)
    chosen = [mask(x.equals(at.y), at.dy) for x in inputs]
    share = at.dy / at.op.Max(at.op.Sum(*chosen), 1)
    return [at.op.sum_to(share * c, x) for x, c in zip(inputs, chosen, strict=True)]


def Clip(at, x, low=None, high=None):
    """``dx = dy`` where ``x`` is within its bounds or on them; elsewhere the bound that holds gets ``dy``."""
    if not _ordered(low, high):
        inside, below = (x >= low) & (x <= high), (x < low) & (low <= high)
        above = ~(inside | below)
    else:
        inside = x.equals(at.y)
        below, above = x < at.y, x > at.y
    bounds = [
        at.op.sum_to(where(beyond, at.dy), bound) if at.wants(i) else None
        for i, bound, beyond in ((1, low, below), (2, high, above))
    ]
    return where(inside, at.dy), *bounds


def _ordered(low, high):
    """Whether the lower bound is certainly not above the upper one."""
    if low is None or high is None:
        return True
    return low.known is not None and high.known is not None and bool(low.known.max() <= high.known.min())


def Where(at, condition, x, y):
    """``dx = dz`` where the condition holds, ``dy = dz`` elsewhere."""
    dx = where(condition, at.dy)
    return None, at.op.sum_to(dx, x), at.op.sum_to(at.dy - dx, y)


def base_gradient(at, x, exponent):
    """``dz * y * x ** (y - 1)`` for the exponent ``y``."""
    constant = exponent.known
    if constant is not None and constant.size == 1:
        return at.op.sum_to(_by_number(at, x, float(constant.reshape(()))), x)
    y = exponent.cast(x)
    slope = _slope(at, x, y - 1, x.equals(0) & (y < 1))
    return at.op.sum_to(at.dy * y * slope, x)


def _by_number(at, x, y):
    if y == 0:
        return at.op.zeros_like(at.dy)
    if y == 1:
        return at.dy
    if y == 2:
        return at.dy * (x + x)
    if y == 0.5:
        return at.dy / root(x) * 0.5
    scaled = at.dy * y
    if y in (1.5, 3):
        return scaled * (root(x) if y == 1.5 else x * x)
    return scaled * (at.op.Pow(x, y - 1) if y > 1 else _slope(at, x, y - 1, x.equals(0)))


def _slope(at, x, power, infinite):
    """``x ** power``, and a large number where it is infinite: times a gradient of 0, or an exponent of 0, it is 0."""
    chosen = mask(infinite, x)
    return at.op.Pow(x + chosen, power) + chosen * steep(x.dtype)


def exponent_gradient(at, x, exponent):
    """``dz * z * log(x)``; the power of a negative number has no derivative with respect to its exponent: 0."""
    base = x.cast(at.y.dtype)
    above = base > 0
    log = at.op.Log(where(above, base) + mask(~above, base))
    gradient = where(above, at.dy * at.y) * log
    return at.op.sum_to(gradient, exponent).cast(exponent)
