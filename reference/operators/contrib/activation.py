"""Activation functions joined with what usually stands before them, or moved into it by an optimizer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators import activation
from deep_bench.reference.operators._arguments import check_choice, in_float32, widened

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


Function = Callable[..., Any]


def _clip(x, *, low, high):
    return np.minimum(np.maximum(x, low), high)


def _scaled_tanh(x, *, alpha, beta):
    return alpha * np.tanh(beta * x)


def _parametric_softplus(x, *, alpha, beta):
    return alpha * activation.Softplus(beta * x)


_AFTER_CONV: Mapping[str, tuple[Function, tuple[str, ...]]] = {
    "Clip": (_clip, ("low", "high")),
    "HardSigmoid": (activation.HardSigmoid, ("alpha", "beta")),
    "HardSwish": (activation.HardSwish, ()),
    "LeakyRelu": (activation.LeakyRelu, ("alpha",)),
    "Relu": (activation.Relu, ()),
    "Sigmoid": (activation.Sigmoid, ()),
    "Tanh": (np.tanh, ()),
}

_AFTER_GEMM: Mapping[str, tuple[Function, tuple[str, ...]]] = {
    "Celu": (activation.Celu, ("alpha",)),
    "Elu": (activation.Elu, ("alpha",)),
    "HardSigmoid": (activation.HardSigmoid, ("alpha", "beta")),
    "LeakyRelu": (activation.LeakyRelu, ("alpha",)),
    "ParametricSoftplus": (_parametric_softplus, ("alpha", "beta")),
    "Relu": (activation.Relu, ()),
    "ScaledTanh": (_scaled_tanh, ("alpha", "beta")),
    "Selu": (activation.Selu, ("alpha", "gamma")),
    "Sigmoid": (activation.Sigmoid, ()),
    "Softplus": (activation.Softplus, ()),
    "Softsign": (activation.Softsign, ()),
    "Tanh": (np.tanh, ()),
    "ThresholdedRelu": (activation.ThresholdedRelu, ("alpha",)),
}


def after_conv(name: str | None, values: Sequence[float] | None) -> Function:
    """The activation of a fused convolution, with its parameters in order.

    Raises:
        Unsupported: No such activation is defined, or it takes more parameters than came.
    """
    if name is None:
        return _identity
    check_choice("FusedConv", "activation", name, _AFTER_CONV)
    function, parameters = _AFTER_CONV[name]
    return _bound("FusedConv", name, function, parameters, dict(zip(parameters, values or (), strict=False)))


def after_gemm(name: str | None, values: Mapping[str, float | None]) -> Function:
    """The activation of a fused matrix product, with its parameters by name.

    Raises:
        Unsupported: No such activation is defined, or one of its parameters is missing.
    """
    if name is None:
        return _identity
    check_choice("FusedGemm", "activation", name, _AFTER_GEMM)
    function, parameters = _AFTER_GEMM[name]
    arguments = {p: v for p in parameters if (v := values[p]) is not None}
    return _bound("FusedGemm", name, function, parameters, arguments)


def _bound(
    operator: str, name: str, function: Function, parameters: tuple[str, ...], arguments: Mapping[str, float]
) -> Function:
    missing = [p for p in parameters if p not in arguments]
    if missing:
        raise Unsupported(
            f"{operator} with activation={name!r} and no {missing[0]} for it", f"all of {', '.join(parameters)}"
        )
    return functools.partial(function, **arguments)


def _identity(x: Any) -> Any:
    return x
