"""Reductions, running sums and searches for extremes: no, some or all axes, axes of length 0, ties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deep_bench.tensor import is_float
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes

Generator = Callable[[Draw], GeneratedProblem]
COMPARABLE = ("normal", "ties", "wide")  # without NaN, of which the standard does not say how it compares


def reduction(operator: str) -> Generator:
    """A sum of some kind; whole numbers are small, so that none overflows."""

    def generate(draw: Draw) -> GeneratedProblem:
        dtype, shape = draw.pick(dtypes(operator)), draw.shape()
        style = draw.pick(("normal", "ties", "special")) if is_float(dtype) else "small"
        return _reduced(draw, operator, draw.array(shape, dtype, style))

    return generate


def extreme(operator: str) -> Generator:
    """The largest or smallest element; without NaN, of which the standard does not say how it compares."""

    def generate(draw: Draw) -> GeneratedProblem:
        return _reduced(draw, operator, _comparable(draw, draw.shape(), draw.pick(dtypes(operator))))

    return generate


def ReduceMean(draw: Draw) -> GeneratedProblem:
    """Never of nothing, nor of negative whole numbers: how their mean is rounded is left open."""
    dtype = draw.pick(dtypes("ReduceMean"))
    x = draw.array(draw.full_shape(0), dtype, draw.pick(("normal", "ties", "special")) if is_float(dtype) else "small")
    return _reduced(draw, "ReduceMean", x if is_float(dtype) else np.abs(x))


def _reduced(draw: Draw, operator: str, x: np.ndarray) -> GeneratedProblem:
    axes = draw.maybe(np.array(draw.axes(x.ndim), np.int64))
    attributes = {"keepdims": draw.maybe(draw.boolean()), "noop_with_empty_axes": draw.maybe(draw.boolean())}
    return GeneratedProblem(operator, [x, axes], attributes)


def _comparable(draw: Draw, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return draw.array(shape, dtype, draw.pick(COMPARABLE) if is_float(dtype) else None)


def position(operator: str) -> Generator:
    """Where the extreme is: ties, no NaN, and at least one element to choose from."""

    def generate(draw: Draw) -> GeneratedProblem:
        shape = draw.full_shape()
        attributes = {"axis": draw.maybe(draw.axis(len(shape))), "keepdims": draw.maybe(draw.boolean())}
        x = _comparable(draw, shape, draw.pick(dtypes(operator)))
        return GeneratedProblem(operator, [x], attributes | {"select_last_index": draw.maybe(draw.boolean())})

    return generate


def TopK(draw: Draw) -> GeneratedProblem:
    """Ties, no NaN; unsorted only where there is at most one element, for their order is then left open."""
    shape = draw.shape(1)
    axis = draw.maybe(draw.axis(len(shape)))
    k = draw.integer(0, shape[-1 if axis is None else axis])
    order = draw.maybe(draw.boolean() if k < 2 else 1)
    x = _comparable(draw, shape, draw.pick(dtypes("TopK")))
    attributes = {"axis": axis, "largest": draw.maybe(draw.boolean()), "sorted": order}
    return GeneratedProblem("TopK", [x, np.array([k])], attributes, outputs=2)


def running(operator: str) -> Generator:
    """A running sum or product; whole numbers are small, so that none overflows."""

    def generate(draw: Draw) -> GeneratedProblem:
        x = draw.moderate(draw.shape(1), draw.pick(dtypes(operator)))
        axis = np.array(draw.axis(x.ndim), draw.pick((np.int64, np.int32)))
        attributes = {"exclusive": draw.maybe(draw.boolean()), "reverse": draw.maybe(draw.boolean())}
        return GeneratedProblem(operator, [x, axis], attributes)

    return generate


_SUMS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceProd ReduceSum ReduceSumSquare"

GENERATORS: dict[str, Generator] = {
    **{name: reduction(name) for name in _SUMS.split()},
    **{name: extreme(name) for name in ("ReduceMax", "ReduceMin")},
    **{name: position(name) for name in ("ArgMax", "ArgMin")},
    **{name: running(name) for name in ("CumProd", "CumSum")},
    "ReduceMean": ReduceMean,
    "TopK": TopK,
}
