"""A run says which nodes may meet a known fault of the framework."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.graph import Network
from deep_bench.network.result import Result

QUICK = {"on": ["onnxruntime:threads=1"], "budget": 0.3, "ci_width": 0.5, "twin": False, "progress": False}


def pooled(kernel: str) -> Network:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 22]> pooled (float[batch,1,7] x) => (float[batch,1,n] y) {\n'
        f"[conv] h = Conv (x, w) [pool] y = {kernel} (h)\n}}"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 1, 1), np.float32), "w"))
    return Network.from_proto(model)


@pytest.fixture(scope="module")
def moved(tmp_path_factory) -> Result:
    pytest.importorskip("onnxruntime")
    network = pooled('AveragePool <kernel_shape = [1], strides = [4], auto_pad = "SAME_UPPER">')
    return db.run(network, output=tmp_path_factory.mktemp("results"), **QUICK)


def test_the_note_stands_beside_the_verdict(moved: Result) -> None:
    system = moved["onnxruntime:threads=1"]
    assert system.verdict == "wrong"
    assert [(e.name, e.severity, e.nodes) for e in system.exposures] == [("pool_same_crops", "wrong values", ("pool",))]
    assert "onnxruntime:threads=1: pool may meet the known fault pool_same_crops (wrong values): " in moved.table(10_000)


def test_what_costs_accuracy_only_is_said_in_short() -> None:
    pytest.importorskip("onnxruntime")
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 22]> squashed (float[4] x) => (float[4] y) { h = Sigmoid (x) y = Sigmoid (h) }'
    )
    result = db.run(Network.from_proto(model), **QUICK)
    (line,) = [line for line in result.table(10_000).splitlines() if "known fault" in line]
    assert line.strip() == (
        "onnxruntime:threads=1: less accurate by known faults: sigmoid_tail at 2 nodes (docs/framework-findings.md)"
    )
    assert [len(exposure.nodes) for exposure in result["onnxruntime:threads=1"].exposures] == [2]


def test_it_is_in_the_json_and_in_the_record(moved: Result) -> None:
    (fault,) = json.loads(json.dumps(moved.as_json()))["systems"]["onnxruntime:threads=1"]["known_faults"]
    assert fault["nodes"] == ["pool"]
    assert "cuts off" in fault["reason"]
    assert Result.load(moved.path).as_json() == moved.as_json()


def test_a_failure_names_the_fault_that_may_be_its_cause() -> None:
    pytest.importorskip("onnxruntime")
    result = db.run(pooled('MaxPool <kernel_shape = [3], dilations = [2], auto_pad = "SAME_UPPER">'), **QUICK)
    system = result["onnxruntime:threads=1"]
    assert system.verdict == "failed"
    assert "pool may meet the known fault pool_same_dilations" in system.reason


def test_a_network_that_meets_none_has_no_note() -> None:
    pytest.importorskip("onnxruntime")
    result = db.run(pooled('AveragePool <kernel_shape = [2], auto_pad = "SAME_UPPER">'), **QUICK)
    assert result["onnxruntime:threads=1"].verdict == "right"
    assert "known fault" not in result.table()
