"""Where the reference's time goes."""

from __future__ import annotations

import numpy as np
import onnx

import deep_bench as db


def test_subgraphs_count_with_the_node_that_holds_them() -> None:
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        looped (float[64] x, int64 n, bool go) => (float[64] y) {
          [loop] y = Loop(n, go, x) <body = once (int64 i, bool c, float[64] s) => (bool d, float[64] t) {
            [keep] d = Identity(c)  [step] t = Sin(s) }>
        }""")
    )
    executor = db.frameworks["reference"]().prepare(network)
    found = executor.profile({"x": np.ones(64, np.float32), "n": np.array(3), "go": np.array(True)}, repeat=2)
    assert [time.nodes for time in found.times] == [("loop",)]
    assert (found.times[0].ns <= found.observed_ns).all()


def test_nodes_that_an_upgrade_makes_count_with_the_one_of_the_file() -> None:
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 7, opset_import: ["": 7]>
        old (float[1,1,4,4] x) => (float[1,1,8,8] y) { [up] y = Upsample<scales = [1.0, 1.0, 2.0, 2.0]>(x) }""")
    )
    executor = db.frameworks["reference"]().prepare(network)
    found = executor.profile({"x": np.ones((1, 1, 4, 4), np.float32)}, repeat=1)
    assert {name for time in found.times for name in time.nodes} == {"up"}
    assert found.absent == {}


def test_gradients_count_with_the_node_they_are_of() -> None:
    network = db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    executor = db.frameworks["reference"]().prepare(network, mode="train")
    fed = {"image": np.zeros((1, 1, 8, 8), np.float32), "label": np.array([3])}
    found = executor.profile(fed, repeat=1, loss="loss")
    back = {name for time in found.times if time.direction == "backward" for name in time.nodes}
    assert back >= {"stem", "head", "pool"}
    assert (sum(time.ns for time in found.times) <= found.observed_ns).all()
