"""How accurate an algorithm of an operator is, by the estimate of what rounding does to the operator's definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.check.arithmetic import Rounding, as_plain, disturb
from deep_bench.check.estimate import Deviations, Expectation, compare
from deep_bench.reference.operators import find
from deep_bench.reference.operators.algorithms import algorithms

Arrays = Sequence[np.ndarray | None]


def typed(inputs: Arrays, dtype: Any) -> list[Any]:
    """The floating-point inputs in an element type."""
    return [x.astype(dtype) if x is not None and x.dtype.kind == "f" else x for x in inputs]


def outputs_of(function: Any, inputs: Arrays, attributes: Mapping[str, Any]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        result = function(*inputs, **attributes)
    return [np.asarray(y) for y in (result if isinstance(result, tuple) else (result,)) if y is not None]


def expected(operator: str, inputs: Arrays, attributes: Mapping[str, Any], dtype: Any, count: int = 8) -> list[Expectation]:
    """What each output may be: the definition's in higher precision, give or take the roundings of ``dtype``."""
    definition, wide = find("", operator), typed(inputs, np.float64)
    found = [Deviations(y) for y in outputs_of(definition, wide, attributes)]
    for seed in range(count):
        rounding = Rounding(np.dtype(dtype), np.random.default_rng(seed))
        disturbed = [disturb(x, rounding) if x is not None and x.dtype.kind == "f" else x for x in wide]
        with np.errstate(all="ignore"):
            result = definition(*disturbed, **attributes)
        for deviations, y in zip(found, result if isinstance(result, tuple) else (result,), strict=False):
            deviations.add(as_plain(y))
    longest = outputs_of(definition, typed(inputs, np.longdouble), attributes) if dtype == np.float64 else []
    estimates = [deviations.expectation(np.dtype(dtype)) for deviations in found]
    if not longest:
        return estimates
    return [Expectation(y, e.spread, e.settled, e.form) for y, e in zip(longest, estimates, strict=True)]


def bits(operator: str, name: str, inputs: Arrays, dtype: Any = np.float32, **attributes: Any) -> float:
    """The significant bits of an algorithm's first output, element by element."""
    given_inputs = typed(inputs, dtype)
    actual = outputs_of(algorithms[operator][name], given_inputs, attributes)
    return compare(actual[0], expected(operator, given_inputs, attributes, dtype)[0]).bits


def normal(*shape: int) -> np.ndarray:
    """Normal numbers in float64, the same ones for the same shape."""
    return np.random.default_rng(shape).standard_normal(shape)


SHAPES: Mapping[str, list[tuple[int, ...]]] = {
    "Attention": [(1, 2, 40, 8)] * 3,
    "Conv": [(2, 8, 14, 14), (4, 8, 3, 3), (4,)],
    "Gemm": [(70, 80), (80, 66), (66,)],
    "LSTM": [(5, 3, 6), (1, 16, 6), (1, 16, 4), (1, 32)],
    "LayerNormalization": [(9, 48), (48,), (48,)],
    "MatMul": [(70, 80), (80, 66)],
    **{name: [(6, 200)] for name in ("ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare")},
    "Softmax": [(7, 50)],
}
"""Operator to the shapes of its inputs, large enough that tiles, parts and recursions come into play."""
EXTRA = {name: [np.array([1])] for name in SHAPES if name.startswith("Reduce")}
"""Operator to inputs that are no numbers: the axes to reduce."""
