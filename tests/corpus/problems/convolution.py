"""Convolutions: strides, borders, groups, dilations, one and three dimensions, and in small networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

import deep_bench as db

from ..problem import Problem, chain, normal, positive, single

_X4 = {"x": normal(2, 8, 14, 14)}
_KERNEL = {"w": normal(12, 8, 3, 3, scale=0.2), "b": normal(12)}


def _digits() -> Problem:
    image = np.random.default_rng(5).random((4, 1, 8, 8), dtype=np.float32)
    return Problem("digits-cnn", db.load("digits-cnn").with_sizes({"batch": 4}), {"image": image})


def _normalised() -> Problem:
    weights = {**_KERNEL, "s": positive(12), "o": normal(12), "m": normal(12, seed=1), "v": positive(12) * np.float32(0.05)}
    steps = [
        ("Conv", ["w", "b"], 1, {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["s", "o", "m", "v"], 1, {"epsilon": 1e-3}),
    ]
    nodes = [*steps, ("Relu", [], 1, {}), ("GlobalAveragePool", [], 1, {})]
    return chain("conv-bn-relu-pool", _X4, nodes, weights)


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "Conv": single("Conv", _X4, _KERNEL, pads=[1, 0, 1, 2], strides=[2, 1]),
    "Conv large": single("Conv", {"x": normal(1, 8, 96, 96)}, _KERNEL, pads=[1, 1, 1, 1]),
    "Conv deep": single("Conv", {"x": normal(1, 32, 20, 22)}, {"w": normal(8, 32, 3, 3), "b": normal(8)}, pads=[1, 1, 1, 1]),
    "Conv 1d": single("Conv", {"x": normal(2, 16, 60)}, {"w": normal(8, 16, 5)}, dilations=[2], pads=[4, 4]),
    "Conv 3d": single("Conv", {"x": normal(1, 4, 7, 8, 9)}, {"w": normal(6, 4, 3, 3, 3)}, pads=[1, 1, 1, 1, 1, 1]),
    "Conv depthwise": single("Conv", _X4, {"w": normal(8, 1, 3, 3), "b": normal(8)}, group=8, pads=[1, 1, 1, 1]),
    "Conv grouped": single(
        "Conv", _X4, {"w": normal(12, 4, 3, 3), "b": normal(12)}, group=2, strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "Conv pointwise": single("Conv", {"x": normal(2, 48, 9, 9)}, {"w": normal(24, 48, 1, 1), "b": normal(24)}),
    "ConvTranspose": single(
        "ConvTranspose",
        {"x": normal(1, 8, 7, 7)},
        {"w": normal(8, 6, 3, 3), "b": normal(6)},
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    "digits-cnn": _digits,
    "conv-bn-relu-pool": _normalised,
}
