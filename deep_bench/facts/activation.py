"""Activation functions and the softmax family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from deep_bench.facts.row import OperatorFacts, Shape, Work
from deep_bench.facts.rules import aligned, off_axis, passing, products, single, single_result, summing


def Relu(x: Shape) -> Work:
    """``max(x, 0)``. Source: ONNX Relu, opset 14."""
    return Work(comparisons=1) * prod(x)


def LeakyRelu(x: Shape) -> Work:
    """``x`` where ``x >= 0``, else ``alpha * x``. Source: ONNX LeakyRelu, opset 16."""
    return Work(flops=1, comparisons=1) * prod(x)


def PRelu(x: Shape) -> Work:
    """``x`` where ``x >= 0``, else ``slope * x``. Source: ONNX PRelu, opset 16."""
    return Work(flops=1, comparisons=1) * prod(x)


def ThresholdedRelu(x: Shape) -> Work:
    """``x`` where ``x > alpha``, else 0. Source: ONNX ThresholdedRelu, opset 22."""
    return Work(comparisons=1) * prod(x)


def Sigmoid(x: Shape) -> Work:
    """``1 / (1 + exp(-x))``. Source: ONNX Sigmoid, opset 13."""
    return Work(flops=2, special=1) * prod(x)


def HardSigmoid(x: Shape) -> Work:
    """``max(0, min(1, alpha * x + beta))``. Source: ONNX HardSigmoid, opset 22."""
    return Work(flops=2, comparisons=2) * prod(x)


def HardSwish(x: Shape) -> Work:
    """``x * max(0, min(1, x / 6 + 1 / 2))``. Source: ONNX HardSwish, opset 22."""
    return Work(flops=3, comparisons=2) * prod(x)


def Elu(x: Shape, *, alpha: float = 1.0) -> Work:
    """``x`` where ``x > 0``, else ``alpha * expm1(x)``. Source: ONNX Elu, opset 22."""
    return Work(flops=int(alpha != 1), special=1, comparisons=1) * prod(x)


def Celu(x: Shape, *, alpha: float = 1.0) -> Work:
    """``max(0, x) + min(0, alpha * expm1(x / alpha))``. Source: ONNX Celu, opset 28."""
    return Work(flops=1 + 2 * (alpha != 1), special=1, comparisons=2) * prod(x)


def Selu(x: Shape, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Work:
    """``gamma * Elu(x)``. Source: ONNX Selu, opset 22."""
    return Elu(x, alpha=alpha) + Work(flops=int(gamma != 1)) * prod(x)


def Softplus(x: Shape) -> Work:
    """``log1p(exp(x))``. Source: ONNX Softplus, opset 22."""
    return Work(special=2) * prod(x)


def Softsign(x: Shape) -> Work:
    """``x / (1 + |x|)``. Source: ONNX Softsign, opset 22."""
    return Work(flops=2) * prod(x)


def Mish(x: Shape) -> Work:
    """``x * tanh(log1p(exp(x)))``. Source: ONNX Mish, opset 22."""
    return Work(flops=1, special=3) * prod(x)


def Swish(x: Shape, *, alpha: float = 1.0) -> Work:
    """``x * sigmoid(alpha * x)``. Source: ONNX Swish, opset 24."""
    return Work(flops=3 + (alpha != 1), special=1) * prod(x)


def SwiGLU(a: Shape, b: Shape, *, y: Shape, alpha: float = 1.0) -> Work:
    """``swish(a) * b``. Source: ONNX SwiGLU, opset 28."""
    return Swish(a, alpha=alpha) + Work(flops=prod(y))


def Gelu(x: Shape, *, approximate: str = "none") -> Work:
    """``x / 2 * (1 + erf(x / sqrt(2)))``, or ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))``.

    Source:
        ONNX Gelu, opset 20.
    """
    return Work(flops=8 if approximate == "tanh" else 4, special=1) * prod(x)


def Shrink(x: Shape, *, bias: float = 0.0) -> Work:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, else 0. Source: ONNX Shrink, opset 9."""
    return Work(flops=int(bias != 0), comparisons=2) * prod(x)


def Softmax(x: Shape, *, axis: int = -1) -> Work:
    """``exp(x - max) / sum(exp(x - max))``: with a maximum, a difference, a sum, a division.

    Source:
        ONNX Softmax, opset 13.
    """
    return Work(flops=3, special=1, comparisons=1) * prod(x)


def LogSoftmax(x: Shape, *, axis: int = -1) -> Work:
    """``(x - max) - log(sum(exp(x - max)))``, with one logarithm for each row. Source: ONNX LogSoftmax, opset 13."""
    rows = prod(size for i, size in enumerate(x) if i != axis % len(x))
    return Work(flops=3, special=1, comparisons=1) * prod(x) + Work(special=rows)


def Hardmax(x: Shape) -> Work:
    """1 at the first maximum along an axis, else 0. Source: ONNX Hardmax, opset 13."""
    return Work(comparisons=1) * prod(x)


def _exponential(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """ONNX defines these by ``exp(x) - 1`` or ``log(exp(x) + 1)``: where these are small, so are their last digits."""
    scale = max(abs(float(settings.get("alpha", 1.75))), 1.0)
    return np.where(np.abs(y) < scale, scale, 0.0)


_ALIGNED = OperatorFacts(growth=passing, row_axes=aligned)

OPERATORS: Mapping[str, OperatorFacts] = {
    "Celu": replace(_ALIGNED, cost=Celu, allowance=_exponential, defines_special=True),
    "Elu": replace(_ALIGNED, cost=Elu, allowance=_exponential, by_sample=single_result, defines_special=True),
    "Gelu": replace(_ALIGNED, cost=Gelu, choices={"approximate": "none tanh"}, by_sample=single_result),
    "HardSigmoid": replace(_ALIGNED, cost=HardSigmoid, allowance=1.0, by_sample=single_result),
    "HardSwish": replace(_ALIGNED, cost=HardSwish, by_sample=single_result),
    "Hardmax": OperatorFacts(cost=Hardmax, stepped=True, growth=passing, row_axes=off_axis),
    "LeakyRelu": replace(_ALIGNED, cost=LeakyRelu, by_sample=single_result, defines_special=True),
    "LogSoftmax": OperatorFacts(cost=LogSoftmax, growth=summing, row_axes=off_axis, defines_special=True),
    "Mish": replace(_ALIGNED, cost=Mish, allowance=_exponential),
    "PRelu": OperatorFacts(cost=PRelu, learnt=(1,), roles={1: "slope"}, growth=products(single), row_axes=aligned),
    "Relu": replace(_ALIGNED, cost=Relu, index_arithmetic=True, by_sample=single_result, defines_special=True),
    "Selu": replace(_ALIGNED, cost=Selu, allowance=_exponential, defines_special=True),
    "Shrink": OperatorFacts(cost=Shrink),
    "Sigmoid": replace(_ALIGNED, cost=Sigmoid, allowance=1.0, by_sample=single_result, defines_special=True),
    "Softmax": OperatorFacts(cost=Softmax, allowance=1.0, growth=passing, row_axes=off_axis, defines_special=True),
    "Softplus": replace(_ALIGNED, cost=Softplus, allowance=_exponential, defines_special=True),
    "Softsign": replace(_ALIGNED, cost=Softsign, allowance=1.0),
    "SwiGLU": OperatorFacts(cost=SwiGLU),
    "Swish": replace(_ALIGNED, cost=Swish),
    "ThresholdedRelu": replace(_ALIGNED, cost=ThresholdedRelu),
}
"""The rows, by operator."""
