"""What the attention operators share: heads, masks, caches, and the attention itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators.activation import Softmax

MASKED = -10000.0  # what is added to the scores that a mask excludes, unless the node says otherwise


def heads(x: Any, count: int) -> Any:
    """``(batch, length, heads * size)`` as ``(batch, heads, length, size)``; a tensor with four axes is so already."""
    if x.ndim == 4:
        return x
    batch, length, width = x.shape
    return np.transpose(x.reshape(batch, length, count, width // count), (0, 2, 1, 3))


def joined(x: Any) -> Any:
    """``(batch, heads, length, size)`` as ``(batch, length, heads * size)``."""
    batch, count, length, size = x.shape
    return np.transpose(x, (0, 2, 1, 3)).reshape(batch, length, count * size)


def kept(mask: Any, batch: int, past: int, queries: int, keys: int) -> Any:
    """Which keys a mask lets each query see, to be broadcast to ``(batch, heads, queries, keys)``.

    Args:
        mask: One of: the length of each sequence of keys, ``(batch,)``, or with cumulative lengths behind them,
            ``(3 * batch + 2,)``; ends and then starts, ``(2 * batch,)``; positive where a key is seen, ``(batch, keys)``
            or ``(batch, queries, keys)``, or ``(batch, 1, longest, longest)`` for all positions that there may ever be.
        batch: The number of sequences.
        past: The position of the first query.
        queries: The number of queries.
        keys: The number of keys, past ones included.
    """
    if mask.ndim == 1:
        return _between(mask, batch, np.arange(keys))
    if mask.ndim == 2:
        return (mask > 0)[:, np.newaxis, np.newaxis]
    if mask.ndim == 3:
        return (mask > 0)[:, np.newaxis]
    return mask[:, :, past : past + queries, :keys] > 0


def _between(mask: Any, batch: int, key: Any) -> Any:
    if len(mask) not in (batch, 2 * batch, 3 * batch + 2):
        raise Unsupported(
            f"a mask of {len(mask)} numbers for {batch} sequences", "one, two or three for each, the last with two more"
        )
    inside = key < mask[:batch, np.newaxis]
    if len(mask) == 2 * batch:
        inside = inside & (key >= mask[batch:, np.newaxis])
    return inside[:, np.newaxis, np.newaxis]


def seen(queries: int, keys: int, past: int) -> Any:
    """Which keys are no later than each query, ``(queries, keys)``, if ``past`` keys come before the first query's own."""
    return np.arange(keys) <= np.arange(queries)[:, np.newaxis] + past


def mask_bias(scores: Any, mask: Any, past: int, unidirectional: int, masked: float) -> Any:
    """What is added to the ``scores``: ``masked`` where the mask excludes a key, the lowest number where it is later."""
    batch, _, queries, keys = scores.shape
    bias = np.zeros_like(scores, shape=())
    if mask is not None:
        bias = np.where(kept(mask, batch, past, queries, keys), bias, masked)
    if unidirectional:
        bias = np.where(seen(queries, keys, past), bias, np.finfo(scores.dtype).min)
    return bias.astype(scores.dtype, copy=False)


def scores_of(q: Any, k: Any, scale: float | None) -> Any:
    """``scale * Q K^T``, the scale being ``1 / sqrt(size of a head)`` if there is none or it is 0."""
    return np.matmul(q, np.swapaxes(k, 2, 3)) * (scale or 1 / math.sqrt(q.shape[3]))


def attend(
    q: Any, k: Any, v: Any, *, mask: Any, bias: Any, past: int, unidirectional: int, scale: float | None, masked: float
) -> tuple[Any, Any]:
    """``softmax(scale * Q K^T + mask + bias) V`` as ``(batch, length, heads * size)``, and the scores before the softmax."""
    scores = scores_of(q, k, scale)
    scores = scores + mask_bias(scores, mask, past, unidirectional, masked)
    if bias is not None:
        scores = scores + bias
    return joined(np.matmul(Softmax(scores), v)), scores


def extended(cache: Any, new: Any, length: Any) -> tuple[Any, Any, int]:
    """Keys or values with the past ones before them.

    Args:
        cache: The past ones, ``(batch, heads, length, size)``, or ``None``.
        new: Those of now.
        length: ``None``, or how much of the cache is in use; the rest is room for the new ones.

    Returns:
        All of them; the cache after this, which is the same, or as large as before if it has room; and how many are past.
    """
    if cache is None:
        return new, new, 0
    if length is None:
        whole = np.concatenate((cache, new), axis=2)
        return whole, whole, cache.shape[2]
    past = int(length.reshape(()))
    whole = np.concatenate((cache[:, :, :past], new), axis=2)
    return whole, np.concatenate((whole, cache[:, :, whole.shape[2] :]), axis=2), past
