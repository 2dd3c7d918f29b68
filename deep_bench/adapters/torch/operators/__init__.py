"""Native code for ONNX operators: one builder each, grouped in the families of the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Plan, Site, Slot, output_types
from deep_bench.adapters.lowering.plan import NotKnownYet
from deep_bench.adapters.torch.arrays import TYPES, is_foreign, numpy_dtype
from deep_bench.adapters.torch.operators import (
    activation,
    attention,
    control,
    convolution,
    elementwise,
    generate,
    image,
    indexing,
    linear,
    loss,
    normalization,
    pooling,
    quantize,
    recurrent,
    reduction,
    sequence,
    shape,
    signal,
    text,
    training,
    unsigned,
)
from deep_bench.adapters.torch.operators._site import Builder
from deep_bench.errors import UnsupportedOperator
from deep_bench.tensor import STRING, is_float

_FAMILIES = (
    activation,
    attention,
    control,
    convolution,
    elementwise,
    generate,
    image,
    indexing,
    linear,
    loss,
    normalization,
    pooling,
    quantize,
    recurrent,
    reduction,
    sequence,
    shape,
    signal,
    text,
)

OPERATORS: Mapping[str, Builder] = MappingProxyType(
    {name: getattr(family, name) for family in _FAMILIES for name in family.__all__}
    | {f"{training.DOMAIN}:{name}": getattr(training, name) for name in training.__all__}
)
"""Each operator that torch has code for, to its builder."""

# fmt: off
_COPIES_ANYTHING = frozenset((
    "Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "Reshape", "Flatten", "Squeeze", "Unsqueeze",
    "Transpose", "Shape", "Size", "BitCast", "If", "Loop", "Scan", "Identity", "Optional", "OptionalHasElement",
    "OptionalGetElement", "SequenceConstruct", "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength",
    "SequenceEmpty", "SequenceMap", "ConcatFromSequence", "SplitToSequence",
))
_PASSES_ANYTHING = frozenset((
    "If", "Loop", "Scan", "Identity", "Optional", "OptionalHasElement", "OptionalGetElement", "SequenceConstruct",
    "SequenceAt", "SequenceInsert", "SequenceErase", "SequenceLength", "SequenceEmpty", "SequenceMap",
))
# fmt: on
_SMALL = frozenset(np.dtype(getattr(ml_dtypes, n)) for n in ("int4", "uint4", "int2", "uint2", "float8_e8m0fnu"))
_FLOAT8 = frozenset(t for t in TYPES if is_float(t) and t.itemsize == 1)
_TAKES_FLOAT8 = frozenset(("ConstantOfShape", "IsInf", "IsNaN", "Pad"))


def build(site: Site) -> Callable[..., Any]:
    """Native code for a site.

    Raises:
        NotNative: There is none; the reason says why.
    """
    builder = OPERATORS.get(site.operator)
    if builder is None:
        raise NotNative(f"torch has no code for {site.operator}")
    types = {s.dtype for s in (*site.inputs, *site.outputs) if s is not None and s.dtype is not None}
    _check_types(site, types)
    holds_graphs = any(isinstance(v, Plan) for v in site.attributes.values())
    if not holds_graphs and site.operator not in _COPIES_ANYTHING and any(map(_is_unknown, site.inputs)):
        return Deferred(site, builder)
    try:
        return _build(site, builder, types)
    except NotKnownYet:
        if holds_graphs:
            raise
        return Deferred(site, builder)


def _is_unknown(slot: Slot | None) -> bool:
    return slot is not None and slot.dtype is None


def _check_types(site: Site, types: Set[np.dtype]) -> None:
    lacking = sorted("strings" if t == STRING else str(t) for t in types if is_foreign(t))
    if lacking and site.operator not in _PASSES_ANYTHING:
        raise NotNative(f"torch has no tensors of {lacking[0]}")


def _build(site: Site, builder: Builder, types: Set[np.dtype]) -> Callable[..., Any]:
    if site.operator in _COPIES_ANYTHING:
        return builder(site)
    small = sorted(str(t) for t in types & (_SMALL if site.operator in _TAKES_FLOAT8 else _SMALL | _FLOAT8))
    if small:
        raise NotNative(f"torch stores {small[0]}, but does not compute with it")
    if types & unsigned.TYPES:
        return unsigned.build(site, builder)
    return builder(site)


class Deferred:
    """Code that is built when it first runs, from the types and ranks that come; once for each.

    Args:
        site: What is known before.
        builder: The operator's builder.
    """

    def __init__(self, site: Site, builder: Builder) -> None:
        self.site, self.builder = site, builder
        self._built: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *inputs: Any) -> Any:
        key = tuple((x.dtype, x.ndim) if isinstance(x, torch.Tensor | np.ndarray) else None for x in inputs)
        if key not in self._built:
            self._built[key] = self._build(inputs)
        return self._built[key](*inputs)

    def _build(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        slots = tuple(_with_known(s, x) for s, x in zip(self.site.inputs, inputs, strict=True))
        site = replace(self.site, inputs=slots)
        outputs = tuple(
            s if s is None or s.dtype is not None else replace(s, dtype=dtype)
            for s, dtype in zip(site.outputs, output_types(site), strict=True)
        )
        site = replace(site, outputs=outputs)
        types = {s.dtype for s in (*slots, *outputs) if s is not None and s.dtype is not None}
        try:
            _check_types(site, types)
            code = _build(site, self.builder, types)
        except NotNative as refusal:
            raise UnsupportedOperator(site.name, site.operator, site.opset, str(refusal)) from refusal
        if not isinstance(code, torch.nn.Module):
            return code
        device = next((x.device for x in inputs if isinstance(x, torch.Tensor)), None)
        return code.to(device).forward


def _with_known(slot: Slot | None, x: Any) -> Slot | None:
    if slot is None or not isinstance(x, torch.Tensor | np.ndarray):
        return slot
    shape = slot.shape if slot.shape is not None else (None,) * x.ndim
    return replace(slot, dtype=numpy_dtype(x.dtype) if isinstance(x, torch.Tensor) else x.dtype, shape=shape)
