"""Operators whose results for NaN and infinities follow from their formula."""

from __future__ import annotations

import numpy as np

from deep_bench.check.truth import Truth
from deep_bench.operators.case import Case
from deep_bench.tensor import is_float

_DEFINED = frozenset(
    """
    Abs Add AveragePool BatchNormalization Cast Ceil Celu Concat Conv Cos CumSum DepthToSpace Div Elu Erf Exp Expand Flatten
    Floor Gather GatherElements GatherND Gemm GlobalAveragePool GlobalMaxPool Identity InstanceNormalization IsInf IsNaN
    LayerNormalization LeakyRelu Log LogSoftmax MatMul Max MaxPool Mean Min Mul Neg Pad RMSNormalization Reciprocal ReduceL1
    ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round Selu Sigmoid Sin Slice
    Softmax Softplus SpaceToDepth Split Sqrt Squeeze Sub Sum Tanh Tile Transpose Unsqueeze Where
    """.split()  # noqa: SIM905 (reads better than a list of strings)
)
"""Sums, products, quotients, copies, maxima, and functions with limits.

Left out are products of an infinity and a 0 that the limit of the function avoids, as ``x Φ(x)`` at minus infinity.
"""

_INTERPOLATING = frozenset({"AffineGrid", "DeformConv", "GridSample", "Resize", "RoiAlign", "Upsample"})
"""How far a NaN spreads depends on whether neighbours of weight 0 are read."""


def defines_special(case: Case) -> bool:
    """Whether the operator's definition says what it gives for NaN and infinities; a function of the user's says it itself.

    Example:
        >>> defines_special(Case.of("Add", (2,), (2,))), defines_special(Case.of("Gelu", (2,)))
        (True, False)
    """
    return not isinstance(case.operator, str) or case.operator in _DEFINED


def passes_nan(case: Case, truth: Truth) -> bool:
    """Whether an operator gives NaN for NaN, as its reference does, and nothing else but floating-point numbers.

    Args:
        case: The case.
        truth: Of inputs with NaN in them.
    """
    outputs = [np.asarray(y) for y in truth.outputs.values()]
    if case.operator in _INTERPOLATING or not all(is_float(y.dtype) for y in outputs):
        return False
    return any(bool(np.isnan(y.astype(np.float64)).any()) for y in outputs)
