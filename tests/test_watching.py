"""Callbacks at calls and nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import Stopped, Unsupported
from deep_bench.events import Moment, NodeEvent
from deep_bench.framework import Executor
from deep_bench.testing.adapter import X, small_network

NESTED = """<ir_version: 10, opset_import: ["": 21]>
nested (float[2] x, bool c) => (float[2] y) {
  [start] a = Neg(x)
  [choice] y = If(c) <
    then_branch = yes () => (float[2] t) { [inner] t = Abs(a) },
    else_branch = no () => (float[2] e) { [other] e = Identity(a) }>
}"""


class Recorder:
    def __init__(self, stop_at: str | None = None) -> None:
        self.seen: list[tuple[Moment, int, str | None]] = []
        self.outputs: dict[str, Any] = {}
        self.times: list[int] = []
        self._stop_at = stop_at

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool | None:
        name = data.node if isinstance(data, NodeEvent) else None
        self.seen.append((moment, index, name))
        self.times.append(time_ns)
        if moment is Moment.AFTER_NODE:
            self.outputs[data.node] = data.outputs
        return name is not None and name == self._stop_at


@pytest.fixture
def nested() -> Any:
    return db.frameworks["reference"]().prepare(db.Network.from_proto(onnx.parser.parse_model(NESTED)))


def feed() -> dict[str, np.ndarray]:
    return {"x": np.array([1, -2], np.float32), "c": np.array(True)}


def test_every_node_is_told_of_those_in_subgraphs_between_the_moments_of_their_holder(nested: Any) -> None:
    recorder = Recorder()
    assert nested.watch(recorder)(feed())["y"].tolist() == [1, 2]
    before, after = Moment.BEFORE_NODE, Moment.AFTER_NODE
    assert recorder.seen == [
        (Moment.BEFORE_CALL, 0, None),
        (before, 0, "start"),
        (after, 0, "start"),
        (before, 1, "choice"),
        (before, 2, "inner"),
        (after, 2, "inner"),
        (after, 1, "choice"),
        (Moment.AFTER_CALL, 0, None),
    ]
    assert recorder.times == sorted(recorder.times)
    assert recorder.outputs["start"][0].tolist() == [-1, 2]


def test_only_the_moments_asked_for_are_told(nested: Any) -> None:
    recorder = Recorder()
    nested.watch(recorder, [Moment.AFTER_NODE])(feed())
    assert {moment for moment, _, _ in recorder.seen} == {Moment.AFTER_NODE}


def test_the_watched_executor_itself_tells_nobody(nested: Any) -> None:
    recorder = Recorder()
    nested.watch(recorder)
    nested(feed())
    assert recorder.seen == []


def test_a_callback_ends_a_run(nested: Any) -> None:
    with pytest.raises(Stopped, match="before node, node 'inner'"):
        nested.watch(Recorder(stop_at="inner"))(feed())


@pytest.mark.parametrize("framework", ["onnxruntime", "tensorflow", "torch"])
def test_frameworks_report_calls_and_refuse_nodes(framework: str) -> None:
    pytest.importorskip(framework)
    adapter = db.frameworks[framework]()
    executor = adapter.prepare(small_network())
    recorder = Recorder()
    watched = executor.watch(recorder)
    bound = watched.bind({"x": adapter.from_numpy(X)})
    bound()
    found = bound()
    expected = executor({"x": X})
    assert all(np.array_equal(adapter.to_numpy(found[name]), expected[name]) for name in expected)
    assert recorder.seen == [(m, i, None) for i in range(2) for m in (Moment.BEFORE_CALL, Moment.AFTER_CALL)]
    with pytest.raises(Unsupported, match="cannot report after node"):
        executor.watch(recorder, [Moment.AFTER_NODE])


def test_gradients_are_a_call() -> None:
    network = small_network().with_loss("Sum", output=small_network().outputs[0].name)
    executor = db.frameworks["reference"]().prepare(network, mode="train")
    recorder = Recorder()
    executor.watch(recorder, [Moment.AFTER_CALL]).gradients({"x": X}, "loss")
    assert recorder.seen == [(Moment.AFTER_CALL, 0, None)]
    with pytest.raises(Unsupported, match="nodes are not reported"):
        executor.watch(recorder).gradients({"x": X}, "loss")


def test_what_tells_of_no_nodes_says_so() -> None:
    class Silent(Executor[np.ndarray]):
        def forward(self, inputs: Any) -> Any:
            return {}

        def bind(self, inputs: Any) -> Any:
            return dict

    with pytest.raises(Unsupported, match="tells of no nodes"):
        Silent().walk({}, lambda moment, event: None)
    with pytest.raises(Unsupported, match="cannot be profiled"):
        Silent().profile({})
