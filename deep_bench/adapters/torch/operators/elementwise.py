"""Arithmetic, comparison, logic, mathematical functions and casts, element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, kind_of
from deep_bench.adapters.torch.arrays import SMALL
from deep_bench.adapters.torch.operators._site import Builder, Tensor, number, output_type, torch_type

__all__ = [
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitCast", "BitShift", "BitwiseAnd",
    "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Clip", "Cos", "Cosh", "Div", "Equal",
    "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual", "Log",
    "Max", "Mean", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "Round", "Sign", "Sin", "Sinh",
    "Sqrt", "Sub", "Sum", "Tan", "Where", "Xor",
]  # fmt: skip


def _builder_of(function: Any) -> Builder:
    """An operator that torch has under the same semantics."""

    def builder(_: Site) -> Callable[..., Tensor]:
        return function

    return builder


Abs, Neg, Exp, Log, Sqrt, Reciprocal, Erf = map(
    _builder_of, (torch.abs, torch.neg, torch.exp, torch.log, torch.sqrt, torch.reciprocal, torch.erf)
)
Sin, Cos, Tan, Sinh, Cosh = map(_builder_of, (torch.sin, torch.cos, torch.tan, torch.sinh, torch.cosh))
Asin, Acos, Atan, Asinh, Acosh, Atanh = map(
    _builder_of, (torch.asin, torch.acos, torch.atan, torch.asinh, torch.acosh, torch.atanh)
)
Ceil, Floor, Round = map(_builder_of, (torch.ceil, torch.floor, torch.round))
Add, Sub, Mul = map(_builder_of, (torch.add, torch.sub, torch.mul))
And, Or, Xor, Not = map(_builder_of, (torch.logical_and, torch.logical_or, torch.logical_xor, torch.logical_not))
BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot = map(
    _builder_of, (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.bitwise_not)
)
Equal, Less, Greater, LessOrEqual, GreaterOrEqual = map(_builder_of, (torch.eq, torch.lt, torch.gt, torch.le, torch.ge))
Where = _builder_of(torch.where)


def Identity(_: Site) -> Callable[..., Any]:
    """The value itself."""
    return lambda x: x


def Sign(site: Site) -> Callable[..., Tensor]:
    """-1, 0 or 1; NaN of NaN, where `torch.sign` gives 0."""
    if kind_of(site) != "float":
        return torch.sign
    return lambda x: torch.where(x.isnan(), x, torch.sign(x))


def Div(site: Site) -> Callable[..., Tensor]:
    """The quotient; of integers without its fraction."""
    if kind_of(site) == "integer":
        return lambda a, b: torch.div(a, b, rounding_mode="trunc")
    return torch.div


def Mod(site: Site) -> Callable[..., Tensor]:
    """The remainder with the divisor's sign, or with the dividend's for ``fmod``."""
    remainder = torch.fmod if site.attribute("fmod", 0) else torch.remainder
    if kind_of(site) != "float":
        return remainder

    def mod(a: Tensor, b: Tensor) -> Tensor:
        y = remainder(a, b)
        if not b.requires_grad:
            return y
        usual = y.isfinite()  # elsewhere the derivative, a quotient, would be no number, even if nobody uses the element
        return torch.where(usual, remainder(torch.where(usual, a, 0), torch.where(usual, b, 1)), y.detach())

    return mod


def Pow(site: Site) -> Callable[..., Tensor]:
    """The power in the type of the base."""
    base, exponent = torch_type(site), torch_type(site, 1)
    slot = site.input(1)
    power = site.constant(1) if slot is not None and slot.shape is not None and not slot.shape else None
    if power is not None and base.is_floating_point and float(power) in (1.0, 2.0, 3.0):
        value = float(power)
        return lambda x, _: torch.pow(x, value)
    if kind_of(site) == "float" and (kind_of(site, 1) == "integer" or base == exponent):
        return torch.pow
    if kind_of(site) == "integer" and kind_of(site, 1) == "float":
        return lambda x, p: torch.pow(x.double(), p.double()).to(base)
    return lambda x, p: torch.pow(x, p).to(base)


def BitShift(site: Site) -> Callable[..., Tensor]:
    """Bits moved left or right; those moved out are lost, and the sign of a signed integer fills in from the left."""
    last = 8 * dtype_of(site).itemsize - 1
    signed = dtype_of(site).kind == "i"
    if site.attribute("direction") == "LEFT":
        return lambda x, n: torch.where(n <= last, torch.bitwise_left_shift(x, n.clamp(max=last)), 0)
    if signed:
        return lambda x, n: torch.bitwise_right_shift(x, n.clamp(max=last))
    return lambda x, n: torch.where(n <= last, torch.bitwise_right_shift(x, n.clamp(max=last)), 0)


def _fold_inputs(function: Callable[[Tensor, Tensor], Tensor]) -> Builder:
    """An operator of any number of inputs, from left to right."""

    def builder(site: Site) -> Callable[..., Tensor]:
        if len(site.inputs) == 1:
            return lambda x: x
        if len(site.inputs) == 2:
            return function
        return lambda *xs: functools.reduce(function, xs)

    return builder


Max, Min, Sum = _fold_inputs(torch.maximum), _fold_inputs(torch.minimum), _fold_inputs(torch.add)


def Mean(site: Site) -> Callable[..., Tensor]:
    """The mean of the inputs."""
    count = len(site.inputs)
    return lambda *xs: functools.reduce(torch.add, xs) / count


def Clip(site: Site) -> Callable[..., Tensor]:
    """``min(max(x, low), high)``: NaN stays NaN, and ``high`` wins where the limits cross."""
    low, high = number(site, 1), number(site, 2)
    fixed = all(not site.has(i) or site.constant(i) is not None for i in (1, 2))
    if fixed and low is None and high is None:
        return lambda x, *_: x
    if fixed:
        return lambda x, *_: torch.clamp(x, low, high)
    return _clamp


def _clamp(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if low is None and high is None:
        return x
    return torch.clamp(x, low, high)


def IsNaN(site: Site) -> Callable[..., Tensor]:
    """Where the input is not a number."""
    if dtype_of(site).itemsize == 1:
        return lambda x: torch.isnan(x.float())
    return torch.isnan


def IsInf(site: Site) -> Callable[..., Tensor]:
    """Where the input is infinite, of the signs asked for."""
    signs = (site.attribute("detect_negative", 1), site.attribute("detect_positive", 1))
    functions = {(1, 1): torch.isinf, (1, 0): torch.isneginf, (0, 1): torch.isposinf}
    predicate = functions.get(tuple(int(bool(s)) for s in signs))  # type: ignore[arg-type]
    if predicate is None:
        return lambda x: torch.zeros_like(x, dtype=torch.bool)
    if dtype_of(site).itemsize == 1:
        return lambda x: predicate(x.float())
    return predicate


def Cast(site: Site) -> Callable[..., Tensor]:
    """The nearest value of another type; towards zero for integers; 8-bit floats saturate if asked to."""
    return cast(site, output_type(site))


def CastLike(site: Site) -> Callable[..., Tensor]:
    """``Cast`` to the type of the second input."""
    inner = cast(site, output_type(site))
    return lambda x, _: inner(x)


def cast(site: Site, to: torch.dtype) -> Callable[[Tensor], Tensor]:
    """A function that converts the first input's type to ``to``."""
    came = torch_type(site)
    if came == to:
        return lambda x: x
    if to == torch.float8_e8m0fnu:
        return _to_power_of_two(came, site.attribute("round_mode", "up"), bool(site.attribute("saturate", 1)))
    if came == torch.float8_e8m0fnu:
        return from_power_of_two(to)
    if came.is_complex and not to.is_complex:
        raise NotNative("complex numbers have no place in another type")
    if came in SMALL:
        storage, further = SMALL[came][1], _to_small(to) if to in SMALL else None
        return lambda x: further(x.view(storage)) if further else x.view(storage).to(to)
    if to in SMALL:
        return _to_small(to)
    if to.is_floating_point and to.itemsize == 1:
        return _to_float8(to, bool(site.attribute("saturate", 1)))
    if came.is_floating_point and not to.is_floating_point and to != torch.bool and to.itemsize < 8:
        # By way of int64, as the standard's own conversion does: beyond the range, the low bits remain.
        return lambda x: x.to(torch.int64).to(to)
    return lambda x: x.to(to)


def _to_power_of_two(came: torch.dtype, mode: str, saturate: bool) -> Callable[[Tensor], Tensor]:
    """To float8_e8m0fnu, which has nothing but an exponent; torch itself rounds in one way only."""
    limits = {"up": 0.5, "down": 1.0, "nearest": 0.75}
    if mode not in limits or came.is_complex or came in SMALL:
        raise NotNative(f"torch does not round {came} to float8_e8m0fnu with round_mode={mode!r}")
    limit = limits[mode]

    def power(x: Tensor) -> Tensor:
        wide = x.double()
        fraction, exponent = torch.frexp(wide.abs())  # |x| = fraction * 2 ** exponent, 1/2 <= fraction < 1
        exponent = exponent - torch.where(fraction > limit if mode == "up" else fraction >= limit, 0, 1)
        inside = (wide != 0) & (exponent >= -127) & (exponent <= 127) & wide.isfinite()
        outside = torch.where(wide.isinf() | (exponent > 127), 127, -127) if saturate else torch.full_like(exponent, 128)
        bits = 127 + torch.where(inside, exponent, outside)
        return torch.where(wide.isnan(), 255, bits).to(torch.uint8).view(torch.float8_e8m0fnu)

    return power


def from_power_of_two(to: torch.dtype) -> Callable[[Tensor], Tensor]:
    """A function that converts float8_e8m0fnu to ``to``."""
    if not to.is_floating_point or to.itemsize == 1:
        raise NotNative(f"torch converts float8_e8m0fnu to floating-point types of at least 16 bits, not to {to}")

    def number(x: Tensor) -> Tensor:
        exponent = x.view(torch.uint8).to(torch.int64)
        powers = ((exponent - 127 + 1023) << 52).view(torch.float64)  # the exponent of a float64 without a fraction
        return torch.where(exponent == 255, torch.nan, powers).to(to)

    return number


def _to_small(to: torch.dtype) -> Callable[[Tensor], Tensor]:
    width, storage = SMALL[to]
    span, half = 1 << width, (1 << (width - 1)) if storage == torch.int8 else 0

    def small(x: Tensor) -> Tensor:
        return (torch.remainder(x.to(torch.int64) + half, span) - half).to(storage).view(to)

    return small


def _to_float8(to: torch.dtype, saturate: bool) -> Callable[[Tensor], Tensor]:
    largest = torch.finfo(to).max
    beyond_all = torch.inf if to == torch.float8_e5m2 else torch.nan

    def narrow(x: Tensor) -> Tensor:
        wide = x.float()
        if saturate:
            return wide.clamp(-largest, largest).to(to)
        beyond = torch.isinf(wide) | (wide.clamp(-largest, largest).to(to).float().abs() < wide.abs() - _half_step(to))
        special = torch.copysign(torch.full_like(wide, beyond_all), wide)
        return torch.where(beyond, special, wide).to(to)

    return narrow


def _half_step(to: torch.dtype) -> float:
    """Half the distance between the two largest values: what rounding alone takes away."""
    info = torch.finfo(to)
    top = np.floor(np.log2(info.max))
    return float(2.0**top * info.eps / 2)


def BitCast(site: Site) -> Callable[..., Tensor]:
    """The same bits as another type of the same width."""
    to = output_type(site)
    return lambda x: x.contiguous().view(to)
