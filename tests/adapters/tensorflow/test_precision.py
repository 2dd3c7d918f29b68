"""Networks rewritten for another precision."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

pytest.importorskip("tensorflow")

from deep_bench.adapters.tensorflow import TensorFlowAdapter
from deep_bench.adapters.tensorflow.precision import in_precision
from deep_bench.graph import Network

helper, node = onnx.helper, onnx.helper.make_node


def network() -> Network:
    """Float constants in all the places where a network can have them."""
    half = onnx.numpy_helper.from_array(np.array(0.1, np.float32))
    body = helper.make_graph(
        [node("Constant", [], ["k"], value=half), node("Mul", ["u", "k"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", 1, None)],
    )
    other = helper.make_graph([node("Neg", ["u"], ["e"])], "else", [], [helper.make_tensor_value_info("e", 1, None)])
    nodes = [
        node("Resize", ["x", "", "scales"], ["u"], mode="linear"),
        node("If", ["flag"], ["i"], then_branch=body, else_branch=other),
        node("Shape", ["u"], ["s"]),
        node("ConstantOfShape", ["s"], ["zeros"]),
        node("Constant", [], ["third"], value_float=0.3),
        node("Cast", ["flag"], ["one"], to=1),
        node("Sum", ["i", "zeros", "third", "one", "w"], ["y"]),
    ]
    constants = {"scales": np.array([1, 1, 2], np.float32), "w": np.full((1, 2, 1), 0.7, np.float32)}
    graph = helper.make_graph(
        nodes,
        "precision",
        [helper.make_tensor_value_info("x", 1, [1, 2, "n"]), helper.make_tensor_value_info("flag", 9, [])],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


FEEDS = {"x": np.array([[[1, 4], [3, 0]]], np.float32), "flag": np.array(True)}
EXACT = np.array([[[1, 1.75, 3.25, 4], [3, 2.25, 0.75, 0]]]) * np.float64(np.float32(0.1)) + 1
EXACT = EXACT + np.float64(np.float32(0.3)) + np.float64(np.float32(0.7))


@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-15), ("float32", 1e-6), ("float16", 4e-3), ("bfloat16", 3e-2)])
def test_every_value_is_in_the_precision_asked_for(dtype, error):
    y = TensorFlowAdapter(dtype=dtype).prepare(network())(FEEDS)["y"]
    assert y.dtype.name == dtype
    np.testing.assert_allclose(y.astype(np.float64), EXACT, rtol=error)


def test_the_original_is_left_alone():
    net = network()
    before = net.to_proto().SerializeToString(deterministic=True)
    changed = in_precision(net, np.dtype(ml_dtypes.bfloat16))
    assert changed.initializers["w"].dtype == ml_dtypes.bfloat16
    assert changed.initializers["scales"].dtype == np.float32
    assert net.to_proto().SerializeToString(deterministic=True) == before
