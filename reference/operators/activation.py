"""Activation functions, and the softmax family."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from deep_bench.reference.operators._arguments import check_choice, in_float32

__all__ = [
    "Celu",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "LeakyRelu",
    "LogSoftmax",
    "Mish",
    "PRelu",
    "Relu",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "SwiGLU",
    "Swish",
    "ThresholdedRelu",
]


def Relu(x):
    """``max(x, 0)``. Source: ONNX Relu, opset 14."""
    return np.maximum(x, np.zeros_like(x, shape=()))


def LeakyRelu(x, *, alpha=0.009999999776482582):
    """``x`` where ``x >= 0``, else ``alpha * x``. Source: ONNX LeakyRelu, opset 16."""
    scaled = np.multiply(x, alpha).astype(x.dtype, copy=False)
    # The larger of the two is the same, and several times faster.
    return np.maximum(x, scaled) if 0 < alpha <= 1 else np.where(x >= 0, x, scaled)


def PRelu(x, slope):
    """``x`` where ``x >= 0``, else ``slope * x``. Source: ONNX PRelu, opset 16."""
    return np.where(x >= 0, x, np.multiply(slope, x))


def ThresholdedRelu(x, *, alpha=1.0):
    """``x`` where ``x > alpha``, else 0. Source: ONNX ThresholdedRelu, opset 22."""
    return np.where(x > alpha, x, np.zeros_like(x, shape=()))


@in_float32
def Sigmoid(x):
    """``1 / (1 + exp(-x))``; where the exponential overflows the result is rightly 0. Source: ONNX Sigmoid, opset 13."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


@in_float32
def HardSigmoid(x, *, alpha=0.20000000298023224, beta=0.5):
    """``max(0, min(1, alpha * x + beta))``. Source: ONNX HardSigmoid, opset 22."""
    return np.maximum(np.minimum(alpha * x + beta, 1), 0)


@in_float32
def HardSwish(x):
    """``x * max(0, min(1, x / 6 + 1 / 2))``. Source: ONNX HardSwish, opset 22."""
    return x * HardSigmoid(x, alpha=1 / 6, beta=0.5)


@in_float32
def Elu(x, *, alpha=1.0):
    """``x`` where ``x > 0``, else ``alpha * (exp(x) - 1)``. Source: ONNX Elu, opset 22."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@in_float32
def Celu(x, *, alpha=1.0):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``. Source: ONNX Celu, opset 28."""
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)


@in_float32
def Selu(x, *, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875):
    """``gamma * x`` where ``x > 0``, else ``gamma * alpha * (exp(x) - 1)``. Source: ONNX Selu, opset 22."""
    return gamma * Elu(x, alpha=alpha)


@in_float32
def Softplus(x):
    """``log(exp(x) + 1)``. Source: ONNX Softplus, opset 22."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.absolute(x)))


@in_float32
def Softsign(x):
    """``x / (1 + |x|)``. Source: ONNX Softsign, opset 22."""
    return x / (1 + np.absolute(x))


@in_float32
def Mish(x):
    """``x * tanh(log(exp(x) + 1))``. Source: ONNX Mish, opset 22."""
    return x * np.tanh(Softplus(x))


@in_float32
def Swish(x, *, alpha=1.0):
    """``x * sigmoid(alpha * x)``. Source: ONNX Swish, opset 24."""
    return x * Sigmoid(alpha * x)


@in_float32
def SwiGLU(a, b, *, alpha=1.0):
    """``swish(a) * b``. Source: ONNX SwiGLU, opset 28."""
    return Swish(a, alpha=alpha) * b


@in_float32
def Gelu(x, *, approximate="none"):
    """``x / 2 * (1 + erf(x / sqrt(2)))``, or its approximation by ``tanh``.

    The latter is ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))``.

    Source:
        ONNX Gelu, opset 20.
    """
    check_choice("Gelu", "approximate", approximate, ("none", "tanh"))
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + special.erf(x / math.sqrt(2)))


def Shrink(x, *, bias=0.0, lambd=0.5):
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, else 0. Source: ONNX Shrink, opset 9."""
    shrunk = np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))
    return shrunk.astype(x.dtype, copy=False)


@in_float32
def Softmax(x, *, axis=-1):
    """``exp(x) / sum(exp(x))`` along ``axis``, shifted by the maximum. Source: ONNX Softmax, opset 13."""
    e = np.exp(x - _largest(x, axis))
    return e / np.sum(e, axis=axis, keepdims=True)


@in_float32
def LogSoftmax(x, *, axis=-1):
    """``x - log(sum(exp(x)))`` along ``axis``, shifted by the maximum. Source: ONNX LogSoftmax, opset 13."""
    shifted = x - _largest(x, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def Hardmax(x, *, axis=-1):
    """1 at the first maximum along ``axis``, else 0. Source: ONNX Hardmax, opset 13."""
    y = np.zeros_like(x)
    if x.size:
        np.put_along_axis(y, np.expand_dims(np.argmax(x, axis=axis), axis), 1, axis=axis)
    return y


def _largest(x, axis):
    # -inf, so that a softmax over no elements is no elements.
    return np.max(x, axis=axis, keepdims=True, initial=-np.inf)
