"""Normalizations, on rows of which some vary so little that an epsilon shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..problem import Problem, chain, normal, positive, single

_X4 = {"x": normal(2, 8, 14, 14)}
_AFFINE = {"s": positive(8), "b": normal(8)}
_BN = {"s": positive(8), "o": normal(8), "m": normal(8, seed=1), "v": positive(8) * np.float32(0.05)}


def _small_variance(*shape: int) -> np.ndarray:
    """Rows of which some vary by little: only those show an epsilon."""
    x = normal(*shape)
    x[::2] *= np.float32(0.01)
    return x


def _block() -> Problem:
    """A residual block of a transformer without its attention: normalise, widen, GELU, narrow."""
    weights = {"s": positive(48), "b": normal(48), "w1": normal(48, 192, scale=0.2), "w2": normal(192, 48, scale=0.2)}
    nodes = [
        ("LayerNormalization", ["s", "b"], 1, {"axis": -1, "epsilon": 1e-3}),
        ("MatMul", ["w1"], 1, {}),
        ("Gelu", [], 1, {}),
        ("MatMul", ["w2"], 1, {}),
        ("LayerNormalization", ["s", "b"], 1, {"axis": -1, "epsilon": 1e-3}),
    ]
    return chain("block", {"x": normal(4, 12, 48)}, nodes, weights)


_LAYER = {"s": positive(24), "b": normal(24)}

PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "BatchNormalization": single("BatchNormalization", _X4, _BN, epsilon=1e-3),
    "LayerNormalization": single("LayerNormalization", {"x": _small_variance(6, 16, 24)}, _LAYER, axis=-1, epsilon=1e-3),
    "LayerNormalization over two axes": single(
        "LayerNormalization",
        {"x": _small_variance(6, 9, 10)},
        {"s": positive(9, 10), "b": normal(9, 10)},
        axis=1,
        epsilon=1e-3,
    ),
    "LayerNormalization shifted": single(
        "LayerNormalization", {"x": normal(24, 64, shift=4)}, {"s": positive(64), "b": normal(64)}, axis=-1, epsilon=1e-3
    ),
    "RMSNormalization": single("RMSNormalization", {"x": _small_variance(8, 12, 24)}, {"s": positive(24)}, epsilon=1e-3),
    "InstanceNormalization": single("InstanceNormalization", {"x": normal(2, 8, 9, 9, scale=0.1)}, _AFFINE, epsilon=1e-3),
    "GroupNormalization": single(
        "GroupNormalization", {"x": normal(2, 8, 7, 7, scale=0.1)}, _AFFINE, num_groups=4, epsilon=1e-3
    ),
    "LRN": single("LRN", {"x": normal(2, 12, 6, 6, scale=3)}, size=5, alpha=0.1, beta=0.75),
    "block": _block,
}
