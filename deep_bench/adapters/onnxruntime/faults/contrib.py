"""Faults of the contributed operators, compared with ONNX Runtime's own documentation; and which nodes may meet them."""

from __future__ import annotations

import onnx_ir as ir

from deep_bench.adapters.onnxruntime.faults.conditions import shape_of, value_of
from deep_bench.fault import KnownFault
from deep_bench.graph import attributes


def lacks_a_zero_point(node: ir.Node) -> bool:
    """Whether a quantized input comes without its zero point."""
    zero_points = (2,) if node.op_type == "QLinearAveragePool" else (2, 5)
    return any(value_of(node, index) is None for index in zero_points)


def has_more_keys_than_causal_queries(node: ir.Node) -> bool:
    """Whether attention to earlier keys only may have more keys than queries."""
    if not attributes(node).get("unidirectional", 0) or (value_of(node, 1) is None and value_of(node, 6) is None):
        return False
    queries, keys = _length(shape_of(node, 0)), _length(shape_of(node, 1))
    return value_of(node, 6) is not None or queries is None or keys is None or keys > queries


def may_multiply_nothing(node: ir.Node) -> bool:
    """Whether the weights of a product may have no rows."""
    weights = shape_of(node, 1)
    return weights is None or weights[0] in (None, 0)


def groups_two_bits(node: ir.Node) -> bool:
    """Whether weights of two bits come with their groups."""
    return attributes(node).get("bits", 4) == 2 and value_of(node, 4) is not None


def groups_with_packed_zero_points(node: ir.Node) -> bool:
    """Whether weights come with their groups, and with zero points that may be packed."""
    zero_points = value_of(node, 3)
    return value_of(node, 4) is not None and zero_points is not None and zero_points.dtype in (None, ir.DataType.UINT8)


def states_a_scale(node: ir.Node) -> bool:
    """Whether rotations are to be scaled."""
    return bool(attributes(node).get("scale", 1.0) != 1.0)


def lacks_the_last_zero_point(node: ir.Node) -> bool:
    """Whether the zero point of the output is left out."""
    return value_of(node, 4) is None


def _length(shape: tuple[int | None, ...] | None) -> int | None:
    """The length of a sequence: of shape [batch, length, hidden], [batch, heads, length, size], or packed by heads."""
    if shape is None:
        return None
    return shape[-2] if len(shape) in (3, 4) else shape[1]


_DOMAIN = "com.microsoft"

FAULTS = (
    KnownFault(
        "contrib_absent_zero_point",
        (f"{_DOMAIN}:QLinearAdd", f"{_DOMAIN}:QLinearAveragePool", f"{_DOMAIN}:QLinearMul"),
        "fails",
        "The zero points of the inputs are optional; ONNX Runtime refuses the network where one is left out.",
        applies=lacks_a_zero_point,
    ),
    KnownFault(
        "contrib_causal_last_query",
        (f"{_DOMAIN}:MultiHeadAttention",),
        "wrong values",
        "With unidirectional a query attends to no later key; where there are more keys than queries ONNX Runtime aligns "
        "the first ones and shows the last query all keys nevertheless.",
        applies=has_more_keys_than_causal_queries,
    ),
    KnownFault(
        "contrib_empty_product",
        (f"{_DOMAIN}:DynamicQuantizeMatMul",),
        "wrong values",
        "A sum over no products is 0; ONNX Runtime leaves what the memory held before.",
        applies=may_multiply_nothing,
    ),
    KnownFault(
        "contrib_n_bits_groups",
        (f"{_DOMAIN}:MatMulNBits",),
        "wrong values",
        "The weights have the stated number of bits; where their groups are an input, g_idx, ONNX Runtime reads weights of "
        "two bits as if they had four.",
        applies=groups_two_bits,
    ),
    KnownFault(
        "contrib_n_bits_zero_points",
        (f"{_DOMAIN}:MatMulNBits",),
        "wrong values",
        "Zero points may be packed as the weights are; where the groups are an input, g_idx, ONNX Runtime takes the default "
        "instead of them.",
        applies=groups_with_packed_zero_points,
    ),
    KnownFault(
        "contrib_rotary_scale",
        (f"{_DOMAIN}:RotaryEmbedding",),
        "wrong values",
        "A custom scale is used if it is stated; in ONNX Runtime it changes nothing.",
        applies=states_a_scale,
    ),
    KnownFault(
        "contrib_trailing_zero_point",
        (f"{_DOMAIN}:QLinearLeakyRelu", f"{_DOMAIN}:QLinearSigmoid"),
        "crashes",
        "The zero point of the output is optional; where it is left out ONNX Runtime reads what is not there and the "
        "process ends while the session is made.",
        applies=lacks_the_last_zero_point,
    ),
)
