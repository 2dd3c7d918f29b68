"""Losses of classification: weights, targets to ignore inside and outside the range of classes, all reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes


def _classified(draw: Draw, operator: str) -> tuple[list[Any], dict[str, Any]]:
    """At least one target counts: the mean of none is left open."""
    n, classes, extra_shape = draw.integer(1, 3), draw.integer(1, 5), draw.full_shape(0, 3)
    dtype = draw.pick(dtypes(operator))
    ignored = draw.pick((None, -1, -100, classes, 0) if classes > 1 else (None, -1))
    choices = [c for c in range(classes) if c != ignored]
    target = np.array([draw.pick(choices) for _ in range(n * int(np.prod(extra_shape)))], draw.pick(dtypes(operator, 1)))
    if ignored is not None:
        target[1:][draw.array((target.size - 1,), np.dtype(bool))] = ignored
    weight = draw.maybe(np.abs(draw.array((classes,), dtype, "normal")) + np.asarray(0.25, dtype))
    attributes = {"ignore_index": ignored, "reduction": draw.pick((None, "none", "sum", "mean"))}
    return [draw.moderate((n, classes, *extra_shape), dtype), target.reshape(n, *extra_shape), weight], attributes


def NegativeLogLikelihoodLoss(draw: Draw) -> GeneratedProblem:
    """See `_classified`."""
    return GeneratedProblem("NegativeLogLikelihoodLoss", *_classified(draw, "NegativeLogLikelihoodLoss"))


def SoftmaxCrossEntropyLoss(draw: Draw) -> GeneratedProblem:
    """See `_classified`; with or without the logarithms of the probabilities."""
    return GeneratedProblem(
        "SoftmaxCrossEntropyLoss", *_classified(draw, "SoftmaxCrossEntropyLoss"), outputs=draw.integer(1, 2)
    )


GENERATORS: dict[str, Callable[[Draw], GeneratedProblem]] = {
    "NegativeLogLikelihoodLoss": NegativeLogLikelihoodLoss,
    "SoftmaxCrossEntropyLoss": SoftmaxCrossEntropyLoss,
}
