"""Pools. What a window reads of the padding counts like the rest, as is usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from deep_bench.facts.row import OperatorFacts, Shape, Unknown, Work
from deep_bench.facts.rules import AUTO_PAD, ShapedCase, first, named, order, passing, powers, single_result, summing


def MaxPool(*, y: Shape, kernel_shape: Sequence[int]) -> Work:
    """A comparison for each element of each window. Source: ONNX MaxPool, opset 22."""
    return Work(comparisons=prod(kernel_shape)) * prod(y)


def AveragePool(*, y: Shape, kernel_shape: Sequence[int]) -> Work:
    """An addition for each element of each window, and a division. Source: ONNX AveragePool, opset 22."""
    return Work(flops=prod(kernel_shape) + 1) * prod(y)


def LpPool(x: Shape, *, y: Shape, kernel_shape: Sequence[int], p: int = 2) -> Work:
    """``(sum of |x|^p)^(1/p)``: each power once, and an addition for each element of each window.

    Source:
        ONNX LpPool, opset 22.
    """
    return _power(p) * prod(x) + (Work(flops=prod(kernel_shape)) + _root(p)) * prod(y)


def GlobalMaxPool(x: Shape) -> Work:
    """A comparison for each element. Source: ONNX GlobalMaxPool, opset 22."""
    return Work(comparisons=prod(x))


def GlobalAveragePool(x: Shape, *, y: Shape) -> Work:
    """An addition for each element, a division for each result. Source: ONNX GlobalAveragePool, opset 22."""
    return Work(flops=prod(x) + prod(y))


def GlobalLpPool(x: Shape, *, y: Shape, p: int = 2) -> Work:
    """``(sum of |x|^p)^(1/p)``: a power and an addition for each element. Source: ONNX GlobalLpPool, opset 22."""
    return (_power(p) + Work(flops=1)) * prod(x) + _root(p) * prod(y)


def _power(p: int) -> Work:
    return Work() if p == 1 else Work(flops=1) if p == 2 else Work(special=1)


def _root(p: int) -> Work:
    return Work() if p == 1 else Work(special=1)


def MaxUnpool() -> Work:
    """Elements are put where they came from: nothing. Source: ONNX MaxUnpool, opset 22."""
    return Work()


def MaxRoiPool() -> Work:
    """How many elements a region has depends on the contents of ``rois``: unknown. Source: ONNX MaxRoiPool, opset 22."""
    raise Unknown


def _unpooled(case: ShapedCase) -> str:
    """Places in the tensor that was pooled, as the attributes imply its size."""
    batch, channels, *sizes = named(case, "X").shape
    rank = len(sizes)
    strides, pads = case.attributes.get("strides", (1,) * rank), case.attributes.get("pads", (0,) * (2 * rank))
    kernel = case.attributes["kernel_shape"]
    pooled = ((sizes[i] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i in range(rank))
    return f"distinct_places:{batch * channels * prod(pooled)}"


_POOL = OperatorFacts(row_axes=first, windowed=True)

OPERATORS: Mapping[str, OperatorFacts] = {
    "AveragePool": replace(
        _POOL, cost=AveragePool, choices=AUTO_PAD, growth=summing, by_sample=single_result, defines_special=True
    ),
    "GlobalAveragePool": replace(
        _POOL, cost=GlobalAveragePool, growth=summing, by_sample=single_result, defines_special=True
    ),
    "GlobalLpPool": replace(_POOL, cost=GlobalLpPool, growth=powers(order)),
    "GlobalMaxPool": replace(_POOL, cost=GlobalMaxPool, growth=passing, by_sample=single_result, defines_special=True),
    "LpPool": replace(_POOL, cost=LpPool, choices=AUTO_PAD, growth=powers(order), by_sample=single_result),
    "MaxPool": replace(_POOL, cost=MaxPool, choices=AUTO_PAD, growth=passing, by_sample=single_result, defines_special=True),
    "MaxRoiPool": OperatorFacts(cost=MaxRoiPool),
    "MaxUnpool": OperatorFacts(cost=MaxUnpool, settings=(1, 2), constants=("output_shape",), draws={"I": _unpooled}),
}
"""The rows, by operator."""
