"""Attention: plain, causal, with masks, with shared heads, capped, over a cache, over many keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..problem import Problem, normal, single

_QKV = {"q": normal(2, 4, 10, 16), "k": normal(2, 4, 14, 16), "v": normal(2, 4, 14, 16, seed=1)}
_SQUARE = {"q": normal(2, 2, 12, 8, scale=2), "k": normal(2, 2, 12, 8, seed=2), "v": normal(2, 2, 12, 8, seed=1)}
_SHARED = {"q": normal(1, 6, 9, 16), "k": normal(1, 2, 11, 16), "v": normal(1, 2, 11, 16, seed=1)}
_LONG = {"q": normal(1, 2, 24, 32), "k": normal(1, 2, 300, 32), "v": normal(1, 2, 300, 32, seed=1)}


def _allowed(queries: int, keys: int) -> np.ndarray:
    mask = np.random.default_rng(9).random((queries, keys)) < 0.7
    mask[:, 0] = True
    return mask


_PAST = {
    "q": normal(1, 2, 3, 16),
    "k": normal(1, 2, 3, 16, seed=2),
    "v": normal(1, 2, 3, 16, seed=1),
    "mask": None,
    "pk": normal(1, 2, 8, 16),
    "pv": normal(1, 2, 8, 16, seed=1),
}

PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "Attention": single("Attention", _QKV),
    "Attention causal": single("Attention", _SQUARE, is_causal=1),
    "Attention masked": single("Attention", {**_QKV, "mask": _allowed(10, 14)}),
    "Attention biased": single("Attention", {**_QKV, "mask": normal(10, 14, scale=2)}),
    "Attention shared": single("Attention", _SHARED),
    "Attention long": single("Attention", _LONG),
    "Attention capped": single("Attention", _SQUARE, softcap=3.0, scale=0.7),
    "Attention past": single("Attention", _PAST, outputs=3, is_causal=1),
}
