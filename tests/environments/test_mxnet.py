"""What MXNet's ONNX import reads: opset 9, IR version 3, all initializers among the inputs; and MXNet itself."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.adapters.mxnet import MXNET
from deep_bench.adapters.mxnet.rewrite import rewritten
from deep_bench.environments import Declaration, build
from deep_bench.errors import InvalidArgument, UnsupportedOperator
from deep_bench.network.transform.equivalence import check


def network(body: str, given: str = "float[2, 3, 4] x", opset: int = 21) -> db.Network:
    """A network from the text form of ONNX; ``body`` computes ``y``."""
    text = (
        f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g ({given}) => (float[a, b, c] y) {{ {body} }}'
    )
    proto = onnx.parser.parse_model(text)
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto = onnx.shape_inference.infer_shapes(proto)
    for number, node in enumerate(proto.graph.node):
        node.name = f"n{number}"
    return db.Network.from_proto(proto)


def outputs(of: db.Network) -> np.ndarray:
    arrays = {spec.name: np.random.default_rng(0).normal(size=spec.shape).astype(spec.dtype) for spec in of.inputs}
    (found,) = db.frameworks["reference"]().prepare(of)(arrays).values()
    return np.asarray(found)


@pytest.mark.parametrize(
    ("body", "stated"),
    [
        ("y = Relu(x)", {}),
        (
            "low = Constant<value = float {-0.5}>() high = Constant<value = float {0.5}>() y = Clip(x, low, high)",
            {"min": -0.5, "max": 0.5},
        ),
        ("high = Constant<value = float {0.5}>() y = Clip(x, , high)", {"max": 0.5}),
        ("axes = Constant<value = int64[1] {-1}>() y = Unsqueeze(x, axes)", {"axes": [3]}),
        ("axes = Constant<value = int64[1] {1}>() z = ReduceSum<keepdims = 1>(x, axes) y = Squeeze(z, axes)", {"axes": [1]}),
        (
            "axes = Constant<value = int64[2] {-1, 0}>() y = ReduceMean<keepdims = 0>(x, axes)",
            {"axes": [2, 0], "keepdims": 0},
        ),
        ("y = ReduceMax(x)", {}),
        ("y = Softmax(x)", {"axis": 2}),
        ("y = LogSoftmax<axis = -1>(x)", {"axis": 2}),
        ("r = Constant<value = float {0.3}>() y = Dropout(x, r)", {}),
        ("p = Constant<value = int64[6] {0, 1, 0, 0, 0, 2}>() y = Pad(x, p)", {"pads": [0, 1, 0, 0, 0, 2], "value": 0.0}),
        ("s = Constant<value = int64[2] {2, -1}>() y = Reshape<allowzero = 0>(x, s)", {}),
        ("y = Concat<axis = -1>(x, x)", {"axis": 2}),
        ("y = Flatten<axis = 1>(x)", {"axis": 1}),
    ],
    ids=lambda value: value[-40:] if isinstance(value, str) else "",
)
def test_what_later_opsets_say_otherwise_is_said_as_opset_9_does(body: str, stated: dict[str, object]) -> None:
    before = network(body)
    model = onnx.load_from_string(rewritten(before))
    assert (model.ir_version, model.opset_import[0].version) == (3, 9)
    last = {a.name: onnx.helper.get_attribute_value(a) for a in model.graph.node[-1].attribute}
    assert {name: last.get(name) for name in stated} == stated
    after = db.Network.from_proto(model)
    assert np.array_equal(outputs(after), outputs(before))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = Erf(x)", r"node 'n0' \(Erf, opset 21\) cannot run here: for MXNet, its ONNX import has no such operator"),
        ("low = ReduceMin<keepdims = 0>(x) y = Clip(x, low)", "its input 'low' must be constant"),
        ("y = Softmax<axis = 1>(x)", "it must go along the last axis"),
        (
            "s = Constant<value = int64[2] {0, -1}>() y = Reshape<allowzero = 1>(x, s)",
            "its allowzero=1 has no form in opset 9",
        ),
        ("y = Gemm(x, x)", "it has 2 inputs, and 3 to 3 in opset 9"),
        ("y = com.microsoft.Gelu(x)", r"com.microsoft:Gelu, opset 21.*only operators of the default domain"),
    ],
)
def test_what_cannot_be_said_in_opset_9_is_refused_with_node_and_reason(body: str, reason: str) -> None:
    given = "float[4, 4] x" if "Gemm" in body else "float[2, 3, 4] x"
    with pytest.raises(UnsupportedOperator, match=reason):
        rewritten(network(body, given))


def test_older_networks_keep_their_opset() -> None:
    assert onnx.load_from_string(rewritten(network("y = Relu(x)", opset=7))).opset_import[0].version == 7


def test_the_network_that_ships_is_rewritten_whole() -> None:
    shipped = db.load("digits-cnn").with_sizes({"batch": 2})
    model = onnx.load_from_string(rewritten(shipped))
    assert {t.name for t in model.graph.initializer} < {v.name for v in model.graph.input}
    image = {"image": np.random.default_rng(0).random((2, 1, 8, 8), np.float32)}
    assert check(shipped, db.Network.from_proto(model), image).identical


def test_an_option_that_it_has_not_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'threads'"):
        MXNET.arguments({"thread": "1"})


@pytest.mark.full
@pytest.mark.real
def test_mxnet_is_judged_and_timed_beside_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MXNet 1.9.1 with its NumPy 1.23.5; DEEP_BENCH_MXNET names an environment that has them, else one is built."""
    label = os.environ.get("DEEP_BENCH_MXNET", "mxnet-1.9.1")
    if "DEEP_BENCH_MXNET" not in os.environ:
        monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path))
        build(
            label, Declaration(requirements=("mxnet==1.9.1", "numpy==1.23.5", "onnx<1.15"), python="3.11", deep_bench=False)
        )
    label = f"mxnet@{label}:threads=1"
    found = db.run("digits-cnn", ["onnxruntime:threads=1", label], batch=2, budget=2.0, progress=False)
    assert [found[name].verdict for name in found] == ["right", "right"]
    assert all(found[name].median for name in found)
    assert found[label].record.facts["version"] == "1.9.1"
    assert found[label].record.facts["environment"]["packages"]["numpy"] == "1.23.5"
    assert found[label].record.verdict.refused == 0
