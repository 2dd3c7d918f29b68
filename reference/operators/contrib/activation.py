"""Activation functions joined with what usually stands before them."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators import activation
from deep_bench.reference.operators._dtypes import in_float32, widened

__all__ = ["BiasGelu", "BiasSoftmax", "BiasSplitGelu", "FastGelu", "Gelu", "QuickGelu", "ScaledSiLU"]


def Gelu(x):
    """``x / 2 * (1 + erf(x / sqrt(2)))``. Source: ONNX Runtime Gelu."""
    return activation.Gelu(x)


@in_float32
def BiasGelu(a, b):
    """``gelu(a + b)``, where ``b`` is a vector along the last axis. Source: ONNX Runtime BiasGelu."""
    return activation.Gelu(a + b)


@in_float32
def FastGelu(x, bias=None):
    """The approximation of ``gelu(x + bias)`` by ``tanh``. Source: ONNX Runtime FastGelu."""
    return activation.Gelu(x if bias is None else x + bias, approximate="tanh")


def QuickGelu(x, *, alpha=1.7020000219345093):
    """``x * sigmoid(alpha * x)``. Source: ONNX Runtime QuickGelu."""
    return activation.Swish(x, alpha=alpha)


def ScaledSiLU(x, scale=None, *, alpha=1.0):
    """``z * sigmoid(z)`` with ``z = scale * x``, or ``alpha * x`` without a scale; each step rounded to the format of ``x``.

    Source:
        ONNX Runtime ScaledSiLU.
    """
    factor = alpha if scale is None else widened(scale.reshape(()))
    z = np.multiply(factor, widened(x)).astype(x.dtype, copy=False)
    return np.multiply(z, activation.Sigmoid(z))


@in_float32
def BiasSplitGelu(x, bias):
    """``l * gelu(r)``, where ``l`` and ``r`` are the halves of ``x + bias`` along the last axis.

    Source:
        ONNX Runtime BiasSplitGelu.
    """
    left_half, right = np.split(x + bias, 2, axis=-1)
    return left_half * activation.Gelu(right)


@in_float32
def BiasSoftmax(data, bias, *, is_inner_broadcast, axis=1):
    """``softmax(data + bias)`` over all axes from ``axis`` on together.

    The bias has the sizes of ``data`` from ``axis`` on. Of the axes before it, it has the first ones and is repeated over
    the last ones if ``is_inner_broadcast``; else it is repeated over the first ones.

    Source:
        ONNX Runtime BiasSoftmax.
    """
    axis = axis % data.ndim
    outer = [1] * (data.ndim - bias.ndim)
    if is_inner_broadcast and outer:
        lead = bias.ndim - (data.ndim - axis)
        bias = bias.reshape(*bias.shape[:lead], *outer, *bias.shape[lead:])
    shape = (*data.shape[:axis], -1 if data.size else int(np.prod(data.shape[axis:])))
    return activation.Softmax((data + bias).reshape(shape)).reshape(data.shape)
