"""Losses of classification: each target's gradient is put in the place of its class."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._arithmetic import in_float32, mask

__all__ = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]


@in_float32
def NegativeLogLikelihoodLoss(at, x, target, weight=None, *, ignore_index=None, reduction="mean"):
    """``dx[n, t, …] = -weight[t] * dy[n, …]`` with ``t = target[n, …]``, over the sum of the weights for a mean."""
    chosen = _TargetChoice(at, x, target, weight, ignore_index, reduction)
    dx = at.op.ScatterElements(at.op.zeros_like(x), chosen.index, -chosen.scale, axis=1)
    return dx, None, chosen.weight_gradient(x) if at.wants(2) else None


@in_float32
def SoftmaxCrossEntropyLoss(at, x, labels, weights=None, *, ignore_index=None, reduction="mean"):
    """``dx = weight[t] * dy * (softmax(x) - onehot(t))`` with the label ``t``, and what arrives at the log-probabilities."""
    log_probabilities, further = at.output(1), at.gradient_or_none(1)
    chosen = _TargetChoice(at, x, labels, weights, ignore_index, reduction)
    scale, probabilities = chosen.scale, at.op.Exp(log_probabilities)
    if further is None:
        dx = at.op.ScatterElements(probabilities * scale, chosen.index, -scale, axis=1, reduction="add")
    else:
        arrived = at.op.ScatterElements(further, chosen.index, -scale, axis=1, reduction="add")
        dx = arrived - probabilities * arrived.sum([1], keepdims=True)
    return dx, None, chosen.weight_gradient(log_probabilities) if at.wants(2) else None


class _TargetChoice:
    """What the targets choose.

    Attributes:
        index: The class of each target, with an axis for it; 0 for those that are ignored.
        scale: The gradient of each target's loss times its weight, with the same axis.
    """

    def __init__(self, at, x, target, weight, ignore_index, reduction):
        self._at, self._weight = at, weight
        valid = None if ignore_index is None else ~target.equals(at.op.constant(ignore_index, target.dtype))
        self._kept = None if valid is None else mask(valid, x)
        index = target if valid is None else target * valid.cast(target.dtype)
        self.index = index.unsqueeze(1)
        weights = self._weights(index, x)
        self._total = weights.sum() if reduction == "mean" else None
        self._dy = at.dy if self._total is None else at.dy / self._total
        self.scale = (weights * self._dy).unsqueeze(1)

    def _weights(self, index, x):
        if self._weight is not None:
            weights = self._at.op.Gather(self._weight, index, axis=0)
            return weights if self._kept is None else weights * self._kept
        return self._at.op.constant(1, x.dtype).expand(index.shape) if self._kept is None else self._kept

    def weight_gradient(self, x):
        """``dw[c] = -sum of dy * x[n, c, …]`` over the targets of class ``c``; for a mean, of what differs from it."""
        op = self._at.op
        each = -op.GatherElements(x, self.index, axis=1).squeeze(1)
        each = self._dy * (each if self._total is None else each - self._at.y)
        if self._kept is not None:
            each = each * self._kept
        flat = op.constant([-1], np.int64)
        indices = self.index.reshape(flat)
        return op.ScatterElements(op.zeros_like(self._weight), indices, each.reshape(flat), axis=0, reduction="add")
