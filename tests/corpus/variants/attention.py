"""Correct attention: in tiles of keys with a running maximum, tiles of queries, fused scales, other bases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import NormWise, algorithm, in_double
from ..subjects import Patch
from .softmax import fast_exp


def _tiled(count: int) -> Patch:
    """Keys in tiles, with a running maximum and a running sum."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        q, k, v = x[:3]
        scale = q.dtype.type(1 / math.sqrt(q.shape[-1]))
        top = np.full((*q.shape[:-1], 1), -np.inf, q.dtype)
        total, result = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
        for tile in np.array_split(np.arange(k.shape[-2]), count):
            scores = np.matmul(q, np.swapaxes(k[..., tile, :], -1, -2)) * scale
            new = np.maximum(top, scores.max(-1, keepdims=True))
            weight, old = np.exp(scores - new), np.exp(top - new)
            total = total * old + weight.sum(-1, keepdims=True)
            result = result * old + np.matmul(weight, v[..., tile, :])
            top = new
        return result / total

    return patch


def _queries_apart(f: Any, x: Any, a: Any) -> Any:
    """Query by query, as in decoding."""
    parts = [f(x[0][:, :, k : k + 1], *x[1:], **a) for k in range(x[0].shape[2])]
    return np.concatenate([p[0] if isinstance(p, tuple) else p for p in parts], axis=2)


def _scaled_query(exp: Any = np.exp) -> Patch:
    """All of the scale on the queries, the division after the product with the values."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        q = x[0] * x[0].dtype.type(1 / math.sqrt(x[0].shape[-1]))
        scores = np.einsum("bhid,bhjd->bhij", q, x[1])
        e = exp(scores - scores.max(-1, keepdims=True))
        return np.matmul(e, x[2]) / e.sum(-1, keepdims=True)

    return patch


def _base_two(x: Any) -> Any:
    return np.exp2(x * x.dtype.type(math.log2(math.e)))


def _heads_apart(f: Any, x: Any, a: Any) -> Any:
    """Head by head, each with the keys that it shares."""
    count = x[0].shape[1] // x[1].shape[1]
    rest = x[3:]
    parts = []
    for head in range(x[0].shape[1]):
        shared = head // count
        y = f(x[0][:, head : head + 1], x[1][:, shared : shared + 1], x[2][:, shared : shared + 1], *rest, **a)
        parts.append(y[0] if isinstance(y, tuple) else y)
    return np.concatenate(parts, axis=1)


def _finite_mask(f: Any, x: Any, a: Any) -> Any:
    """A mask of large numbers in place of infinite ones."""
    return f(*x[:3], np.where(x[3], 0, -3e4).astype(x[0].dtype), **a)


def _causal_rows(f: Any, x: Any, a: Any) -> Any:
    """Each query with the keys up to its own only."""
    rows = [f(x[0][:, :, i : i + 1], x[1][:, :, : i + 1], x[2][:, :, : i + 1], **{**a, "is_causal": 0}) for i in range(12)]
    return np.concatenate([r[0] if isinstance(r, tuple) else r for r in rows], axis=2)


VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    ("Attention", "Attention in float64"): in_double,
    ("Attention", "Attention tiled"): _tiled(3),
    ("Attention", "Attention key by key"): _tiled(14),
    ("Attention", "Attention query by query"): _queries_apart,
    ("Attention", "Attention head by head"): _heads_apart,
    ("Attention", "Attention with scaled queries"): _scaled_query(),
    ("Attention", "Attention to base 2"): _scaled_query(_base_two),
    ("Attention", "Attention with fast exponentials"): _scaled_query(fast_exp),
    **{
        (where, "Attention by the algorithm tiled"): algorithm("Attention", "tiled")
        for where in (
            "Attention",
            "Attention causal",
            "Attention masked",
            "Attention biased",
            "Attention shared",
            "Attention long",
            "Attention capped",
            "Attention past",
        )
    },
    ("Attention long", "Attention tiled"): _tiled(10),
    ("Attention long", "Attention key by key"): _tiled(300),
    ("Attention long", "Attention with scaled queries"): _scaled_query(),
    ("Attention long", "Attention with fast exponentials"): _scaled_query(fast_exp),
    ("Attention long", "Attention in float64"): in_double,
    ("Attention causal", "Attention row by row"): _causal_rows,
    ("Attention causal", "Attention head by head"): _heads_apart,
    ("Attention causal", "Attention in float64"): in_double,
    ("Attention masked", "Attention with a finite mask"): _finite_mask,
    ("Attention masked", "Attention head by head"): _heads_apart,
    ("Attention shared", "Attention head by head"): _heads_apart,
    ("Attention shared", "Attention in float64"): in_double,
    ("Attention capped", "Attention query by query"): _queries_apart,
    ("Attention past", "Attention in float64"): in_double,
}
