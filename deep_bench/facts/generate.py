"""Operators that make a tensor from little."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from deep_bench.facts.row import OperatorFacts, Shape, Unknown, Work


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


OPERATORS: Mapping[str, OperatorFacts] = {
    "Bernoulli": OperatorFacts(cost=Bernoulli, random=True, draws={"input": "between:0:1"}),
    "BlackmanWindow": OperatorFacts(cost=BlackmanWindow, constants=("size",)),
    "Constant": OperatorFacts(cost=Work, traffic="none", index_arithmetic=True, states_type=True),
    "ConstantOfShape": OperatorFacts(cost=Work, settings=(0,), constants=("input",), index_arithmetic=True, grows=True),
    "EyeLike": OperatorFacts(cost=Work, settings=(0,), grows=True),
    "HammingWindow": OperatorFacts(cost=HammingWindow, constants=("size",)),
    "HannWindow": OperatorFacts(cost=HannWindow, constants=("size",)),
    "MelWeightMatrix": OperatorFacts(
        cost=MelWeightMatrix, constants=("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    ),
    "Multinomial": OperatorFacts(cost=Multinomial, random=True),
    "RandomNormal": OperatorFacts(cost=RandomNormal, random=True),
    "RandomNormalLike": OperatorFacts(cost=RandomNormalLike, settings=(0,), random=True),
    "RandomUniform": OperatorFacts(cost=RandomUniform, random=True),
    "RandomUniformLike": OperatorFacts(cost=RandomUniformLike, settings=(0,), random=True),
    "Range": OperatorFacts(
        cost=Range, constants=("start", "limit", "delta"), initializer_settings=(0, 1, 2), index_arithmetic=True, grows=True
    ),
}
"""The rows, by operator."""
