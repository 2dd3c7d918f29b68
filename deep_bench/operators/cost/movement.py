"""Operators that only move data, and how much of it each operator must move."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from deep_bench.graph.node import outer_values, subgraphs

MOVES = (
    "BitCast", "Cast", "CastLike", "CenterCropPad", "Compress", "Concat", "Constant", "ConstantOfShape", "DepthToSpace",
    "Expand", "EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape", "ReverseSequence",
    "Shape", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze",
)  # fmt: skip
"""Operators of the default domain without arithmetic on elements; converting them is none."""

_VIEWS = ("Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze")
"""Those that need move nothing: their result has the same elements in the same order, or is small."""

_PARTIAL = ("Compress", "Gather", "GatherElements", "GatherND", "Slice")
"""Those that read only as much of their first input as they return."""


def traffic(node: ir.Node, nbytes: Callable[[ir.Value], int | None]) -> tuple[int, int] | None:
    """The compulsory traffic of a node: the bytes that it must read and write, ``None`` if a size is unknown.

    Each input is read once, however often it is listed, and each output that is asked for is written once. Views count
    nothing, and an operator that picks elements reads those only.

    Args:
        node: The node.
        nbytes: The size of a value.

    Source:
        Williams, Waterman and Patterson, Roofline, Comm. ACM 52 (2009), on compulsory memory traffic.
    """
    if node.op_type in _VIEWS:
        return 0, 0
    captured = [v for graph in subgraphs(node).values() for v in outer_values(graph)]
    read = list(dict.fromkeys(v for v in (*node.inputs, *captured) if v is not None))
    written = [v for v in node.outputs if v.name]
    if node.op_type in _PARTIAL and read:
        read = [*written, *read[1:]]
    inward, outward = [nbytes(v) for v in read], [nbytes(v) for v in written]
    if None in inward or None in outward:
        return None
    return sum(n or 0 for n in inward), sum(n or 0 for n in outward)
