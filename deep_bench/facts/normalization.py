"""Normalization of activations, and dropout.

A mean counts an addition for each element and a division for each result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from deep_bench.facts.row import OperatorFacts, Shape, Unknown, Work, like_first
from deep_bench.facts.rules import first, in_inference, off_axis, order, powers, single_result


def BatchNormalization(x: Shape, scale: Shape, *, training_mode: int = 0) -> Work:
    """``(x - mean) * (scale / sqrt(var + epsilon)) + b``: 3 for each element, 2 and a root for each channel.

    In training mode also the mean, the variance (a difference, a square and an addition), and the running ones,
    ``momentum * running + (1 - momentum) * batch`` (3 each).

    Source:
        ONNX BatchNormalization, opset 15; Ioffe and Szegedy, 2015, algorithm 1.
    """
    applied = Work(flops=3) * prod(x) + Work(flops=2, special=1) * prod(scale)
    if not training_mode:
        return applied
    return applied + Work(flops=4) * prod(x) + Work(flops=8) * prod(scale)


def InstanceNormalization(x: Shape) -> Work:
    """``(x - mean) / sqrt(var + epsilon) * scale + b`` over each channel. Source: ONNX InstanceNormalization, opset 22."""
    return _standardized(prod(x), prod(x[:2])) + Work(flops=2) * prod(x)


def GroupNormalization(x: Shape, *, num_groups: int) -> Work:
    """``(x - mean) / sqrt(var + epsilon) * scale + b`` over each group. Source: ONNX GroupNormalization, opset 21."""
    return _standardized(prod(x), x[0] * num_groups) + Work(flops=2) * prod(x)


def _standardized(elements: int, groups: int) -> Work:
    """Two means, a difference, a square and a division; epsilon and a root for each group."""
    return Work(flops=5) * elements + Work(flops=3, special=1) * groups


def LayerNormalization(x: Shape, scale: Shape, b: Shape | None = None, *, axis: int = -1) -> Work:
    """``(x - mean) * (1 / sqrt(var + epsilon)) * scale + b`` over the axes from ``axis`` on.

    For each element two means, a difference, a square, two products and the bias; for each row two divisions of the means,
    epsilon, a root and its reciprocal.

    Source:
        ONNX LayerNormalization, opset 17; Ba et al., 2016.
    """
    rows = prod(x[: axis % len(x)])
    return Work(flops=6 + (b is not None)) * prod(x) + Work(flops=4, special=1) * rows


def RMSNormalization(x: Shape, *, axis: int = -1) -> Work:
    """``x / sqrt(mean of x^2 + epsilon) * scale`` over the axes from ``axis`` on.

    Source:
        ONNX RMSNormalization, opset 23; Zhang and Sennrich, 2019.
    """
    return Work(flops=4) * prod(x) + Work(flops=2, special=1) * prod(x[: axis % len(x)])


def MeanVarianceNormalization(x: Shape, *, axes: Sequence[int] = (0, 2, 3)) -> Work:
    """``(x - mean) / (sqrt(var) + 1e-9)`` over ``axes``. Source: ONNX MeanVarianceNormalization, opset 13."""
    over = {axis % len(x) for axis in axes}
    return _standardized(prod(x), prod(size for i, size in enumerate(x) if i not in over))


def LpNormalization(x: Shape, *, axis: int = -1, p: int = 2) -> Work:
    """``x / sum of |x|`` or ``x / sqrt(sum of x^2)``, 0 where that is 0. Source: ONNX LpNormalization, opset 22."""
    rows = prod(size for i, size in enumerate(x) if i != axis % len(x))
    return Work(flops=1 + p) * prod(x) + Work(special=int(p == 2), comparisons=1) * rows


def LRN(x: Shape, *, size: int) -> Work:
    """``x / (bias + alpha / size * sum of x^2) ** beta``, summed over ``size`` channels around each.

    Source:
        ONNX LRN, opset 13; Krizhevsky et al., 2012, section 3.3.
    """
    return Work(flops=4 + size, special=1) * prod(x)


def Dropout(
    x: Shape, ratio: Shape | None = None, training_mode: Shape | None = None, *, values: Sequence[np.ndarray | None]
) -> Work:
    """``mask * x / (1 - ratio)`` in training, with a comparison of a random number; else nothing.

    Drawing the numbers is not counted: the standard does not say how.

    Source:
        ONNX Dropout, opset 22; Srivastava et al., 2014.
    """
    if training_mode is None:
        return Work()
    training, dropped = values[2], None if ratio is None else values[1]
    if training is None or (ratio is not None and dropped is None):
        raise Unknown
    idle = not bool(training) or (dropped is not None and float(dropped) == 0)
    return Work() if idle else Work(flops=1, comparisons=1) * prod(x)


def _batch_scaled(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """Batch normalisation folded into ``x * a + (b - mean * a)`` with ``a = scale / sqrt(variance + epsilon)``."""
    x, scale, _, mean, variance = (np.asarray(v, np.float64) for v in inputs[:5])
    if y.shape != x.shape:
        return 0.0
    each = (-1, *(1,) * (x.ndim - 2))
    a = scale / np.sqrt(variance + settings.get("epsilon", 1e-5))
    return np.abs(a).reshape(each) * np.sqrt(x**2 + (mean**2).reshape(each))


def _instance_scaled(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """Instance normalisation, folded likewise."""
    x, scale = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64)
    axes = tuple(range(2, x.ndim))
    return _folded(x, axes, settings.get("epsilon", 1e-5), scale.reshape(-1, *(1,) * (x.ndim - 2)), y)


def _group_scaled(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """Group normalisation, folded likewise."""
    x, scale = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64)
    grouped = x.reshape(x.shape[0], int(settings["num_groups"]), -1)
    each = np.ones_like(x) * scale.reshape(-1, *(1,) * (x.ndim - 2))
    amplitude = _folded(grouped, (2,), settings.get("epsilon", 1e-5), each.reshape(grouped.shape), grouped)
    return np.reshape(amplitude, y.shape) if y.shape == x.shape else 0.0


def _layer_scaled(inputs: Sequence[Any], settings: Mapping[str, Any], y: np.ndarray) -> Any:
    """Layer normalisation, folded likewise."""
    x, scale = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64)
    axes = tuple(range(settings.get("axis", -1) % x.ndim, x.ndim))
    return _folded(x, axes, settings.get("epsilon", 1e-5), scale, y)


def _folded(x: np.ndarray, axes: tuple[int, ...], epsilon: float, scale: np.ndarray, y: np.ndarray) -> Any:
    if y.shape != x.shape:
        return 0.0
    mean, variance = np.mean(x, axis=axes, keepdims=True), np.var(x, axis=axes, keepdims=True)
    return np.abs(scale) * np.sqrt((x**2 + mean**2) / (variance + epsilon))


def _without_training(attributes: Mapping[str, Any], _: int) -> bool:
    return attributes.get("training_mode", 0) == 0


_SCALED = OperatorFacts(learnt=(1, 2), roles={1: "scale", 2: "bias"})

OPERATORS: Mapping[str, OperatorFacts] = {
    "BatchNormalization": OperatorFacts(
        cost=BatchNormalization,
        initializer_settings=(3, 4),
        learnt=(1, 2),
        roles={1: "scale", 2: "bias", 3: "mean", 4: "variance"},
        allowance=_batch_scaled,
        draws={"input_var": "positive"},
        row_axes=in_inference,
        by_sample=_without_training,
        defines_special=True,
    ),
    "Dropout": OperatorFacts(cost=Dropout, initializer_settings=(1,), draws={"ratio": "between:0:0.9"}),
    "GroupNormalization": replace(
        _SCALED,
        cost=GroupNormalization,
        alike=like_first,
        stashes=True,
        allowance=_group_scaled,
        row_axes=first,
        by_sample=single_result,
    ),
    "InstanceNormalization": replace(
        _SCALED,
        cost=InstanceNormalization,
        allowance=_instance_scaled,
        row_axes=first,
        by_sample=single_result,
        defines_special=True,
    ),
    "LRN": OperatorFacts(cost=LRN, row_axes=first, by_sample=single_result),
    "LayerNormalization": replace(
        _SCALED, cost=LayerNormalization, stashes=True, allowance=_layer_scaled, row_axes=off_axis, defines_special=True
    ),
    "LpNormalization": OperatorFacts(cost=LpNormalization, growth=powers(order)),
    "MeanVarianceNormalization": OperatorFacts(cost=MeanVarianceNormalization, alike=like_first),
    "RMSNormalization": OperatorFacts(
        cost=RMSNormalization, learnt=(1,), roles={1: "scale"}, stashes=True, row_axes=off_axis, defines_special=True
    ),
}
"""The rows, by operator."""
