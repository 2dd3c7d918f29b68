"""Nodes whose result is known when the network is prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.adapters.lowering.facts import Fact
from deep_bench.adapters.lowering.reference import bound, reference

LIMIT = 2**20
"""Results up to this many bytes are computed once and kept; larger ones are computed in each call."""

_RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
_VIEWS = {"Cast", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators whose result is hardly larger than their input, so that folding them costs no memory."""

_GROWING = {"ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Resize", "Tile"}
"""Operators whose result can be much larger than their inputs: folded only if its shape is known."""


def fold(
    node: ir.Node, inputs: Sequence[Fact | None], outputs: Sequence[Fact], attributes: Mapping[str, Any]
) -> list[np.ndarray] | None:
    """The node's results, if all its inputs are known, they are the same each time, and they are small."""
    if node.op_type in _RANDOM or not all(f is None or f.constant is not None for f in inputs):
        return None
    function = reference(node)
    if function is None or not _is_small(node, inputs, outputs):
        return None
    try:
        result = bound(function, attributes, len(outputs))(*(None if f is None else f.constant for f in inputs))
    except Exception:
        return None  # not computable now: it fails in the run, with the adapter's own message
    arrays = [result] if len(outputs) == 1 else list(result)
    if len(arrays) != len(outputs) or not all(isinstance(a, np.ndarray | np.generic) for a in arrays):
        return None
    arrays = [np.asarray(a) for a in arrays]
    fits = node.op_type in _VIEWS or sum(a.nbytes for a in arrays) <= LIMIT
    return arrays if fits else None


def _is_small(node: ir.Node, inputs: Sequence[Fact | None], outputs: Sequence[Fact]) -> bool:
    if node.op_type in _VIEWS:
        return True
    shapes = [f.static_shape for f in outputs]
    if all(s is not None for s in shapes):
        sizes = [int(np.prod(s)) * (f.dtype.itemsize if f.dtype else 8) for s, f in zip(shapes, outputs, strict=True) if s]
        return sum(sizes) <= LIMIT
    input_bytes = sum(f.constant.nbytes for f in inputs if f is not None and f.constant is not None)
    return node.op_type not in _GROWING and input_bytes <= LIMIT
