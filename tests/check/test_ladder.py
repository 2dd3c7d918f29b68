"""The same network in float64: what may not be widened stays, and what is float32 by default is widened too."""

from __future__ import annotations

import numpy as np
import onnx

from deep_bench.check.oracle import settings_of
from deep_bench.check.subject import in_float64
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter

_RESIZED = """<ir_version: 10, opset_import: ["": 21]> g (float[1,1,2,2] x{more}) => (float[1,1,4,4] y)
    <float[4] scales = {{1, 1, 2, 2}}> {{ {before} y = Resize<mode = "nearest">(x, , {scales}) }}"""


def _wide(text: str, **inputs: np.ndarray) -> tuple[Network, dict[str, np.ndarray]]:
    network, fed = in_float64(Network.from_proto(onnx.parser.parse_model(text)), inputs)
    onnx.checker.check_model(network.to_proto(), full_check=True)
    return network, ReferenceAdapter().prepare(network)(fed)


def test_constants_that_may_not_be_float64_stay_as_they_are() -> None:
    text = _RESIZED.format(more="", before="", scales="scales")
    network, found = _wide(text, x=np.ones((1, 1, 2, 2), np.float32))
    assert found["y"].dtype == np.float64
    kept = network.nodes[-1].inputs[2]
    assert kept is not None
    assert kept.name in settings_of(network.graph)
    assert not network.parameters, "scales are no parameters, whatever they are called"


def test_values_that_may_not_be_float64_are_cast() -> None:
    text = _RESIZED.format(more=", float[4] given", before="doubled = Mul(given, scales)", scales="doubled")
    x, given = np.ones((1, 1, 2, 2), np.float32), np.ones(4, np.float32)
    network, found = _wide(text, x=x, given=given)
    assert [node.op_type for node in network.nodes] == ["Mul", "Cast", "Resize"]
    assert found["y"].shape == (1, 1, 4, 4)


def test_what_is_float32_by_default_is_widened() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y, float[3] w)
        <int64[1] two = {2}, int64 three = {3}> { zeros = ConstantOfShape(two) y = Add(x, zeros) w = HannWindow(three) }"""
    _, found = _wide(text, x=np.array([0.1, 0.2], np.float32))
    assert found["y"].dtype == found["w"].dtype == np.float64


def test_results_that_may_not_be_float64_are_cast() -> None:
    text = """<ir_version: 10, opset_import: ["": 23]> g (float[1,1,2,4] x) => (float[1,1,2,4] z)
        <float[2,2] c = {1, 1, 0.5, 0.5}, float[2,2] s = {0, 0, 0.5, 0.5}, int64[1,2] p = {0, 1}>
        { y = RotaryEmbedding(x, c, s, p) z = Mul(y, y) }"""
    network, found = _wide(text, x=np.ones((1, 1, 2, 4), np.float32))
    assert [node.op_type for node in network.nodes] == ["Cast", "RotaryEmbedding", "Cast", "Mul"]
    assert found["z"].dtype == np.float64


def test_a_result_that_may_not_be_float64_and_is_an_output_is_cast() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (int8[2] x) => (float[2] y)
        <float s = {0.5}, int8 z = {1}> { y = DequantizeLinear(x, s, z) }"""
    network, found = _wide(text, x=np.array([3, -1], np.int8))
    assert [spec.name for spec in network.outputs] == ["y"]
    assert found["y"].dtype == np.float64
    assert found["y"].tolist() == [1.0, -1.0]


def test_what_a_normalization_computes_in_by_default_is_widened() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[1,2,3] x) => (float[1,2,3] y)
        <float[2] s = {1, 1}, float[2] b = {0, 0}> { y = GroupNormalization<num_groups = 2>(x, s, b) }"""
    network, _ = _wide(text, x=np.ones((1, 2, 3), np.float32))
    assert network.nodes[0].attributes["stash_type"].as_int() == onnx.TensorProto.DOUBLE
