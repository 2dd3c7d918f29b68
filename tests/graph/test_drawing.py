"""Drawn indices lie within what they index, and drawn labels among the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from deep_bench.graph import Network
from deep_bench.graph.drawing import draw_inputs
from deep_bench.testing.adapter import small_network

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def indexing(operator: str, names: list[str], indices: list[int], data: list[int], **attributes: Any) -> Network:
    """One node whose input ``i`` indexes ``data``, which is computed."""
    helper = onnx.helper
    inputs = [("x", FLOAT, data), ("i", INT64, indices), ("u", FLOAT, indices)]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["data"]), helper.make_node(operator, names, ["y"], **attributes)],
        "indexing",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [
            onnx.numpy_helper.from_array(np.array(3), "depth"),
            onnx.numpy_helper.from_array(np.array([0, 1], np.float32), "values"),
        ],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))


@pytest.mark.parametrize("loss", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_labels_are_of_the_classes_that_are_scored(loss: str) -> None:
    network = small_network().with_loss(loss, output="y", target="label").with_sizes({"batch": 100})
    assert set(draw_inputs(network, 0)["label"].tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("network", "highest"),
    [
        (indexing("Gather", ["data", "i"], [200], [4, 3]), 3),
        (indexing("Gather", ["data", "i"], [200], [4, 3], axis=-1), 2),
        (indexing("GatherElements", ["data", "i"], [200, 3], [2, 3]), 1),
        (indexing("GatherND", ["data", "i"], [200, 2], [6, 3]), 2),
        (indexing("GatherND", ["data", "i"], [5, 40, 1], [5, 4, 7], batch_dims=1), 3),
        (indexing("ScatterElements", ["data", "i", "u"], [1, 200], [5, 200]), 4),
        (indexing("OneHot", ["i", "depth", "values"], [200], [1]), 2),
    ],
    ids=["Gather", "last axis", "GatherElements", "GatherND", "batch_dims", "ScatterElements", "OneHot"],
)
def test_indices_of_what_is_computed(network: Network, highest: int) -> None:
    drawn = draw_inputs(network, 0)["i"]
    assert (drawn.min(), drawn.max()) == (0, highest)
