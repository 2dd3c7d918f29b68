"""Faults of attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import after, attributes, bfloat16, float16, on_input, on_inputs, rounded_inputs, tf32, times, without
from ..subjects import Patch


def _weights(scores: Any) -> Any:
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _scores(x: Any) -> Any:
    return np.matmul(x[0], np.swapaxes(x[1], -1, -2)) * x[0].dtype.type(1 / math.sqrt(x[0].shape[-1]))


def _weights_in(to: Any) -> Patch:
    """The weights rounded before they meet the values, as kernels on tensor cores do."""
    return lambda f, x, a: np.matmul(to(_weights(_scores(x))), to(x[2]))


def _scores_in(to: Any) -> Patch:
    return lambda f, x, a: np.matmul(_weights(to(_scores(x))), x[2])


def _tiled(*, rescaled: bool = True, last: bool = True, initial: float = -np.inf) -> Patch:
    """Keys in tiles with a running maximum, with something missing."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        scores = _scores(x)
        tiles = np.array_split(np.arange(scores.shape[-1]), 5)
        top = np.full((*scores.shape[:-1], 1), initial, scores.dtype)
        total, result = np.zeros_like(top), np.zeros((*scores.shape[:-1], x[2].shape[-1]), scores.dtype)
        for tile in tiles if last else tiles[:-1]:
            new = np.maximum(top, scores[..., tile].max(-1, keepdims=True))
            weight, old = np.exp(scores[..., tile] - new), np.exp(top - new)
            total = total * old + weight.sum(-1, keepdims=True)
            result = result * (old if rescaled else 1) + np.matmul(weight, x[2][..., tile, :])
            top = new
        return result / total

    return patch


def _causal_by(offset: int) -> Patch:
    """The diagonal of the causal mask moved."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        queries, keys = x[0].shape[2], x[1].shape[2]
        mask = np.arange(keys) <= np.arange(queries)[:, None] + offset
        return f(*x[:3], mask, **{**a, "is_causal": 0})

    return patch


def _masked_after(f: Any, x: Any, a: Any) -> Any:
    """Weights are set to zero after the softmax, and not divided again."""
    return np.matmul(_weights(_scores(x)) * x[3], x[2])


def _heads_in_turn(f: Any, x: Any, a: Any) -> Any:
    """Shared keys dealt out in turn: head 1 reads the second one."""
    count = x[0].shape[1] // x[1].shape[1]
    return f(x[0], np.tile(x[1], (1, count, 1, 1)), np.tile(x[2], (1, count, 1, 1)), **a)


def _past_ignored_by_mask(f: Any, x: Any, a: Any) -> Any:
    """The causal mask counts from the first key of the cache, and not from the end of it."""
    k, v = np.concatenate((x[4], x[1]), 2), np.concatenate((x[5], x[2]), 2)
    y = f(x[0], k, v, **{**a, "is_causal": 1})
    return (y[0] if isinstance(y, tuple) else y, k, v)


def _cache_swapped(f: Any, x: Any, a: Any) -> Any:
    y, k, v = f(*x, **a)[:3]
    return y, k, np.roll(v, 1, axis=2)


_FIRST_HEAD = after(lambda y: np.broadcast_to(y[:, :1], y.shape))

FAULTS: Mapping[tuple[str, str], Patch] = {
    ("Attention", "Attention without scale"): attributes(scale=1.0),
    ("Attention", "Attention with a causal mask"): attributes(is_causal=1),
    ("Attention", "Attention scaled by the length"): attributes(scale=1 / math.sqrt(14)),
    ("Attention", "Attention scaled twice"): attributes(scale=1 / 16),
    ("Attention", "Attention with weights in bfloat16"): _weights_in(bfloat16),
    ("Attention", "Attention with weights in float16"): _weights_in(float16),
    ("Attention", "Attention with scores in bfloat16"): _scores_in(bfloat16),
    ("Attention", "Attention of TF32"): rounded_inputs(tf32),
    ("Attention", "Attention of bfloat16"): rounded_inputs(bfloat16),
    ("Attention", "Attention with the first head for all"): _FIRST_HEAD,
    ("Attention", "Attention with keys for values"): lambda f, x, a: f(x[0], x[1], x[1], **a),
    ("Attention", "Attention with values in reverse"): on_input(2, lambda v: v[:, :, ::-1]),
    ("Attention", "Attention without its last key"): lambda f, x, a: f(x[0], x[1][:, :, :-1], x[2][:, :, :-1], **a),
    ("Attention", "Attention scaled by 0.9999"): after(times(0.9999)),
    ("Attention causal", "Attention with the diagonal one too high"): _causal_by(1),
    ("Attention causal", "Attention with the diagonal one too far right"): _causal_by(2),
    ("Attention causal", "Attention without its causal mask"): attributes(is_causal=0),
    ("Attention causal", "Attention of float16"): rounded_inputs(float16),
    ("Attention masked", "Attention without its mask"): without(3),
    ("Attention masked", "Attention with an inverted mask"): on_input(3, np.logical_not),
    ("Attention masked", "Attention masked after the softmax"): _masked_after,
    ("Attention masked", "Attention with a mask shifted by one"): on_input(3, lambda m: np.roll(m, 1, -1)),
    ("Attention masked", "Attention with a weak mask"): on_input(3, lambda m: np.where(m, 0, -4).astype(np.float32)),
    ("Attention biased", "Attention with its bias scaled, too"): on_input(3, lambda m: m * np.float32(0.25)),
    ("Attention biased", "Attention with its bias in bfloat16"): on_input(3, bfloat16),
    ("Attention biased", "Attention without its bias"): without(3),
    ("Attention shared", "Attention with heads shared in turn"): _heads_in_turn,
    ("Attention shared", "Attention with the first keys for all"): on_inputs(
        lambda x: [x[0], np.repeat(x[1][:, :1], 2, 1), x[2], *x[3:]]
    ),
    ("Attention long", "Attention without its last tile"): _tiled(last=False),
    ("Attention long", "Attention in tiles that are not rescaled"): _tiled(rescaled=False),
    ("Attention long", "Attention with weights in bfloat16"): _weights_in(bfloat16),
    ("Attention long", "Attention with scores in float16"): _scores_in(float16),
    ("Attention capped", "Attention without its cap"): attributes(softcap=0.0),
    ("Attention capped", "Attention capped at another number"): attributes(softcap=3.01),
    ("Attention capped", "Attention with another scale"): attributes(scale=0.701),
    ("Attention past", "Attention with a mask that forgets the cache"): _past_ignored_by_mask,
    ("Attention past", "Attention with cached values shifted"): _cache_swapped,
    ("Attention past", "Attention with past keys in bfloat16"): on_input(4, bfloat16),
}
