"""Element types and shapes of ONNX Runtime's own operators, of which the standard knows nothing.

An adapter has no code for these nodes, but for those after them, and that depends on what comes in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from deep_bench.adapters.lowering.facts import Fact, Shape

Inputs = Sequence[Fact | None]
_FLOAT, _INT32, _INT64 = (np.dtype(t) for t in (np.float32, np.int32, np.int64))

_TYPES: Mapping[str, tuple[int | np.dtype, ...]] = {
    "DequantizeLinear": (1,),
    "EmbedLayerNormalization": (2, _INT32, 2),
    "GatherBlockQuantized": (2,),
    "MatMulIntegerToFloat": (2,),
    "QAttention": (2, 2),
    "QEmbedLayerNormalization": (8, _INT32),
    "QLinearConcat": (1,),
    "QLinearConv": (7,),
    "QLinearWhere": (1,),
    "SimplifiedLayerNormalization": (1, _FLOAT),
    "SkipLayerNormalization": (0, _FLOAT, _FLOAT, 0),
    "SkipSimplifiedLayerNormalization": (0, _FLOAT, _FLOAT, 0),
    "Unique": (0, _INT64, _INT64),
}
"""For each output its element type, or the number of the input that it is that of."""

_LIKE_THE_FIRST = frozenset(
    """
    Attention BiasAdd BiasGelu BiasSoftmax BiasSplitGelu CDist ConvTransposeWithDynamicPads CropAndResize DynamicQuantizeLSTM
    DynamicQuantizeMatMul ExpandDims FastGelu FusedConv FusedGemm FusedMatMul GatherND Gelu GridSample GroupNorm Inverse
    GroupQueryAttention MatMulNBits MultiHeadAttention NhwcMaxPool Pad QLinearAdd QLinearAveragePool QLinearGlobalAveragePool
    QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QuickGelu Range RotaryEmbedding ScaledSiLU TransposeMatMul
    Trilu
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Operators whose results all have the first input's element type."""

_SAME_SHAPE = frozenset(
    """
    BiasAdd BiasGelu BiasSoftmax DequantizeLinear FastGelu Gelu GroupNorm Inverse QLinearLeakyRelu QLinearSigmoid
    QLinearSoftmax QuantizeLinear QuickGelu RotaryEmbedding ScaledSiLU SimplifiedLayerNormalization SkipLayerNormalization
    SkipSimplifiedLayerNormalization Trilu
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Operators whose first result has the first input's shape."""

_SAME_RANK = frozenset(
    """
    BiasSplitGelu ConvTransposeWithDynamicPads FusedConv FusedGemm NhwcMaxPool QGemm QLinearAveragePool QLinearConv
    QLinearGlobalAveragePool Pad GridSample CropAndResize
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Operators whose result has as many axes as the first input."""


def infer_contrib(node: ir.Node, inputs: Inputs) -> list[tuple[np.dtype | None, Shape | None, None]]:
    """Element type and shape of each output, as far as the inputs tell."""
    types = [_type(node, inputs, index) for index in range(len(node.outputs))]
    shapes: list[Shape | None] = [None] * len(types)
    shapes[0] = _shape(node, inputs)
    return [(dtype, shape, None) for dtype, shape in zip(types, shapes, strict=True)]


def _type(node: ir.Node, inputs: Inputs, output: int) -> np.dtype | None:
    if node.op_type == "QuantizeLinear":
        return _of(inputs, 2) if _given(inputs, 2) else np.dtype(np.uint8)
    if node.op_type == "QGemm":
        return _of(inputs, 8) if _given(inputs, 7) else _FLOAT
    rule = (0,) * len(node.outputs) if node.op_type in _LIKE_THE_FIRST else _TYPES.get(node.op_type, ())
    source = rule[output] if output < len(rule) else None
    return _of(inputs, source) if isinstance(source, int) else source


def _given(inputs: Inputs, index: int) -> bool:
    return index < len(inputs) and inputs[index] is not None


def _of(inputs: Inputs, index: int) -> np.dtype | None:
    fact = inputs[index] if index < len(inputs) else None
    return None if fact is None else fact.dtype


def _shape(node: ir.Node, inputs: Inputs) -> Shape | None:
    shape = _sizes(inputs, 0)
    if node.op_type in _SAME_SHAPE:
        return shape
    if node.op_type in _SAME_RANK:
        return None if shape is None else (None,) * len(shape)
    rule = _SHAPES.get(node.op_type)
    return None if rule is None else rule(node, inputs)


def _sizes(inputs: Inputs, index: int) -> Shape | None:
    fact = inputs[index] if index < len(inputs) else None
    return None if fact is None else fact.shape


def _of_matrix(_node: ir.Node, inputs: Inputs) -> Shape | None:
    """The shape of a product with a matrix on the right."""
    a, b = _sizes(inputs, 0), _sizes(inputs, 1)
    return None if a is None or b is None or len(b) != 2 or not a else (*a[:-1], b[1])


def _of_packed(node: ir.Node, inputs: Inputs) -> Shape | None:
    a = _sizes(inputs, 0)
    return None if not a else (*a[:-1], node.attributes["N"].as_int())


def _of_either(first: int, second: int) -> Callable[[ir.Node, Inputs], Shape | None]:
    """Of two inputs that broadcast: as many axes as the one with more."""

    def rule(_node: ir.Node, inputs: Inputs) -> Shape | None:
        a, b = _sizes(inputs, first), _sizes(inputs, second)
        return None if a is None or b is None else (None,) * max(len(a), len(b))

    return rule


def _open(rank: int) -> Callable[[ir.Node, Inputs], Shape | None]:
    return lambda _node, _inputs: (None,) * rank


_SHAPES: Mapping[str, Callable[[ir.Node, Inputs], Shape | None]] = {
    "Attention": _open(3),
    "DynamicQuantizeLSTM": _open(4),
    "DynamicQuantizeMatMul": _of_matrix,
    "EmbedLayerNormalization": _open(3),
    "GroupQueryAttention": _open(3),
    "MatMulIntegerToFloat": _of_matrix,
    "MatMulNBits": _of_packed,
    "MultiHeadAttention": _open(3),
    "QAttention": _open(3),
    "QEmbedLayerNormalization": _open(3),
    "QLinearAdd": _of_either(0, 3),
    "QLinearMul": _of_either(0, 3),
    "Range": _open(1),
}
