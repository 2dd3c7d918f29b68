"""Softmax over an axis in the middle, over long rows, with results that underflow, and its logarithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..problem import Problem, network, normal, single


def _masked() -> np.ndarray:
    """Scores of which some are minus infinity, as masks leave them."""
    x = normal(12, 40, scale=3)
    x[:, 33:] = -np.inf
    return x


def _cross_entropy() -> Problem:
    from onnx import helper

    feeds = {"x": normal(24, 10, scale=3), "t": np.random.default_rng(3).integers(0, 10, 24)}
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y0"], name="loss", reduction="mean")
    return Problem("SoftmaxCrossEntropyLoss", network("SoftmaxCrossEntropyLoss", [node], feeds, ["y0"], {}), feeds)


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "Softmax": single("Softmax", {"x": normal(6, 40, 9, scale=4)}, axis=1),
    "Softmax long": single("Softmax", {"x": normal(8, 1500, scale=2)}, axis=-1),
    "Softmax wide": single("Softmax", {"x": normal(16, 48, scale=40)}, axis=-1),
    "Softmax masked": single("Softmax", {"x": _masked()}, axis=-1),
    "LogSoftmax": single("LogSoftmax", {"x": normal(6, 40, 9, scale=4)}, axis=1),
    "SoftmaxCrossEntropyLoss": _cross_entropy,
}
