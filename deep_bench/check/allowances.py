"""Errors that belong to an operator as a whole, beyond those of the operations that its reference is written with.

A correct implementation may use another formula than the reference. Where that formula loses digits that the reference
keeps, and the formula is the standard's own or in general use, its error is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.graph import operator_name
from deep_bench.graph.node import settings

_BOUNDED = ("Sigmoid", "Softmax", "Tanh", "Erf", "Softsign", "Sin", "Cos", "HardSigmoid", "LSTM", "GRU", "RNN")
_EXPONENTIAL = ("Elu", "Selu", "Celu", "Softplus", "Mish")

Allowance = Callable[[Sequence[Any], Mapping[str, Any], np.ndarray], Any]


def allowance(node: ir.Node, inputs: Sequence[Any], y: np.ndarray) -> Any:
    """The amplitude of the error that is allowed in addition, in units of the working format's roundoff; 0 for most.

    Args:
        node: The node.
        inputs: Its inputs in float64.
        y: One of its outputs.
    """
    rule = _ALLOWANCES.get(operator_name(node))
    return 0.0 if rule is None else rule(inputs, settings(node), y)


def _one(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:  # noqa: ARG001 (an Allowance)
    """Results bounded by 1 may be off by one rounding of 1: that is how kernels approximate them."""
    return 1.0


def _exponential(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:  # noqa: ARG001
    """ONNX defines these by ``exp(x) - 1`` or ``log(exp(x) + 1)``: where these are small, so are their last digits."""
    scale = max(abs(float(settings.get("alpha", 1.75))), 1.0)
    return np.where(np.abs(y) < scale, scale, 0.0)


def _batch(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """Batch normalisation folded into ``x * a + (b - mean * a)`` with ``a = scale / sqrt(variance + epsilon)``."""
    x, scale, _, mean, variance = (np.asarray(v, np.float64) for v in inputs[:5])
    if y.shape != x.shape:
        return 0.0
    each = (-1, *(1,) * (x.ndim - 2))
    a = scale / np.sqrt(variance + settings.get("epsilon", 1e-5))
    return np.abs(a).reshape(each) * np.sqrt(x**2 + (mean**2).reshape(each))


def _instance(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """Instance normalisation, folded likewise."""
    x, scale = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64)
    axes = tuple(range(2, x.ndim))
    return _folded(x, axes, settings.get("epsilon", 1e-5), scale.reshape(-1, *(1,) * (x.ndim - 2)), y)


def _group(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """Group normalisation, folded likewise."""
    x, scale = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64)
    grouped = x.reshape(x.shape[0], int(settings["num_groups"]), -1)
    each = np.ones_like(x) * scale.reshape(-1, *(1,) * (x.ndim - 2))
    amplitude = _folded(grouped, (2,), settings.get("epsilon", 1e-5), each.reshape(grouped.shape), grouped)
    return np.reshape(amplitude, y.shape) if y.shape == x.shape else 0.0


def _layer(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """Layer normalisation, folded likewise."""
    x, scale = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64)
    axes = tuple(range(settings.get("axis", -1) % x.ndim, x.ndim))
    return _folded(x, axes, settings.get("epsilon", 1e-5), scale, y)


def _folded(x: np.ndarray, axes: tuple[int, ...], epsilon: float, scale: np.ndarray, y: np.ndarray) -> Any:
    if y.shape != x.shape:
        return 0.0
    mean, variance = np.mean(x, axis=axes, keepdims=True), np.var(x, axis=axes, keepdims=True)
    return np.abs(scale) * np.sqrt((x**2 + mean**2) / (variance + epsilon))


_ALLOWANCES: Mapping[str, Allowance] = {
    **dict.fromkeys(_BOUNDED, _one),
    **dict.fromkeys(_EXPONENTIAL, _exponential),
    "BatchNormalization": _batch,
    "InstanceNormalization": _instance,
    "GroupNormalization": _group,
    "LayerNormalization": _layer,
}
