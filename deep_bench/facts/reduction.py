"""Reductions along axes, running sums and products, and the search for extremes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from deep_bench.facts.row import OperatorFacts, Shape, Work
from deep_bench.facts.rules import ShapedCase, all_elements, at, exponential, off_axis, passing, powers, products, summing


def ReduceSum(x: Shape, axes: Shape | None = None, *, noop_with_empty_axes: int = 0) -> Work:
    """An addition for each element. Source: ONNX ReduceSum, opset 13."""
    return Work(flops=_terms(x, axes, noop_with_empty_axes))


def ReduceMean(x: Shape, axes: Shape | None = None, *, y: Shape, noop_with_empty_axes: int = 0) -> Work:
    """An addition for each element, a division for each result. Source: ONNX ReduceMean, opset 18."""
    terms = _terms(x, axes, noop_with_empty_axes)
    return Work(flops=terms + (terms > 0) * prod(y))


def ReduceProd(x: Shape, axes: Shape | None = None, *, noop_with_empty_axes: int = 0) -> Work:
    """A multiplication for each element. Source: ONNX ReduceProd, opset 18."""
    return Work(flops=_terms(x, axes, noop_with_empty_axes))


def ReduceL1(x: Shape, axes: Shape | None = None, *, noop_with_empty_axes: int = 0) -> Work:
    """An addition for each element. Source: ONNX ReduceL1, opset 18."""
    return Work(flops=_terms(x, axes, noop_with_empty_axes))


def ReduceL2(x: Shape, axes: Shape | None = None, *, y: Shape, noop_with_empty_axes: int = 0) -> Work:
    """A square and an addition for each element, a root for each result. Source: ONNX ReduceL2, opset 18."""
    return Work(flops=prod(x) + _terms(x, axes, noop_with_empty_axes), special=prod(y))


def ReduceSumSquare(x: Shape, axes: Shape | None = None, *, noop_with_empty_axes: int = 0) -> Work:
    """A square and an addition for each element. Source: ONNX ReduceSumSquare, opset 18."""
    return Work(flops=prod(x) + _terms(x, axes, noop_with_empty_axes))


def ReduceLogSum(x: Shape, axes: Shape | None = None, *, y: Shape, noop_with_empty_axes: int = 0) -> Work:
    """An addition for each element, a logarithm for each result. Source: ONNX ReduceLogSum, opset 28."""
    return Work(flops=_terms(x, axes, noop_with_empty_axes), special=prod(y))


def ReduceLogSumExp(x: Shape, axes: Shape | None = None, *, y: Shape, noop_with_empty_axes: int = 0) -> Work:
    """``max + log(sum of exp(x - max))``. Source: ONNX ReduceLogSumExp, opset 28."""
    terms = _terms(x, axes, noop_with_empty_axes)
    return Work(flops=prod(x) + terms, special=prod(x), comparisons=terms) + Work(flops=1, special=1) * prod(y)


def ReduceMax(x: Shape, axes: Shape | None = None, *, noop_with_empty_axes: int = 0) -> Work:
    """A comparison for each element. Source: ONNX ReduceMax, opset 20."""
    return Work(comparisons=_terms(x, axes, noop_with_empty_axes))


def ReduceMin(x: Shape, axes: Shape | None = None, *, noop_with_empty_axes: int = 0) -> Work:
    """A comparison for each element. Source: ONNX ReduceMin, opset 20."""
    return Work(comparisons=_terms(x, axes, noop_with_empty_axes))


def _terms(x: Shape, axes: Shape | None, noop: int) -> int:
    """How many terms all sums have together: none where no axes stand for no reduction instead of a full one."""
    return 0 if noop and not (axes and prod(axes)) else prod(x)


def ArgMax(x: Shape) -> Work:
    """A comparison for each element. Source: ONNX ArgMax, opset 13."""
    return Work(comparisons=prod(x))


def ArgMin(x: Shape) -> Work:
    """A comparison for each element. Source: ONNX ArgMin, opset 13."""
    return Work(comparisons=prod(x))


def TopK(x: Shape) -> Work:
    """A comparison for each element at least; how many more depends on the method. Source: ONNX TopK, opset 24."""
    return Work(comparisons=prod(x))


def CumSum(x: Shape) -> Work:
    """An addition for each element. Source: ONNX CumSum, opset 14."""
    return Work(flops=prod(x))


def CumProd(x: Shape) -> Work:
    """A multiplication for each element. Source: ONNX CumProd, opset 26."""
    return Work(flops=prod(x))


def _unreduced_axis(case: ShapedCase) -> dict[str, int] | None:
    """The data has the samples, unless it is reduced along the first axis, or along axes that only a run shows."""
    data, axes = at(case, 0), at(case, 1)
    if data is None or axes is None or axes.value is None or not data.shape or not axes.value.size:
        return None
    return None if 0 in [int(axis) % len(data.shape) for axis in axes.value] else {data.spec.name: 0}


_REDUCED = OperatorFacts(settings=(1,), constants=("axes",), row_axes=_unreduced_axis)

OPERATORS: Mapping[str, OperatorFacts] = {
    "ArgMax": OperatorFacts(cost=ArgMax, growth=passing),
    "ArgMin": OperatorFacts(cost=ArgMin, growth=passing),
    "CumProd": OperatorFacts(cost=CumProd, constants=("axis",), growth=powers(all_elements)),
    "CumSum": OperatorFacts(
        cost=CumSum, settings=(1,), constants=("axis",), index_arithmetic=True, growth=summing, defines_special=True
    ),
    "ReduceL1": replace(_REDUCED, cost=ReduceL1, growth=summing, defines_special=True),
    "ReduceL2": replace(_REDUCED, cost=ReduceL2, growth=products(all_elements), defines_special=True),
    "ReduceLogSum": replace(_REDUCED, cost=ReduceLogSum, draws={"data": "domain:0:inf"}, growth=summing),
    "ReduceLogSumExp": replace(_REDUCED, cost=ReduceLogSumExp, growth=exponential),
    "ReduceMax": replace(_REDUCED, cost=ReduceMax, index_arithmetic=True, growth=passing, defines_special=True),
    "ReduceMean": replace(_REDUCED, cost=ReduceMean, index_arithmetic=True, growth=summing, defines_special=True),
    "ReduceMin": replace(_REDUCED, cost=ReduceMin, index_arithmetic=True, growth=passing, defines_special=True),
    "ReduceProd": replace(
        _REDUCED, cost=ReduceProd, index_arithmetic=True, growth=powers(all_elements), defines_special=True
    ),
    "ReduceSum": replace(_REDUCED, cost=ReduceSum, index_arithmetic=True, growth=summing, defines_special=True),
    "ReduceSumSquare": replace(_REDUCED, cost=ReduceSumSquare, growth=products(all_elements), defines_special=True),
    "TopK": OperatorFacts(cost=TopK, settings=(1,), constants=("K",), growth=passing, row_axes=off_axis),
}
"""The rows, by operator."""
