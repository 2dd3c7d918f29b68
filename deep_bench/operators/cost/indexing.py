"""Operators that put elements where an index says, and those that look for some."""

from __future__ import annotations

from math import prod

from deep_bench.operators.cost.model import Shape, Work

__all__ = ["NonZero", "OneHot", "ScatterElements", "ScatterND"]


def ScatterElements(x: Shape, indices: Shape, updates: Shape, *, reduction: str = "none") -> Work:
    """An addition, product or comparison for each update that is not just stored. Source: ONNX ScatterElements, opset 18."""
    return _reduced(reduction) * prod(updates)


def ScatterND(x: Shape, indices: Shape, updates: Shape, *, reduction: str = "none") -> Work:
    """An addition, product or comparison for each update that is not just stored. Source: ONNX ScatterND, opset 18."""
    return _reduced(reduction) * prod(updates)


def _reduced(reduction: str) -> Work:
    return Work(flops=reduction in ("add", "mul"), comparisons=reduction in ("max", "min"))


def NonZero(x: Shape) -> Work:
    """A comparison for each element. Source: ONNX NonZero, opset 13."""
    return Work(comparisons=prod(x))


def OneHot(*, y: Shape) -> Work:
    """A comparison for each element of the result. Source: ONNX OneHot, opset 28."""
    return Work(comparisons=prod(y))
