"""The oldest versions in which a network says the same."""

from __future__ import annotations

import onnx

from deep_bench.environments.declaration import oldest_stamp, stamped_run


def stamped(text: str) -> onnx.ModelProto:
    given = onnx.parser.parse_model(text)
    found = onnx.load_from_string(oldest_stamp(given.SerializeToString()))
    assert found.graph == given.graph
    return found


def test_operators_decide_in_subgraphs_too() -> None:
    plain = stamped('<ir_version: 13, opset_import: ["": 23]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    assert (plain.opset_import[0].version, plain.ir_version) == (14, 7)
    branch = (
        '<ir_version: 13, opset_import: ["": 23]> g (bool c, float[2] x) => (float[2] y) { y = If(c) '
        "<then_branch = t () => (float[2] a) { a = Gelu(x) }, else_branch = e () => (float[2] b) { b = Relu(x) }> }"
    )
    assert stamped(branch).opset_import[0].version >= 20


def test_what_is_not_understood_stays() -> None:
    unknown = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = NoSuchOperator(x) }'
    assert stamped(unknown).opset_import[0].version == 21
    body = "g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }"
    others = f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> {body}'
    assert [entry.domain for entry in stamped(others).opset_import] == ["", "com.microsoft"]


def test_only_networks_to_run_are_stamped() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 13, opset_import: ["": 23]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    network = model.SerializeToString()
    assert stamped_run("outputs", (network,)) == (network,)
    assert stamped_run("run", (network, {}))[0] != network
