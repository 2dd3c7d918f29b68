"""Pools. What a window reads of the padding counts like the rest, as is usual."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from deep_bench.operators.cost.model import Shape, Unknown, Work

__all__ = [
    "AveragePool",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "LpPool",
    "MaxPool",
    "MaxRoiPool",
    "MaxUnpool",
]


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
