"""Unsigned integers of 16 bits and more, for which torch stores arrays but has hardly any operators.

Those of 16 and 32 bits are computed with as int64. Those of 64 bits are so as long as only bits matter. Where their order
matters, all have their first bit flipped, which maps their order onto that of int64; what remains has code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Site, Slot
from deep_bench.adapters.lowering.plan import NotKnownYet
from deep_bench.adapters.torch.arrays import TYPES as _TORCH
from deep_bench.adapters.torch.operators._site import Builder
from deep_bench.tensor import is_float

TYPES = frozenset(np.dtype(f"uint{bits}") for bits in (16, 32, 64))

# Operators whose result has the same bits for signed integers: sums and products wrap around in both.
# fmt: off
_AS_BITS = frozenset((
    "Add", "Sub", "Mul", "Neg", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Equal", "Where", "Concat",
    "Split", "Slice", "Expand", "Tile", "Gather", "GatherND", "GatherElements", "ScatterND", "ScatterElements",
    "Compress", "OneHot", "ReverseSequence", "Trilu", "DepthToSpace", "SpaceToDepth", "Pad", "NonZero",
    "ConstantOfShape", "ReduceSum", "ReduceProd", "CumSum", "CumProd", "MatMul", "TensorScatter",
))
_ORDERED = frozenset((
    "ArgMax", "ArgMin", "Clip", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "ReduceMax",
    "ReduceMin", "ScatterElements", "ScatterND", "TopK", "Unique",
))
# fmt: on

_REDUCTIONS_THAT_COMPARE = ("max", "min")
_FIRST_BIT = -(2**63)


def build(site: Site, builder: Builder) -> Callable[..., Any]:
    """Code that computes with signed integers.

    Raises:
        NotNative: It has none for uint64.
    """
    same_bits = site.operator in _AS_BITS and site.attribute("reduction") not in _REDUCTIONS_THAT_COMPARE
    types = {s.dtype for s in (*site.inputs, *site.outputs) if s is not None}
    if None in types:
        unknown = any(s is not None and s.dtype is None for s in site.inputs)
        reason = "the type of its result is not known"
        raise NotKnownYet(reason) if unknown else NotNative(reason)
    flips = not same_bits and np.dtype("uint64") in types
    if flips and site.operator in _ARITHMETIC:
        return _ARITHMETIC[site.operator](site)
    if flips and site.operator not in _ORDERED:
        raise NotNative("torch does not compute with uint64")

    def signed(dtype: np.dtype | None) -> np.dtype | None:
        if dtype not in TYPES:
            return dtype
        return np.dtype(f"int{8 * dtype.itemsize}") if same_bits else np.dtype("int64")

    def as_signed(slot: Slot | None) -> Slot | None:
        if slot is None or slot.dtype not in TYPES:
            return slot
        kind = signed(slot.dtype)
        constant = None if slot.constant is None or kind is None else slot.constant.astype(kind)
        if constant is not None and flips:
            constant = constant ^ np.int64(_FIRST_BIT)
        return replace(slot, dtype=kind, constant=constant)

    for index in range(len(site.inputs)):
        site.constant(index)  # noted as read: the changed site holds copies
    inner = builder(
        Site(
            site.name,
            site.operator,
            site.opset,
            {n: v.astype(signed(v.dtype)) if isinstance(v, np.ndarray) else v for n, v in site.attributes.items()},
            tuple(as_signed(s) for s in site.inputs),
            tuple(as_signed(s) for s in site.outputs),
        )
    )
    call = inner.forward if isinstance(inner, torch.nn.Module) else inner
    into = [_torch(as_signed(s)) if _changes(s) else None for s in site.inputs]
    back = [_torch(s) if _changes(s) else None for s in site.outputs]
    return _ThroughSigned(call, into, back, "flip" if flips else "view" if same_bits else "convert")


def _changes(slot: Slot | None) -> bool:
    return slot is not None and slot.dtype in TYPES


def _torch(slot: Slot | None) -> torch.dtype | None:
    return None if slot is None or slot.dtype is None else _TORCH[slot.dtype]


class _ThroughSigned:
    """Inputs to signed, outputs back."""

    def __init__(self, call: Callable[..., Any], into: list[Any], back: list[Any], how: str) -> None:
        self.call, self.into, self.back, self.how = call, into, back, how

    def __call__(self, *inputs: Any) -> Any:
        result = self.call(*(self._change(x, t) for x, t in zip(inputs, self.into, strict=True)))
        if len(self.back) == 1:
            return self._change(result, self.back[0])
        return tuple(self._change(y, t) for y, t in zip(result, self.back, strict=False))

    def _change(self, x: Any, to: torch.dtype | None) -> Any:
        if to is None or x is None:
            return x
        if self.how == "flip":
            return (x.view(torch.int64) ^ _FIRST_BIT).view(to)
        return x.view(to) if self.how == "view" else x.to(to)


# Arithmetic of uint64 that is neither of bits nor of order. Every function takes and returns int64 with the same bits.


def _below(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a ^ _FIRST_BIT) < (b ^ _FIRST_BIT)


def _divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Half the dividend is a signed number, and twice its quotient is at most one too small (Warren, section 9-3)."""
    half = (a >> 1) & ~_FIRST_BIT
    small = torch.where(b < 0, 1, b)
    quotient = torch.div(half, small, rounding_mode="trunc") << 1
    quotient = quotient + torch.where(_below(a - quotient * small, small), 0, 1)
    return torch.where(b < 0, torch.where(_below(a, b), 0, 1), quotient)


def _remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a - _divide(a, b) * b


def _shift_left(a: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return torch.where(_below(n, torch.full_like(n, 64)), torch.bitwise_left_shift(a, n & 63), 0)


def _shift_right(a: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    halved = torch.bitwise_right_shift((a >> 1) & ~_FIRST_BIT, (n - 1) & 63)
    return torch.where(n == 0, a, torch.where(_below(n, torch.full_like(n, 64)), halved, 0))


def _of_bits(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return function(a.view(torch.int64), b.view(torch.int64)).view(torch.uint64)

    return call


def _shift(site: Site) -> Callable[..., Any]:
    return _of_bits(_shift_left if site.attribute("direction") == "LEFT" else _shift_right)


def _power(site: Site) -> Callable[..., Any]:
    base = site.input(0)
    if base is None or base.dtype is None or not is_float(base.dtype):
        raise NotNative("torch raises floating-point numbers only to powers in uint64")
    kind = _TORCH[base.dtype]
    return lambda x, n: torch.pow(x.double(), n.to(torch.float64)).to(kind)


_ARITHMETIC: Mapping[str, Builder] = {
    "BitShift": _shift,
    "Div": lambda _: _of_bits(_divide),
    "Mod": lambda _: _of_bits(_remainder),
    "Pow": _power,
}
