"""Faults of the contributed operators, compared with ONNX Runtime's own documentation."""

from __future__ import annotations

from deep_bench.adapters.onnxruntime import contrib_conditions as conditions
from deep_bench.fault import KnownFault

_DOMAIN = "com.microsoft"

FAULTS = (
    KnownFault(
        "contrib_absent_zero_point",
        (f"{_DOMAIN}:QLinearAdd", f"{_DOMAIN}:QLinearAveragePool", f"{_DOMAIN}:QLinearMul"),
        "fails",
        "The zero points of the inputs are optional; ONNX Runtime refuses the network where one is left out.",
        applies=conditions.lacks_a_zero_point,
    ),
    KnownFault(
        "contrib_causal_last_query",
        (f"{_DOMAIN}:MultiHeadAttention",),
        "wrong values",
        "With unidirectional a query attends to no later key; where there are more keys than queries ONNX Runtime aligns "
        "the first ones and shows the last query all keys nevertheless.",
        applies=conditions.has_more_keys_than_causal_queries,
    ),
    KnownFault(
        "contrib_empty_product",
        (f"{_DOMAIN}:DynamicQuantizeMatMul",),
        "wrong values",
        "A sum over no products is 0; ONNX Runtime leaves what the memory held before.",
        applies=conditions.may_multiply_nothing,
    ),
    KnownFault(
        "contrib_n_bits_groups",
        (f"{_DOMAIN}:MatMulNBits",),
        "wrong values",
        "The weights have the stated number of bits; where their groups are an input, g_idx, ONNX Runtime reads weights of "
        "two bits as if they had four.",
        applies=conditions.groups_two_bits,
    ),
    KnownFault(
        "contrib_n_bits_zero_points",
        (f"{_DOMAIN}:MatMulNBits",),
        "wrong values",
        "Zero points may be packed as the weights are; where the groups are an input, g_idx, ONNX Runtime takes the default "
        "instead of them.",
        applies=conditions.groups_with_packed_zero_points,
    ),
    KnownFault(
        "contrib_rotary_scale",
        (f"{_DOMAIN}:RotaryEmbedding",),
        "wrong values",
        "A custom scale is used if it is stated; in ONNX Runtime it changes nothing.",
        applies=conditions.states_a_scale,
    ),
    KnownFault(
        "contrib_trailing_zero_point",
        (f"{_DOMAIN}:QLinearLeakyRelu", f"{_DOMAIN}:QLinearSigmoid"),
        "crashes",
        "The zero point of the output is optional; where it is left out ONNX Runtime reads what is not there and the "
        "process ends while the session is made.",
        applies=conditions.lacks_the_last_zero_point,
    ),
)
