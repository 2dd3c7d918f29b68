"""Branches and loops: what they capture, what they return, and ranks that only the trace knows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.errors import Unsupported
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter

pytest.importorskip("tensorflow")

from deep_bench.adapters.tensorflow import TensorFlowAdapter

helper, node = onnx.helper, onnx.helper.make_node
FLOAT, BOOL, INT = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64
RNG = np.random.default_rng(0)


def value(name, dtype=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def network(nodes, inputs, outputs, initializers) -> Network:
    tensors = [onnx.numpy_helper.from_array(a, n) for n, a in initializers.items()]
    graph = helper.make_graph(nodes, "control", inputs, outputs, tensors)
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def agree(adapter, net, feeds):
    executor = adapter.prepare(net)
    want = ReferenceAdapter().prepare(net)(feeds)
    for name, got in executor(feeds).items():
        assert got.shape == want[name].shape
        np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-5)
    return executor


@pytest.mark.parametrize("flag", [True, False])
def test_branches_capture_values_in_any_layout_and_parameters(adapter, flag):
    then = helper.make_graph([node("Conv", ["c", "w2"], ["t0"]), node("Relu", ["t0"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([node("ReduceMax", ["c"], ["e"])], "else", [], [value("e")])
    nodes = [
        node("Conv", ["x", "w1"], ["c"]),
        node("If", ["flag"], ["i"], then_branch=then, else_branch=other),
        node("Add", ["i", "c"], ["y"]),
    ]
    weights = {
        "w1": RNG.standard_normal((4, 2, 3, 3)).astype(np.float32),
        "w2": RNG.standard_normal((4, 4, 1, 1)).astype(np.float32),
    }
    net = network(nodes, [value("x", FLOAT, [1, 2, 6, 6]), value("flag", BOOL, [])], [value("y")], weights)
    x = RNG.standard_normal((1, 2, 6, 6)).astype(np.float32)
    executor = agree(adapter, net, {"x": x, "flag": np.array(flag)})
    executor.parameters["w2"] = adapter.from_numpy(np.zeros((4, 4, 1, 1), np.float32))
    feeds = {"x": x, "flag": np.array(True)}
    plain = ReferenceAdapter().prepare(net, outputs=["c"])(feeds)["c"]
    np.testing.assert_allclose(executor(feeds)["y"], plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flag", [True, False])
def test_a_rank_that_depends_on_a_condition(adapter, flag):
    then = helper.make_graph([node("Squeeze", ["x", "zero"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([node("Identity", ["x"], ["e"])], "else", [], [value("e")])
    nodes = [
        node("If", ["flag"], ["i"], then_branch=then, else_branch=other),
        node("ReduceSum", ["i", "last"], ["r"], keepdims=0),
        node("Softmax", ["i"], ["s"], axis=-1),
        node("Mul", ["s", "i"], ["y"]),
    ]
    constants = {"zero": np.array([0], np.int64), "last": np.array([-1], np.int64)}
    net = network(nodes, [value("x", FLOAT, [1, 3, 4]), value("flag", BOOL, [])], [value("y"), value("r")], constants)
    agree(adapter, net, {"x": RNG.standard_normal((1, 3, 4)).astype(np.float32), "flag": np.array(flag)})


def test_xla_refuses_branches_of_different_ranks():
    then = helper.make_graph([node("Squeeze", ["x", "zero"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([node("Identity", ["x"], ["e"])], "else", [], [value("e")])
    nodes = [node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    inputs = [value("x", FLOAT, [1, 3]), value("flag", BOOL, [])]
    net = network(nodes, inputs, [value("y")], {"zero": np.array([0], np.int64)})
    executor = TensorFlowAdapter(jit="xla").prepare(net)
    with pytest.raises(Unsupported, match="XLA cannot compile"):
        executor({"x": np.ones((1, 3), np.float32), "flag": np.array(True)})


@pytest.mark.parametrize("condition", ["", "yes"])
@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_loop_whose_state_grows(adapter, trips, condition):
    body = helper.make_graph(
        [
            node("Concat", ["s", "x"], ["grown"], axis=0),
            node("ReduceSum", ["grown"], ["total"], keepdims=0),
            node("Less", ["total", "limit"], ["go"]),
        ],
        "body",
        [value("i", INT, []), value("g", BOOL, []), value("s", FLOAT, [None])],
        [value("go", BOOL, []), value("grown", FLOAT, [None]), value("total", FLOAT, [])],
    )
    nodes = [node("Loop", ["n", condition, "start"], ["y", "totals"], body=body)]
    constants = {"start": np.array([0.5], np.float32), "limit": np.array(7, np.float32), "yes": np.array(True)}
    inputs = [value("x", FLOAT, [2]), value("n", INT, [])]
    net = network(nodes, inputs, [value("y", FLOAT, [None]), value("totals", FLOAT, [None])], constants)
    agree(adapter, net, {"x": np.array([1, 1.5], np.float32), "n": np.array(trips)})


def test_a_scan_in_both_directions(adapter):
    body = helper.make_graph(
        [node("Add", ["s", "a"], ["next"]), node("Mul", ["next", "b"], ["out"])],
        "body",
        [value("s", FLOAT, [2]), value("a", FLOAT, [2]), value("b", FLOAT, [2])],
        [value("next", FLOAT, [2]), value("out", FLOAT, [2])],
    )
    options = {
        "num_scan_inputs": 2,
        "scan_input_axes": [0, 1],
        "scan_input_directions": [0, 1],
        "scan_output_axes": [1],
        "scan_output_directions": [1],
    }
    nodes = [node("Scan", ["s0", "a0", "b0"], ["last", "y"], body=body, **options)]
    inputs = [value("s0", FLOAT, [2]), value("a0", FLOAT, [4, 2]), value("b0", FLOAT, [2, 4])]
    net = network(nodes, inputs, [value("last"), value("y")], {})
    eight = np.arange(8, dtype=np.float32)
    agree(adapter, net, {"s0": np.ones(2, np.float32), "a0": eight.reshape(4, 2), "b0": eight.reshape(2, 4)})


def test_sequences_cost_nothing(adapter):
    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["s"], axis=1),
        node("SequenceAt", ["s", "place"], ["a"]),
        node("Neg", ["a"], ["b"]),
        node("SequenceInsert", ["s", "b", "place"], ["t"]),
        node("SequenceErase", ["t"], ["u"]),
        node("ConcatFromSequence", ["u"], ["y"], axis=1),
    ]
    constants = {"sizes": np.array([1, 2, 1], np.int64), "place": np.array(1, np.int64)}
    net = network(nodes, [value("x", FLOAT, [2, 4])], [value("y", FLOAT, None)], constants)
    executor = agree(adapter, net, {"x": np.arange(8, dtype=np.float32).reshape(2, 4)})
    assert not executor.forms.fallback
