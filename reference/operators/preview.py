"""Operators that the standard is still trying out: domain ``ai.onnx.preview``."""

from __future__ import annotations

import math

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import dtype_of
from deep_bench.reference.operators.activation import Softmax

__all__ = ["FlexAttention"]


def FlexAttention(q, k, v, *, prob_mod=None, scale=None, score_mod=None, softmax_precision=None):
    """``prob_mod(softmax(score_mod(scale * Q K^T))) V``, in float32 or float64.

    Several heads of ``q`` share one of ``k`` and ``v`` if they have fewer.

    Args:
        q: Queries ``[batch, heads, length, size]``.
        k: Keys ``[batch, shared heads, other length, size]``.
        v: Values, like the keys but for the size.
        prob_mod: What becomes of the weights; nothing by default.
        scale: ``1 / sqrt(size)`` by default.
        score_mod: What becomes of the scores; nothing by default.
        softmax_precision: Element type of scores and weights; float64 for float64 by default, else float32.

    Source:
        ONNX FlexAttention, ai.onnx.preview 1; Dong et al., Flex Attention, 2024.
    """
    if q.shape[1] % k.shape[1]:
        raise InvalidInput(f"FlexAttention with {q.shape[1]} heads on {k.shape[1]}", "a multiple of them")
    default = np.dtype(np.float64 if q.dtype == np.float64 else np.float32)
    precision = default if softmax_precision is None else dtype_of(softmax_precision)
    shared = q.shape[1] // k.shape[1]
    queries = q.astype(default, copy=False)
    keys, values = (np.repeat(x.astype(default, copy=False), shared, axis=1) for x in (k, v))
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    scores = (np.matmul(queries, np.swapaxes(keys, 2, 3)) * factor).astype(precision, copy=False)
    if score_mod is not None:
        (scores,) = score_mod(scores)
    weights = Softmax(scores)
    if prob_mod is not None:
        (weights,) = prob_mod(weights)
    return np.matmul(weights.astype(default, copy=False), values).astype(q.dtype, copy=False)
