"""The reductions that are sums, around any algorithm that adds up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deep_bench.reference.operators._axes import reduced_axes
from deep_bench.reference.operators._dtypes import in_float32

Total = Callable[[Any], Any]
"""The sum over the last axis, in the element type of its argument."""


def reductions_by(total: Total) -> Mapping[str, Callable[..., Any]]:
    """ONNX's reductions that are sums, by name, with another way to add up."""
    forms: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any, int], Any]]] = {
        "ReduceL1": (np.absolute, _as_it_is),
        "ReduceL2": (np.square, _root),
        "ReduceMean": (_as_it_is, _over_count),
        "ReduceSum": (_as_it_is, _as_it_is),
        "ReduceSumSquare": (np.square, _as_it_is),
    }
    return {name: _reduction(total, name, before, after) for name, (before, after) in forms.items()}


def _reduction(total: Total, name: str, before: Callable[..., Any], after: Callable[..., Any]) -> Callable[..., Any]:
    @in_float32
    def reduce(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        over = reduced_axes(x, axes, noop_with_empty_axes)
        remaining_axes = [axis for axis in range(x.ndim) if axis not in over]
        count = math.prod(x.shape[axis] for axis in over)
        rows = np.transpose(before(x), (*remaining_axes, *over)).reshape(*(x.shape[axis] for axis in remaining_axes), count)
        y = after(total(rows), count).astype(x.dtype, copy=False)
        return y.reshape([1 if axis in over else n for axis, n in enumerate(x.shape)]) if keepdims else y

    reduce.__name__, reduce.__doc__ = name, total.__doc__
    return reduce


def _as_it_is(x: Any, *_: Any) -> Any:
    return x


def _root(y: Any, _: int) -> Any:
    return np.sqrt(y)


def _over_count(y: Any, count: int) -> Any:
    return y / count
