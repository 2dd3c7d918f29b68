"""Losses of classification."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._arguments import check_choice, in_float32
from deep_bench.reference.operators.activation import LogSoftmax

__all__ = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]


@in_float32
def NegativeLogLikelihoodLoss(x, target, weight=None, *, ignore_index=None, reduction="mean"):
    """``-weight[t] * x[n, t, …]`` with ``t = target[n, …]``, and then their sum, or their mean weighted alike.

    A target of ``ignore_index`` weighs nothing.

    Source:
        ONNX NegativeLogLikelihoodLoss, opset 22.
    """
    check_choice("NegativeLogLikelihoodLoss", "reduction", reduction, ("none", "sum", "mean"))
    ignored = np.zeros(target.shape, dtype=np.bool_) if ignore_index is None else target == ignore_index
    index = np.where(ignored, 0, target)
    picked = np.take_along_axis(x, np.expand_dims(index, 1), axis=1)
    weights = np.ones_like(x, shape=target.shape) if weight is None else np.take(weight, index)
    weights = np.where(ignored, 0, weights)
    loss = -weights * np.squeeze(picked, axis=1)
    if reduction == "none":
        return loss
    return np.sum(loss) if reduction == "sum" else np.sum(loss) / np.sum(weights)


@in_float32
def SoftmaxCrossEntropyLoss(x, labels, weights=None, *, ignore_index=None, reduction="mean", n_outputs=1):
    """The negative log-likelihood of ``log_softmax(x)`` along axis 1, which is a second output.

    Source:
        ONNX SoftmaxCrossEntropyLoss, opset 13.
    """
    log_probabilities = LogSoftmax(x, axis=1)
    loss = NegativeLogLikelihoodLoss(log_probabilities, labels, weights, ignore_index=ignore_index, reduction=reduction)
    return loss if n_outputs == 1 else (loss, log_probabilities)
