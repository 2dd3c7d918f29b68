"""What a model's scores become before they leave it: the attribute ``post_transform``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from deep_bench.reference.operators._arguments import check_choice
from deep_bench.reference.operators.activation import Sigmoid, Softmax

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The transforms in the order of TreeEnsemble's codes for them."""

_ZERO = 1e-7  # what ONNX Runtime takes for a score of zero


def transformed(scores: Any, kind: str) -> Any:
    """The transform of scores ``[N, E]``, along the last axis where it takes several together.

    ==============  =====================================================================
    ``NONE``        the scores
    ``SOFTMAX``     ``exp(s) / sum of exp(s)``
    ``LOGISTIC``    ``1 / (1 + exp(-s))``
    ``SOFTMAX_ZERO``  the softmax of those that are not zero; zeros stay zero
    ``PROBIT``      ``sqrt(2) * erfinv(2 s - 1)``: NaN outside of [0, 1]
    ==============  =====================================================================

    Raises:
        Unsupported: The standard knows no such transform.

    Example:
        >>> transformed(np.array([[0.0, 1.0, 1.0]]), "SOFTMAX_ZERO").tolist()
        [[0.0, 0.5, 0.5]]
    """
    check_choice("a model", "post_transform", kind, TRANSFORMS)
    if kind == "SOFTMAX":
        return Softmax(scores)
    if kind == "LOGISTIC":
        return Sigmoid(scores)
    if kind == "SOFTMAX_ZERO":
        return _softmax_zero(scores)
    return math.sqrt(2) * special.erfinv(2 * scores - 1) if kind == "PROBIT" else scores


def two_classes(score: Any, kind: str, *, probability: bool) -> Any:
    """The transformed scores ``[N, 2]`` of two classes of which only the second one's ``[N]`` is known.

    The first class has ``1 - s`` if ``s`` is a probability, and ``-s`` if not. Where the transform makes a probability of
    any score it is given ``-s``, where it takes a probability ``1 - s``.
    """
    complement = kind == "PROBIT" or (kind == "NONE" and probability)
    return transformed(np.stack((1 - score if complement else -score, score), axis=-1), kind)


def _softmax_zero(scores: Any) -> Any:
    counted = np.abs(scores) > _ZERO
    largest = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    powers = np.where(counted, np.exp(scores - largest), 0)
    total = np.sum(powers, axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)
