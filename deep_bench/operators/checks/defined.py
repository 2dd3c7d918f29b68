"""Operators whose results for NaN and infinities follow from their formula."""

from __future__ import annotations

from deep_bench.operators.case import Case

_DEFINED = frozenset(
    """
    Abs Add BatchNormalization Cast Ceil Concat Conv DepthToSpace Div Erf Exp Expand Flatten Floor Gather GatherElements
    GatherND Gemm Identity IsInf IsNaN LayerNormalization Log LogSoftmax MatMul Mul Neg Pad RMSNormalization Reciprocal
    ReduceL1 ReduceMean ReduceSum ReduceSumSquare Reshape Slice Softmax SpaceToDepth Split Sqrt Squeeze Sub Sum Tile
    Transpose Unsqueeze Where
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Sums, products, quotients and copies, and what is made of them.

Left out are maxima and minima, which hardware and frameworks let NaN pass or not; and products of an infinity and a 0 that
the limit of the function avoids, as ``x Φ(x)`` at minus infinity.
"""


def defines_special(case: Case) -> bool:
    """Whether the operator's definition says what it gives for NaN and infinities; a function of the user's says it itself.

    Example:
        >>> defines_special(Case.of("Add", (2,), (2,))), defines_special(Case.of("Gelu", (2,)))
        (True, False)
    """
    return not isinstance(case.operator, str) or case.operator in _DEFINED
