"""Losses of classification."""

from __future__ import annotations

from math import prod

from deep_bench.operators.cost.activation import LogSoftmax
from deep_bench.operators.cost.model import Shape, Work

__all__ = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]


def NegativeLogLikelihoodLoss(x: Shape, target: Shape, weight: Shape | None = None, *, reduction: str = "mean") -> Work:
    """``-weight[t] * x[n, t, …]`` for each target, and their sum, or also the sum of the weights and a division.

    Source:
        ONNX NegativeLogLikelihoodLoss, opset 22.
    """
    targets = prod(target)
    summed = {"none": 0, "sum": targets, "mean": 2 * targets + 1}[reduction]
    return Work(flops=targets + summed)


def SoftmaxCrossEntropyLoss(x: Shape, labels: Shape, weights: Shape | None = None, *, reduction: str = "mean") -> Work:
    """A `LogSoftmax` along axis 1, and the `NegativeLogLikelihoodLoss` of it.

    Source:
        ONNX SoftmaxCrossEntropyLoss, opset 13.
    """
    return LogSoftmax(x, axis=1) + NegativeLogLikelihoodLoss(x, labels, weights, reduction=reduction)
