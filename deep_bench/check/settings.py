"""Which values of a network only set it up: shapes, indices, trip counts, the scales of a resize.

Such values keep the network's own element types even in the oracle: ``floor(0.7f * 10)`` is 7 in float32 and 6 in float64,
and every runtime computes it in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from deep_bench.graph.node import operator_name, subgraphs

SETTING_INPUTS: Mapping[str, frozenset[int]] = {
    operator: frozenset(positions)
    for operators, positions in (
        ("Reshape Expand Tile Split Squeeze Unsqueeze TopK Trilu CumSum Gather GatherElements GatherND", {1}),
        (
            "Scatter ScatterElements ScatterND ReverseSequence CenterCropPad AffineGrid Compress Upsample SplitToSequence",
            {1},
        ),
        ("ReduceMax ReduceMin ReduceMean ReduceSum ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp", {1}),
        ("ReduceSumSquare SequenceAt SequenceErase", {1}),
        ("Shape Size ConstantOfShape EyeLike If RandomNormalLike RandomUniformLike", {0}),
        ("Loop OneHot", {0, 1}),
        ("Pad STFT", {1, 3}),
        ("DFT Col2Im MaxUnpool", {1, 2}),
        ("NonMaxSuppression RoiAlign QuantizeLinear DequantizeLinear", {2}),
        ("Resize", {1, 2, 3}),
        ("Slice", {1, 2, 3, 4}),
        ("QLinearConv", {2, 5, 7}),
        ("QLinearMatMul", {2, 5, 7}),
    )
    for operator in operators.split()
}
"""The inputs of each operator that set it up instead of being computed with."""

_ARITHMETIC = frozenset(
    """
    Add Sub Mul Div Mod Pow Floor Ceil Round Neg Abs Sqrt Exp Log Reciprocal Sign Min Max Sum Mean Clip Relu
    Cast CastLike Identity Concat Gather GatherElements GatherND Slice Squeeze Unsqueeze Reshape Flatten Transpose Split
    Expand Tile Range Where Equal Greater GreaterOrEqual Less LessOrEqual And Or Not Xor Shape Size Constant ConstantOfShape
    ReduceMax ReduceMin ReduceProd ReduceSum ReduceMean CumSum Pad ScatterElements ScatterND OneHot NonZero
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""The operators that shapes and indices are computed with; a result of any other one is data."""


def settings_of(graph: ir.Graph) -> frozenset[str]:
    """The names of the values that only feed settings, through nothing but the arithmetic of shapes and indices."""
    data: set[ir.Value] = set(graph.outputs)
    while True:
        before = len(data)
        _mark_data(graph, data)
        if len(data) == before:
            break
    computed = {str(v.name) for n in graph.all_nodes() for v in n.outputs if _is_setting(v, n, data)}
    return frozenset(computed | {str(v.name) for v in graph.initializers.values() if v.uses() and v not in data})


def _is_setting(value: ir.Value, node: ir.Node, data: set[ir.Value]) -> bool:
    needed = bool(value.uses()) or value.is_graph_output()
    return value not in data and needed and operator_name(node) in _ARITHMETIC


def _mark_data(graph: ir.Graph, data: set[ir.Value]) -> None:
    """One pass from the back: the inputs of whatever computes data are data, settings aside."""
    for node in reversed(graph):
        inner = subgraphs(node)
        if inner:
            _mark_control(node, inner, data)
            continue
        if operator_name(node) in _ARITHMETIC and not any(v in data for v in node.outputs):
            continue
        settings = SETTING_INPUTS.get(operator_name(node), frozenset())
        data.update(v for i, v in enumerate(node.inputs) if v is not None and i not in settings)


def _mark_control(node: ir.Node, inner: Mapping[str, ir.Graph], data: set[ir.Value]) -> None:
    for body in inner.values():
        data.update(_linked(node, body, data))
        _mark_data(body, data)
        skipped = {"If": 0, "Loop": 2}.get(node.op_type, 0)
        fed = list(node.inputs)[skipped:]
        received = list(body.inputs)[skipped:]
        data.update(v for v, b in zip(fed, received, strict=False) if v is not None and b in data)


def _linked(node: ir.Node, body: ir.Graph, data: set[ir.Value]) -> Iterable[ir.Value]:
    """The outputs of a body that become data outputs of the node, or that the body's next iteration uses as data."""
    skipped = 1 if node.op_type == "Loop" else 0
    outputs = list(body.outputs)[skipped:]
    yield from (b for b, v in zip(outputs, node.outputs, strict=False) if v in data)
    if node.op_type == "If":
        return
    carried = list(body.inputs)[2 if node.op_type == "Loop" else 0 :]
    yield from (b for b, v in zip(outputs, carried, strict=False) if v in data)
