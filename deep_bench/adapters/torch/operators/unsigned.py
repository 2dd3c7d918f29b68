"""Unsigned integers of 16 bits and more, for which torch stores arrays but has hardly any operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Site, Slot
from deep_bench.adapters.torch.arrays import TYPES as _TORCH
from deep_bench.adapters.torch.operators._site import Builder

TYPES = frozenset(np.dtype(f"uint{bits}") for bits in (16, 32, 64))

# Operators whose result has the same bits for signed integers: sums and products wrap around in both.
# fmt: off
_AS_BITS = frozenset((
    "Add", "Sub", "Mul", "Neg", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Equal", "Where", "Concat",
    "Split", "Slice", "Expand", "Tile", "Gather", "GatherND", "GatherElements", "ScatterND", "ScatterElements",
    "Compress", "OneHot", "ReverseSequence", "Trilu", "DepthToSpace", "SpaceToDepth", "Pad", "NonZero",
    "ConstantOfShape", "ReduceSum", "ReduceProd", "CumSum", "CumProd", "MatMul",
))
# fmt: on

_REDUCTIONS_THAT_COMPARE = ("max", "min")


def build(site: Site, builder: Builder) -> Callable[..., Any]:
    """Code that computes with signed integers: those of the same bits, or int64 where comparing or dividing."""
    same_bits = site.operator in _AS_BITS and site.attribute("reduction") not in _REDUCTIONS_THAT_COMPARE
    types = {s.dtype for s in (*site.inputs, *site.outputs) if s is not None}
    if not same_bits and np.dtype("uint64") in types:
        raise NotNative("torch does not compare or divide uint64")

    def signed(dtype: np.dtype | None) -> np.dtype | None:
        if dtype not in TYPES:
            return dtype
        return np.dtype(f"int{8 * dtype.itemsize}") if same_bits else np.dtype("int64")

    def as_signed(slot: Slot | None) -> Slot | None:
        if slot is None or slot.dtype not in TYPES:
            return slot
        kind = signed(slot.dtype)
        constant = None if slot.constant is None or kind is None else slot.constant.astype(kind)
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
    return _Signed(call, into, back, same_bits)


def _changes(slot: Slot | None) -> bool:
    return slot is not None and slot.dtype in TYPES


def _torch(slot: Slot | None) -> torch.dtype | None:
    return None if slot is None or slot.dtype is None else _TORCH[slot.dtype]


class _Signed:
    """Inputs to signed, outputs back."""

    def __init__(self, call: Callable[..., Any], into: list[Any], back: list[Any], same_bits: bool) -> None:
        self.call, self.into, self.back, self.same_bits = call, into, back, same_bits

    def __call__(self, *inputs: Any) -> Any:
        result = self.call(*(self._change(x, t) for x, t in zip(inputs, self.into, strict=True)))
        if len(self.back) == 1:
            return self._change(result, self.back[0])
        return tuple(self._change(y, t) for y, t in zip(result, self.back, strict=False))

    def _change(self, x: Any, to: torch.dtype | None) -> Any:
        if to is None or x is None:
            return x
        return x.view(to) if self.same_bits else x.to(to)
