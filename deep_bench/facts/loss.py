"""Losses of classification."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from deep_bench.facts.activation import LogSoftmax
from deep_bench.facts.row import OperatorFacts, Shape, Work
from deep_bench.facts.rules import Growth, ShapedCase, below, elements


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


def _by_class(case: ShapedCase) -> Growth:
    return Growth(elements(case), len(case.arguments) - 1)  # a weight for each class multiplies


OPERATORS: Mapping[str, OperatorFacts] = {
    "NegativeLogLikelihoodLoss": OperatorFacts(
        cost=NegativeLogLikelihoodLoss,
        choices={"reduction": "mean none sum"},
        index_input=1,
        draws={"input": "log_probabilities:1", "target": below("input", 1), "weight": "positive"},
        growth=_by_class,
        loss=True,
    ),
    "SoftmaxCrossEntropyLoss": OperatorFacts(
        cost=SoftmaxCrossEntropyLoss,
        choices={"reduction": "mean none sum"},
        index_input=1,
        draws={"labels": below("scores", 1), "weights": "positive"},
        growth=_by_class,
        loss=True,
    ),
}
"""The rows, by operator."""
