"""Operators of ONNX Runtime's own."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from deep_bench.facts.normalization import RMSNormalization
from deep_bench.facts.row import OperatorFacts, Shape, Work, like_first


def SimplifiedLayerNormalization(x: Shape, *, axis: int = -1) -> Work:
    """A `RMSNormalization` by the reciprocal of the root. Source: ONNX Runtime SimplifiedLayerNormalization."""
    return RMSNormalization(x, axis=axis) + Work(flops=prod(x[: axis % len(x)]))


OPERATORS: Mapping[str, OperatorFacts] = {
    "SimplifiedLayerNormalization": OperatorFacts(cost=SimplifiedLayerNormalization),
    "com.microsoft::BiasGelu": OperatorFacts(roles={1: "bias"}, alike=like_first),
    "com.microsoft::DequantizeLinear": OperatorFacts(states_type=True),
    "com.microsoft::FastGelu": OperatorFacts(alike=like_first),
    "com.microsoft::GatherND": OperatorFacts(traffic="picked"),
    "com.microsoft::Gelu": OperatorFacts(alike=like_first),
    "com.microsoft::Pad": OperatorFacts(initializer_settings=(2,), grows=True),
    "com.microsoft::QuantizeLinear": OperatorFacts(states_type=True),
    "com.microsoft::QuickGelu": OperatorFacts(alike=like_first),
    "com.microsoft::Range": OperatorFacts(initializer_settings=(0, 1, 2), grows=True),
    "com.microsoft::SkipLayerNormalization": OperatorFacts(roles={2: "scale", 3: "bias", 4: "bias"}, alike=like_first),
    "com.microsoft::SkipSimplifiedLayerNormalization": OperatorFacts(alike=like_first),
    **{
        f"com.microsoft::{name}": OperatorFacts()
        for name in (
            "Attention",
            "BiasAdd",
            "BiasSoftmax",
            "BiasSplitGelu",
            "CDist",
            "ConvTransposeWithDynamicPads",
            "CropAndResize",
            "DynamicQuantizeLSTM",
            "DynamicQuantizeMatMul",
            "EmbedLayerNormalization",
            "ExpandDims",
            "FusedConv",
            "FusedGemm",
            "FusedMatMul",
            "GatherBlockQuantized",
            "GridSample",
            "GroupNorm",
            "GroupQueryAttention",
            "Inverse",
            "MatMulInteger16",
            "MatMulIntegerToFloat",
            "MatMulNBits",
            "MultiHeadAttention",
            "NhwcMaxPool",
            "QAttention",
            "QEmbedLayerNormalization",
            "QGemm",
            "QLinearAdd",
            "QLinearAveragePool",
            "QLinearConcat",
            "QLinearConv",
            "QLinearGlobalAveragePool",
            "QLinearLeakyRelu",
            "QLinearMul",
            "QLinearSigmoid",
            "QLinearSoftmax",
            "QLinearWhere",
            "RotaryEmbedding",
            "ScaledSiLU",
            "TransposeMatMul",
            "Trilu",
            "Unique",
        )
    },
}
"""The rows, by operator."""
