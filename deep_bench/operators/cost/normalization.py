"""Normalization of activations, and dropout.

A mean counts an addition for each element and a division for each result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from deep_bench.operators.cost.model import Shape, Unknown, Work

__all__ = [
    "LRN",
    "BatchNormalization",
    "Dropout",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "LpNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
    "SimplifiedLayerNormalization",
]


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


def SimplifiedLayerNormalization(x: Shape, *, axis: int = -1) -> Work:
    """A `RMSNormalization` by the reciprocal of the root. Source: ONNX Runtime SimplifiedLayerNormalization."""
    return RMSNormalization(x, axis=axis) + Work(flops=prod(x[: axis % len(x)]))


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
