"""Reductions along axes, running sums and products, and the search for extremes."""

from __future__ import annotations

from math import prod

from deep_bench.operators.cost.model import Shape, Work

__all__ = [
    "ArgMax",
    "ArgMin",
    "CumProd",
    "CumSum",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "TopK",
    "Unique",
]


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


def Unique(x: Shape) -> Work:
    """A comparison for each element at least; how many more depends on the method. Source: ONNX Unique, opset 11."""
    return Work(comparisons=prod(x))


def CumSum(x: Shape) -> Work:
    """An addition for each element. Source: ONNX CumSum, opset 14."""
    return Work(flops=prod(x))


def CumProd(x: Shape) -> Work:
    """A multiplication for each element. Source: ONNX CumProd, opset 26."""
    return Work(flops=prod(x))
