"""How large the elements of an input may be, so that an operator's result is finite and yet near overflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log, prod
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from deep_bench.tensor import is_float, is_integer

if TYPE_CHECKING:
    from deep_bench.operators.case import Case


def _names(written: str) -> frozenset[str]:
    return frozenset(written.split())


_MARGIN = 4.0
"""Kept free, for what rounding and the order of a sum add."""


@dataclass(frozen=True, slots=True)
class _Growth:
    """How a result grows: like ``terms`` times a product of ``degree`` elements."""

    terms: float = 1.0
    degree: float = 1.0

    def limit(self, top: float) -> float:
        return float((top / (_MARGIN * max(self.terms, 1.0))) ** (1.0 / max(self.degree, 1.0)))


def limit_of(case: Case, index: int) -> float | None:
    """The largest magnitude for the elements of one input; ``None`` where all of the type may be used.

    An operator that is not known is taken for one that squares what it is given and adds all of it up.

    Example:
        >>> from deep_bench.operators.case import Case
        >>> from math import sqrt, isclose
        >>> isclose(limit_of(Case.of("Gemm", (2, 15), (15, 2), dtype="float16"), 0), sqrt(65504 / 64))
        True
        >>> limit_of(Case.of("Exp", (2,), dtype="float16"), 0) < 11
        True
    """
    argument = case.arguments[index]
    if argument is None or not (is_float(argument.dtype) or is_integer(argument.dtype)) or argument.dtype == object:
        return None
    if case.operator in _QUANTISED and argument.dtype.itemsize <= 2:
        return None
    top = _top(case, argument.dtype)
    if case.operator in _EXPONENTIAL:
        return log(top) - 1
    growth = _growth(case)
    return growth.limit(top)


def _top(case: Case, dtype: np.dtype) -> float:
    """The largest number of the narrowest floating-point type that is read or written; of its own type for an integer."""
    if not is_float(dtype):
        return float(ml_dtypes.iinfo(dtype).max)
    input_dtypes = [a.dtype for a in case.arguments if a is not None and is_float(a.dtype)]
    return min(float(ml_dtypes.finfo(t).max) for t in [*input_dtypes, *(r.dtype for r in case.results if is_float(r.dtype))])


def _growth(case: Case) -> _Growth:
    shapes = [a.shape if a is not None else () for a in case.arguments]
    elements = float(max((prod(shape) for shape in shapes), default=1))
    if not isinstance(case.operator, str):
        return _Growth(elements, 2)
    reduction = case.attributes.get("reduction", "none")
    if case.operator in _SCATTERING and reduction != "none":
        return _Growth(1, elements + 1) if reduction == "mul" else _Growth(elements)
    if case.operator in _PASSING:
        return _Growth()
    if case.operator in _SUMMING:
        return _Growth(elements)
    if case.operator in _TERMS:
        return _Growth(_TERMS[case.operator](case) * _factor(case), 2)
    if case.operator in _LOSSES:
        return _Growth(elements, len(case.arguments) - 1)  # a weight for each class multiplies
    if case.operator in _DEGREES:
        return _Growth(elements, _DEGREES[case.operator](case))
    if case.operator == "Einsum":
        return _Growth(float(prod(max(shape, default=1) for shape in shapes)) * elements, len(shapes))
    return _Growth(elements, 2)


def _factor(case: Case) -> float:
    return max(1.0, *(abs(float(case.attributes.get(name, 1.0))) for name in ("alpha", "beta")))


def _shape(case: Case, index: int) -> tuple[int, ...]:
    argument = case.arguments[index]
    return argument.shape if argument is not None else ()


def _gemm(case: Case) -> float:
    return _shape(case, 0)[0 if case.attributes.get("transA", 0) else 1] + 1


def _convolution(case: Case) -> float:
    return prod(_shape(case, 1)[1:]) + 1


def _transposed_convolution(case: Case) -> float:
    return prod(_shape(case, 1)) / max(1, _shape(case, 1)[1]) + 1


def _head(case: Case) -> float:
    return _shape(case, 0)[-1]


def _last(case: Case) -> float:
    return prod(_shape(case, 0))


_TERMS: Mapping[str, Callable[[Case], float]] = {
    "Attention": _head,
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Div": lambda case: 1.0,  # noqa: ARG005
    "Gemm": _gemm,
    "MatMul": lambda case: (_shape(case, 0) or (1,))[-1],
    "Mul": lambda case: 1.0,  # noqa: ARG005
    "PRelu": lambda case: 1.0,  # noqa: ARG005
    "ReduceL2": _last,
    "ReduceSumSquare": _last,
}
"""Operators that add up products of two elements, and how many of them."""


def _order(case: Case) -> float:
    return max(2, case.attributes.get("p", 2))


_DEGREES: Mapping[str, Callable[[Case], float]] = {
    "CumProd": lambda case: prod(_shape(case, 0)),
    "Det": lambda case: _shape(case, 0)[-1],
    "LinearAttention": lambda case: 2 * _shape(case, 0)[1] + 2,
    "GlobalLpPool": _order,
    "LpNormalization": _order,
    "LpPool": _order,
    "Pow": lambda case: 4,  # noqa: ARG005
    "ReduceProd": lambda case: prod(_shape(case, 0)),
}
"""Operators that multiply several elements, and how many: the state of a linear attention is multiplied at each step."""

_PASSING = _names(
    "Abs ArgMax ArgMin Cast CastLike Ceil Celu Clip Concat DepthToSpace Elu Equal Erf Expand Flatten Floor Gather "
    "GatherElements GatherND Gelu GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish Hardmax Identity IsInf IsNaN "
    "LeakyRelu Less LessOrEqual Log Max MaxPool Min Mish Neg Pad ReduceMax ReduceMin Relu Reshape Round ScatterElements "
    "ScatterND Selu Sigmoid Sign Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Swish Tanh "
    "ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where"
)
"""Operators whose result is about as large as what they are given."""

_SUMMING = _names(
    "Add AveragePool CumSum GlobalAveragePool LogSoftmax Mean ReduceL1 ReduceLogSum ReduceMean ReduceSum Sub Sum"
)
"""Operators that add up elements."""

_SCATTERING = frozenset({"ScatterElements", "ScatterND"})
_LOSSES = frozenset({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})

_EXPONENTIAL = frozenset({"Cosh", "Exp", "ReduceLogSumExp", "Sinh"})
"""Operators that overflow where the exponential function does."""

_QUANTISED = frozenset({"ConvInteger", "DequantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul"})
"""Operators that accumulate in a wider type."""
