"""What ONNX Runtime's own profiler tells of a network's nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db

pytest.importorskip("onnxruntime")

from deep_bench.adapters.onnxruntime.profile import FusedNode, fused_nodes

IMAGE = {"image": np.zeros((1, 1, 8, 8), np.float32)}


def profile(network: db.Network, inputs: dict[str, np.ndarray], loss: str | None = None, **options: Any) -> Any:
    adapter = db.frameworks["onnxruntime"](threads=1, **options)
    executor = adapter.prepare(network, mode="train" if loss else "inference")
    return executor.profile({n: adapter.from_numpy(a) for n, a in inputs.items()}, repeat=3, loss=loss)


def parsed(text: str) -> db.Network:
    return db.Network.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}'))


def test_without_optimisation_every_node_is_a_piece() -> None:
    network = db.load("digits-cnn")
    found = profile(network, IMAGE, optimize="off")
    assert [time.nodes for time in found.times] == [(node.name,) for node in network.nodes]
    assert [time.what for time in found.times] == [node.op_type for node in network.nodes]
    assert found.absent == {}
    assert found.allocated_bytes > 16 * 8 * 8 * 4


def test_fused_nodes_are_one_piece() -> None:
    found = profile(db.load("digits-cnn"), IMAGE, optimize="extended")
    fused = [time.nodes for time in found.times if len(time.nodes) > 1]
    assert ("stem", "stem_norm", "stem_relu") in fused
    assert ("pointwise", "pointwise_relu") in fused
    covered = [name for time in found.times for name in time.nodes]
    assert sorted(covered) == sorted(str(n.name) for n in db.load("digits-cnn").nodes)  # each once


def test_what_is_folded_is_said() -> None:
    network = parsed(
        """folded (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { [known] a = Exp(w)  [used] y = Mul(x, a) }"""
    )
    found = profile(network, {"x": np.ones(2, np.float32)})
    assert [time.nodes for time in found.times] == [("used",)]
    assert list(found.absent) == ["known"]
    assert "folded" in found.absent["known"]


def test_the_nodes_of_a_body_count_with_their_operator() -> None:
    network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    found = profile(network, {**IMAGE, "label": np.array([3])})
    (loss,) = [n.name for n in network.nodes if n.op_type == "SoftmaxCrossEntropyLoss"]
    assert len([time for time in found.times if loss in time.nodes]) > 1
    assert found.absent == {}


def test_subgraphs_count_with_the_node_that_holds_them_and_once() -> None:
    network = parsed("""looped (float[64] x, int64 n, bool go) => (float[64] y) {
        [loop] y = Loop(n, go, x) <body = once (int64 i, bool c, float[64] s) => (bool d, float[64] t) {
            [keep] d = Identity(c)  [step] t = Sin(s) }>
        }""")
    found = profile(network, {"x": np.ones(64, np.float32), "n": np.array(50), "go": np.array(True)})
    assert [time.nodes for time in found.times] == [("loop",)]
    assert (found.times[0].ns <= found.inside_ns).all()


def test_gradients_count_with_the_node_they_are_of() -> None:
    network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    found = profile(network, {**IMAGE, "label": np.array([3])}, "loss")
    back = {name for time in found.times if time.direction == "backward" for name in time.nodes}
    assert back == {str(node.name) for node in network.nodes}


def test_a_convolution_that_adds_is_given_the_sum() -> None:
    """As ONNX Runtime's graph is on a CPU whose convolutions have a layout of their own: values have lost their names."""
    network = parsed("""residual (float[1,8,4,4] x, float[8,8,1,1] v, float[8,8,1,1] w, float[8,8,1,1] u)
        => (float[1,8,4,4] y) {
        [a] p = Conv(x, v)
        [b] q = Conv(p, w)  [sum] r = Add(q, p)  [relu] s = Relu(r)
        [c] t = Conv(s, u)
        [last] y = Neg(t)
        }""")
    node = onnx.helper.make_node
    optimised = [
        node("Conv", ["x", "k0"], ["token0"], name="p_nchwc", domain="com.microsoft.nchwc"),
        node("Conv", ["token0", "k1", "", "token0"], ["token1"], name="q_nchwc", activation="Relu"),
        node("Conv", ["token1", "k2"], ["token2"], name="t_nchwc"),
        node("ReorderOutput", ["token2"], ["t"], name="ReorderOutput"),
        node("Neg", ["t"], ["y"], name="last"),
    ]
    found = fused_nodes(network, onnx.helper.make_graph(optimised, "optimised", [], []))
    assert [piece.nodes for piece in found] == [("a",), ("b", "sum", "relu"), ("c",), (), ("last",)]
    assert found[0] == FusedNode(("a",), "com.microsoft.nchwc:Conv")
