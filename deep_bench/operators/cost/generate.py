"""Operators that make a tensor from little."""

from __future__ import annotations

from math import prod

from deep_bench.operators.cost.model import Shape, Unknown, Work

__all__ = [
    "Bernoulli",
    "BlackmanWindow",
    "HammingWindow",
    "HannWindow",
    "MelWeightMatrix",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Range",
]


def Range(*, y: Shape) -> Work:
    """``start + i * delta``. Source: ONNX Range, opset 27."""
    return Work(flops=2) * prod(y)


def HannWindow(*, y: Shape) -> Work:
    """``0.5 - 0.5 cos(2 π i / n)``. Source: ONNX HannWindow, opset 17."""
    return Work(flops=4, special=1) * prod(y)


def HammingWindow(*, y: Shape) -> Work:
    """``25/46 - 21/46 cos(2 π i / n)``. Source: ONNX HammingWindow, opset 17."""
    return Work(flops=4, special=1) * prod(y)


def BlackmanWindow(*, y: Shape) -> Work:
    """``0.42 - 0.5 cos(2 π i / n) + 0.08 cos(4 π i / n)``. Source: ONNX BlackmanWindow, opset 17."""
    return Work(flops=7, special=2) * prod(y)


def MelWeightMatrix(*, y: Shape) -> Work:
    """A rising and a falling line for each bin of each band (4); 7 operations and a power for each of the bands' corners.

    Source:
        ONNX MelWeightMatrix, opset 17.
    """
    return Work(flops=4, comparisons=4) * prod(y) + Work(flops=7, special=1) * (y[1] + 2) + Work(flops=7, special=2)


def RandomNormal() -> Work:
    """The standard does not say how numbers are drawn: unknown. Source: ONNX RandomNormal, opset 22."""
    raise Unknown


def RandomNormalLike() -> Work:
    """The standard does not say how numbers are drawn: unknown. Source: ONNX RandomNormalLike, opset 22."""
    raise Unknown


def RandomUniform() -> Work:
    """The standard does not say how numbers are drawn: unknown. Source: ONNX RandomUniform, opset 22."""
    raise Unknown


def RandomUniformLike() -> Work:
    """The standard does not say how numbers are drawn: unknown. Source: ONNX RandomUniformLike, opset 22."""
    raise Unknown


def Bernoulli() -> Work:
    """The standard does not say how numbers are drawn: unknown. Source: ONNX Bernoulli, opset 22."""
    raise Unknown


def Multinomial() -> Work:
    """The standard does not say how numbers are drawn: unknown. Source: ONNX Multinomial, opset 22."""
    raise Unknown
