"""Normalization of a sum: residual connections and embeddings."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators import activation as act
from deep_bench.reference.operators import normalization
from deep_bench.reference.operators._arguments import check_choice, in_float32, widened

__all__ = [
    "BiasAdd",
    "EmbedLayerNormalization",
    "GroupNorm",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
]

_EPSILON = 9.999999960041972e-13  # the float32 nearest to 1e-12


def SkipLayerNormalization(x, skip, gamma, beta=None, bias=None, *, epsilon=_EPSILON):
    """``(s - mean) / sqrt(var + epsilon) * gamma + beta`` over the last axis of ``s = x + skip + bias``.

    Returns:
        The result, the means and ``1 / sqrt(var + epsilon)`` in float32, and ``s``.

    Source:
        ONNX Runtime SkipLayerNormalization.
    """
    total = _total(x, skip, bias)
    shift = None if beta is None else widened(beta)
    y, mean, inverse = normalization.LayerNormalization(total, widened(gamma), shift, epsilon=epsilon, n_outputs=3)
    return y.astype(x.dtype, copy=False), mean, inverse, total.astype(x.dtype, copy=False)


def SkipSimplifiedLayerNormalization(x, skip, gamma, bias=None, *, epsilon=_EPSILON):
    """``s / sqrt(mean of s^2 + epsilon) * gamma`` over the last axis of ``s = x + skip + bias``.

    Returns:
        The result, the means (zeros, for none are subtracted) and ``1 / sqrt(…)`` in float32 at least, and ``s``.

    Source:
        ONNX Runtime SkipSimplifiedLayerNormalization.
    """
    total = _total(x, skip, bias)
    inverse = 1 / np.sqrt(np.mean(np.square(total), axis=-1, keepdims=True) + epsilon)
    y = total * inverse * widened(gamma)
    return y.astype(x.dtype, copy=False), np.zeros_like(inverse), inverse, total.astype(x.dtype, copy=False)


def _total(x, skip, bias):
    total = widened(x) + widened(skip)
    return total if bias is None else total + widened(bias)


@in_float32
def EmbedLayerNormalization(
    input_ids,
    segment_ids,
    word_embedding,
    position_embedding,
    segment_embedding,
    gamma,
    beta,
    mask=None,
    position_ids=None,
    *,
    epsilon=_EPSILON,
    mask_index_type=None,
):
    """LayerNormalization of the sum of the rows that words, positions and segments have in their tables.

    Positions count from 0 where they are not given.

    Returns:
        The result; for each sequence the number of ones in its mask (0 without a mask); and the sum itself.

    Source:
        ONNX Runtime EmbedLayerNormalization; Devlin et al., BERT, 2019, figure 2.
    """
    batch, length = input_ids.shape
    positions = np.arange(length) if position_ids is None else position_ids
    total = np.take(word_embedding, input_ids, axis=0) + np.take(position_embedding, positions, axis=0)
    if segment_ids is not None:
        total = total + np.take(segment_embedding, segment_ids, axis=0)
    counted = np.zeros(batch, np.int32) if mask is None else np.count_nonzero(mask == 1, axis=1).astype(np.int32)
    return normalization.LayerNormalization(total, gamma, beta, epsilon=epsilon), counted, total


@in_float32
def GroupNorm(x, gamma, beta, *, activation, groups, channels_last=1, epsilon=9.999999747378752e-06):
    """GroupNormalization, channels first or last, and with ``activation`` 1 followed by ``y * sigmoid(y)``.

    Source:
        ONNX Runtime GroupNorm.
    """
    check_choice("GroupNorm", "activation", activation, (0, 1))
    first = np.moveaxis(x, -1, 1) if channels_last else x
    y = normalization.GroupNormalization(first, gamma, beta, num_groups=groups, epsilon=epsilon)
    y = np.moveaxis(y, 1, -1) if channels_last else y
    return act.Swish(y) if activation else y


@in_float32
def BiasAdd(x, bias, skip):
    """``x + bias + skip``, where ``bias`` is a vector along the last axis. Source: ONNX Runtime BiasAdd."""
    return x + bias + skip
