"""Where the error comes from: faults planted in one node of a network are found there, alone and end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import deep_bench as db
from deep_bench.check import establish
from deep_bench.errors import Unsupported
from deep_bench.framework import Adapter, Executor
from deep_bench.graph import Network

from .planted import FAULTS, Faulty, inputs, large_network, wrong_epsilon, wrong_when_fused


@pytest.fixture(scope="module")
def network() -> Network:
    return large_network()


@pytest.mark.parametrize(
    ("framework", "fault"),
    [*(pytest.param("torch", f, marks=pytest.mark.long) for f in FAULTS), ("reference", "wrong epsilon")],
    ids=lambda x: x,
)
def test_a_fault_in_one_of_300_nodes_is_found(network: Network, framework: str, fault: str) -> None:
    if framework != "reference":
        pytest.importorskip(framework)
    node, change = FAULTS[fault]
    found = db.network.diverge(network, Faulty(framework, node, change), inputs())
    assert len(found.nodes) == 300
    assert found.first is not None
    assert found.first_carried is not None
    assert (found.first.name, found.first_carried.name) == (node, node)
    assert [n.name for n in found.nodes if n.accused] == [node]
    assert not found.ok
    assert node in found.table()


@pytest.mark.long
@pytest.mark.parametrize("framework", ["reference", "torch", "onnxruntime"])
def test_nothing_is_found_where_nothing_is_wrong(framework: str) -> None:
    if framework != "reference":
        pytest.importorskip(framework)
    found = db.network.diverge(large_network(12), framework, inputs())
    assert found.ok
    assert {n.word for n in found.nodes} == {"right"}
    assert {n.carried.word for n in found.nodes} <= {"right", "fused"}
    assert "first divergence: none" in str(found)


def test_what_is_wrong_only_together_is_found_end_to_end() -> None:
    found = db.network.diverge(large_network(5), Faulty("reference", "softmax2", wrong_when_fused), inputs())
    assert found.first is None
    assert found.first_carried is not None
    assert found.first_carried.name == "softmax2"
    assert not found.ok


def test_nodes_are_in_topological_order() -> None:
    found = db.network.diverge(large_network(3), "reference", inputs())
    assert [n.name for n in found.nodes] == [n.name for n in large_network(3).nodes]


class Fusing(Adapter[np.ndarray]):
    """Gives other outputs as soon as it is asked for a value that a Conv gives: as if that had undone a fusion."""

    name = "fusing"

    def __init__(self, *, refuses: bool = False) -> None:
        self.host, self.refuses, self.asked = db.frameworks["reference"](), refuses, 0

    def prepare(self, network: Network, *, mode: Any = "inference", outputs: Sequence[str] | None = None) -> Executor[Any]:
        executor = self.host.prepare(network, mode=mode, outputs=outputs)
        if outputs is None:
            return executor
        self.asked += 1
        if any(name.startswith("conv") for name in outputs):
            if self.refuses:
                raise Unsupported("values of a Conv")
            forward = executor.forward
            executor.forward = lambda arrays: {n: np.nextafter(y, np.float32(2)) for n, y in forward(arrays).items()}
        return executor

    def describe(self) -> Mapping[str, str]:
        return self.host.describe()

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def synchronize(self) -> None:
        pass


@pytest.mark.parametrize("refuses", [False, True])
def test_values_that_cannot_be_had_without_changing_the_result_are_left_out(refuses: bool) -> None:
    adapter = Fusing(refuses=refuses)
    found = db.network.diverge(large_network(4), adapter, inputs())
    words = {n.name: n.carried.word for n in found.nodes}
    assert {name for name, word in words.items() if word == "fused"} == {f"conv{k}" for k in range(4)}
    assert set(words.values()) == {"right", "fused"}
    assert adapter.asked < 20
    reason = next(n.carried.reason for n in found.nodes if n.carried.word == "fused")
    assert ("fails" if refuses else "changes the output 'softmax3.out'") in reason
    assert "4 nodes are fused" in found.table()


def test_a_decision_within_its_margin_is_followed() -> None:
    """The oracle's second sum is the largest by less than float32 holds: all that follows is judged by the other choice."""
    network = Network.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 21]> decides (float[4,3] x, float[3,2] w, float[2] t) => (float[4] y) '
            "{ a = MatMul(x, w)  i = ArgMax<axis = 1, keepdims = 0>(a)  g = Gather(t, i)  y = Exp(g) }"
        )
    )
    x = np.array([[3, 0, 1], [1, 2.0**-25, 1], [1, 0, 2], [1, 1, 1]], np.float32)
    w = np.array([[0, 1], [0, 1], [1, 0]], np.float32)
    feeds = {"x": x, "w": w, "t": np.array([1, -1], np.float32)}
    assert establish(network, feeds).values["i"].tolist() == [1, 1, 0, 1]
    assert db.frameworks["reference"]().prepare(network, outputs=["i"])(feeds)["i"].tolist() == [1, 0, 0, 1]
    found = db.network.diverge(network, "reference", feeds)
    assert found.ok
    assert {n.operator: n.carried.word for n in found.nodes}["Exp"] == "right"


def test_small_chunks_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = Faulty("reference", "bn1", wrong_epsilon)
    whole = db.network.diverge(large_network(3), faulty, inputs())
    monkeypatch.setattr("deep_bench.network.divergence._CHUNK_BYTES", 10_000)
    parts = db.network.diverge(large_network(3), faulty, inputs())
    assert [n.carried for n in parts.nodes] == [n.carried for n in whole.nodes]


def test_control_flow_and_random_numbers_are_said_not_to_be_replayed() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> branches (float[3] x, bool c) => (float[3] y) '
        "{ h = Exp(x)  y = If(c) "
        "<then_branch = t () => (float[3] a) { a = Sin(h) }, else_branch = e () => (float[3] b) { b = Cos(h) }> }"
    )
    feeds = {"x": np.ones(3, np.float32), "c": np.array(True)}
    found = {n.name: n for n in db.network.diverge(Network.from_proto(proto), "reference", feeds).nodes}
    branch = next(n for n in found.values() if n.operator == "If")
    assert (branch.word, branch.carried.word) == ("not replayed", "right")
    inner = next(n for n in found.values() if n.operator == "Sin")
    assert (inner.word, inner.carried.word) == ("right", "not compared")


def small_loss() -> tuple[Network, dict[str, np.ndarray]]:
    network = large_network(3).with_loss("MeanSquaredError", output="softmax2.out", target="target")
    target = np.random.default_rng(2).random((1, 4, 5, 5)).astype(np.float32)
    return network, {**inputs(), "target": target}


@pytest.mark.long
def test_gradients_of_a_framework_that_differentiates_on_its_own() -> None:
    pytest.importorskip("torch")
    network, feeds = small_loss()
    right = db.network.diverge(network, "torch", feeds, gradients="loss")
    assert right.backward
    assert right.ok
    assert {n.word for n in right.nodes} == {"right"}
    wrong = db.network.diverge(network, Faulty("torch", "bn1", wrong_epsilon), feeds, gradients="loss")
    assert wrong.first is not None
    assert wrong.first.name == "bn1"
    assert [n.name for n in wrong.nodes if n.accused] == ["bn1"]
    assert wrong.first_carried is not None
    assert "alone" in wrong.table()


def test_gradients_of_a_framework_that_runs_the_derived_network() -> None:
    network, feeds = small_loss()
    derived = db.network.differentiate(network)
    node = next(str(n.name) for n in derived.nodes if str(n.name).startswith("bn1.gradient.") and n.op_type == "Mul")

    def divide(node: ir.Node) -> None:
        node.op_type = "Div"

    found = db.network.diverge(network, Faulty("reference", node, divide), feeds, gradients="loss")
    assert not found.backward
    assert found.first is not None
    assert found.first_carried is not None
    assert (found.first.name, found.first_carried.name) == (node, node)


def test_plot_and_json(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = db.network.diverge(large_network(4), Faulty("reference", "bn2", wrong_epsilon), inputs())
    assert found.plot(tmp_path / "precision.png").read_bytes().startswith(b"\x89PNG")
    facts = found.as_json()
    assert (facts["first"], facts["first_carried"], len(facts["nodes"])) == ("bn2", "bn2", 24)


@pytest.mark.long
def test_a_precision_of_ones_own_is_judged_by_its_values() -> None:
    pytest.importorskip("torch")
    found = db.network.diverge(large_network(1), "torch:dtype=bfloat16", inputs())
    assert found.first is not None
    assert (found.first.name, found.first.word) == ("conv0", "reduced precision")
    assert 6 < found.first.bits < 12
