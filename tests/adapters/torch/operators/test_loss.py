"""Losses, compared with the reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.adapters.torch import TorchAdapter
from deep_bench.reference.network import ReferenceAdapter

FLOAT, FLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
SCORES = np.random.default_rng(0).standard_normal((3, 5, 2)).astype(np.float32) * 4
LABELS = np.array([[0, 4], [2, 2], [1, 3]])
WEIGHTS = np.array([0.5, 1, 2, 0, 3], np.float32)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignored", [{}, {"ignore_index": 2}, {"ignore_index": -100}])
@pytest.mark.parametrize("weighted", [False, True])
def test_softmax_cross_entropy(one_node, reduction, ignored, weighted) -> None:
    labels = np.where(LABELS == 2, -100, LABELS) if ignored.get("ignore_index") == -100 else LABELS
    inputs = [SCORES, labels, WEIGHTS] if weighted else [SCORES, labels]
    settings = {"reduction": reduction, **ignored}
    network, fed = one_node("SoftmaxCrossEntropyLoss", inputs, settings, outputs=[FLOAT, FLOAT], fixed=[2] * weighted)
    executor = TorchAdapter().prepare(network)
    assert executor.forms.native == ("only",)
    found, expected = executor(fed), ReferenceAdapter().prepare(network)(fed)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
    single, fed = one_node("SoftmaxCrossEntropyLoss", inputs, settings, outputs=[FLOAT], fixed=[2] * weighted)
    np.testing.assert_array_equal(TorchAdapter().prepare(single)(fed)["y0"], found["y0"])


@pytest.mark.parametrize(
    ("inputs", "code"), [([SCORES, LABELS, WEIGHTS], FLOAT), ([SCORES.astype(np.float16), LABELS], FLOAT16)]
)
def test_what_torchs_own_loss_lacks_is_expanded(one_node, inputs, code) -> None:
    """Derivatives with respect to weights, and precision in float16."""
    network, _ = one_node("SoftmaxCrossEntropyLoss", inputs, {}, outputs=[code])
    assert TorchAdapter().prepare(network).forms.decomposed == ("only",)
