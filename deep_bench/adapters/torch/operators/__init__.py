"""Native code for ONNX operators: one builder each, grouped in the families of the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.torch.arrays import TYPES
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
    normalization,
    pooling,
    quantize,
    recurrent,
    reduction,
    sequence,
    shape,
    signal,
    unsigned,
)
from deep_bench.adapters.torch.operators._site import Builder

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
    normalization,
    pooling,
    quantize,
    recurrent,
    reduction,
    sequence,
    shape,
    signal,
)

OPERATORS: Mapping[str, Builder] = MappingProxyType(
    {name: getattr(family, name) for family in _FAMILIES for name in family.__all__}
)
"""Each operator that torch has code for, to its builder."""

_COPIES_ANYTHING = frozenset(
    "Cast CastLike QuantizeLinear DequantizeLinear Reshape Flatten Squeeze Unsqueeze Transpose Shape Size BitCast If Loop "
    "Scan Identity Optional OptionalHasElement OptionalGetElement SequenceConstruct SequenceAt SequenceInsert "
    "SequenceErase SequenceLength SequenceEmpty".split()
)
_SMALL = frozenset(np.dtype(getattr(ml_dtypes, n)) for n in ("int4", "uint4", "int2", "uint2", "float8_e8m0fnu"))


def build(site: Site) -> Callable[..., Any]:
    """Native code for a site.

    Raises:
        NotNative: There is none; the reason says why.
    """
    builder = OPERATORS.get(site.operator)
    if builder is None:
        raise NotNative(f"torch has no code for {site.operator}")
    types = {s.dtype for s in (*site.inputs, *site.outputs) if s is not None and s.dtype is not None}
    lacking = sorted(str(t) for t in types if t not in TYPES)
    if lacking:
        raise NotNative(f"torch has no tensors of {lacking[0]}")
    if site.operator in _COPIES_ANYTHING:
        return builder(site)
    small = sorted(str(t) for t in types & _SMALL)
    if small:
        raise NotNative(f"torch stores {small[0]}, but does not compute with it")
    if types & unsigned.TYPES:
        return unsigned.build(site, builder)
    return builder(site)
