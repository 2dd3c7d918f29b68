"""Reading networks: what is refused, with which words, and that nothing else is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deep_bench.errors import InvalidNetwork
from deep_bench.graph import OPSET, load

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)


def model(*nodes: onnx.NodeProto, weight: bool = True, opset: int = 21, domains: Sequence[str] = ()) -> onnx.ModelProto:
    """``y = x w`` unless other nodes are given."""
    graph = helper.make_graph(
        nodes or [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(WEIGHT, "w")] if weight else [],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(model(), path)
    return path


def refusal(path: Path | str, proto: onnx.ModelProto | None = None) -> str:
    if proto is not None:
        Path(path).write_bytes(proto.SerializeToString())
    with pytest.raises(InvalidNetwork) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in caught.value.came
    return str(caught.value)


def test_a_sound_file_is_read(file: Path) -> None:
    network = load(file)
    assert (network.name, network.source, network.opset) == ("small", file, 21)
    np.testing.assert_array_equal(network.initializers["w"], WEIGHT)


def test_a_network_that_ships_is_found_by_name() -> None:
    assert load("digits-cnn").inputs[0].shape == ("batch", 1, 8, 8)


def test_a_file_goes_before_a_name_that_ships(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    file.rename("digits-cnn")
    assert load("digits-cnn").inputs[0].name == "x"


def test_any_suffix_will_do(file: Path) -> None:
    assert load(file.rename(file.with_suffix(".json"))).inputs[0].name == "x"


def test_oldest_and_newest_opset_are_read(tmp_path: Path) -> None:
    for opset in (1, OPSET):
        onnx.save(model(opset=opset), tmp_path / "edge.onnx")
        assert load(tmp_path / "edge.onnx").opset == opset


def test_files_older_than_operator_sets_are_opset_1(tmp_path: Path) -> None:
    old = model()
    old.ir_version = 2
    del old.opset_import[:]
    old.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, WEIGHT.shape))
    onnx.save(old, tmp_path / "old.onnx")
    network = load(tmp_path / "old.onnx")
    assert (network.opset, [i.name for i in network.inputs]) == (1, ["x"])


# Not a network


def test_no_such_file(tmp_path: Path) -> None:
    assert "a network that ships: digits-cnn" in refusal(tmp_path / "none.onnx")


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)


@pytest.mark.parametrize("suffix", [".onnx", ".json", ".textproto", ".onnxtxt", ""])
def test_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"notes{suffix}"
    path.write_text("This is not a network.\n" * 9)
    assert "is not an ONNX file" in refusal(path)


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.touch()
    assert "(0 bytes) holds no ONNX graph" in refusal(path)


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "random.onnx"
    path.write_bytes(np.random.default_rng(seed).bytes(3000))
    refusal(path)


def test_cut_anywhere(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        refusal(file)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any file")
def test_without_permission(file: Path) -> None:
    file.chmod(0)
    assert "cannot be read" in refusal(file)


# Not a network that the standard knows


@pytest.mark.parametrize("opset", [0, OPSET + 1, 1000])
def test_opset_out_of_range(file: Path, opset: int) -> None:
    assert f"opset {opset}\nExpected: opset 1 to {OPSET}" in refusal(file, model(opset=opset))


def test_unknown_operator(file: Path) -> None:
    message = refusal(file, model(helper.make_node("Frobnicate", ["x", "w"], ["y"], "odd")))
    assert "node 'odd'" in message
    assert "a Frobnicate, unknown in opset 21" in message


def test_operator_newer_than_the_opset(file: Path) -> None:
    assert "a Gelu, unknown in opset 19" in refusal(file, model(helper.make_node("Gelu", ["x"], ["y"]), opset=19))


def test_unknown_operator_inside_a_branch(file: Path) -> None:
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branches = {
        branch: helper.make_graph([helper.make_node(operator, ["x"], ["z"], operator)], branch, [], [value])
        for branch, operator in (("then_branch", "Relu"), ("else_branch", "Frobnicate"))
    }
    condition = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.asarray(True)))
    assert "node 'Frobnicate'" in refusal(file, model(condition, helper.make_node("If", ["c"], ["y"], **branches)))


def test_unknown_domain(file: Path) -> None:
    node = helper.make_node("Twist", ["x", "w"], ["y"], "odd", domain="org.example")
    assert "org.example:Twist, unknown in opset 1" in refusal(file, model(node, domains=["org.example"]))
    assert "a domain whose opset the file does not state" in refusal(file, model(node))


def test_function_of_the_file_is_known(file: Path) -> None:
    proto = model(helper.make_node("Twist", ["x", "w"], ["y"], "own", domain="org.example"), domains=["org.example"])
    body = [helper.make_node("MatMul", ["a", "b"], ["c"])]
    function = helper.make_function("org.example", "Twist", ["a", "b"], ["c"], body, [helper.make_opsetid("", 21)])
    proto.functions.append(function)
    onnx.save(proto, file)
    assert load(file).nodes[0].op_type == "Twist"
    function.node[0].op_type = "Frobnicate"
    del proto.functions[:]
    proto.functions.append(function)
    assert "Frobnicate" in refusal(file, proto)


def test_missing_initializer(file: Path) -> None:
    message = refusal(file, model(weight=False))
    assert "node 'product'" in message
    assert "uses 'w', which no input, initializer or node provides" in message


@pytest.mark.parametrize(
    "nodes",
    [
        [("Add", ["x", "b"], "a"), ("Relu", ["a"], "b"), ("Relu", ["b"], "y")],
        [("Relu", ["x"], "y"), ("Tanh", ["x"], "y")],
        [("Relu", ["x"], "z")],
        [("Relu", ["x", "w"], "y")],
    ],
    ids=["cycle", "one name twice", "output without node", "too many inputs"],
)
def test_invalid_graph(file: Path, nodes: list[tuple[str, list[str], str]]) -> None:
    proto = model(*(helper.make_node(operator, inputs, [output]) for operator, inputs, output in nodes))
    assert "is not a valid ONNX graph" in refusal(file, proto)


# External data


@pytest.fixture
def external(tmp_path: Path) -> Path:
    path = tmp_path / "net" / "external.onnx"
    path.parent.mkdir()
    onnx.save(model(), path, save_as_external_data=True, location="weights.data", size_threshold=0)
    return path


def relocated(path: Path, **changes: str) -> onnx.ModelProto:
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        entry.value = changes.get(entry.key, entry.value)
    return proto


def test_external_data_is_read(external: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(load(external).initializers["w"], WEIGHT)
    monkeypatch.chdir(external.parent)
    np.testing.assert_array_equal(load(external.name).initializers["w"], WEIGHT)


def test_external_data_in_a_folder_below(external: Path) -> None:
    (external.parent / "deep").mkdir()
    (external.parent / "weights.data").rename(external.parent / "deep" / "weights.data")
    external.write_bytes(relocated(external, location="deep/weights.data").SerializeToString())
    np.testing.assert_array_equal(load(external).initializers["w"], WEIGHT)


def test_missing_external_file(external: Path) -> None:
    (external.parent / "weights.data").unlink()
    assert "'weights.data', which is missing" in refusal(external)


def test_truncated_external_file(external: Path) -> None:
    (external.parent / "weights.data").write_bytes(b"short")
    assert "ends at byte 48 of 'weights.data', which has 5" in refusal(external)


@pytest.mark.parametrize("place", ["absolute", "above", "link"])
def test_external_data_outside_the_folder_is_refused(external: Path, tmp_path: Path, place: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(WEIGHT.tobytes())
    (external.parent / "link").symlink_to(secret)
    location = {"absolute": str(secret), "above": "../secret", "link": "link"}[place]
    assert "points outside the network's folder" in refusal(external, relocated(external, location=location))


def test_external_data_at_a_strange_offset(external: Path) -> None:
    assert "whole numbers of bytes" in refusal(external, relocated(external, offset="-8"))


def test_types_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    helper, proto = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"], name="mixed")],
        "mixed types",
        [helper.make_tensor_value_info("a", proto.FLOAT, [2]), helper.make_tensor_value_info("b", proto.INT64, [2])],
        [helper.make_tensor_value_info("c", proto.FLOAT, [2])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "mixed.onnx")
    with pytest.raises(InvalidNetwork, match="int64"):
        load(tmp_path / "mixed.onnx")


def declared(kind: onnx.TypeProto, operator: str = "Relu", opset: int = 21) -> onnx.ModelProto:
    """``y = operator(x)`` of a float tensor, with ``y`` declared as given."""
    proto = model(helper.make_node(operator, ["x"], ["y"], "only"), opset=opset)
    proto.graph.output[0].type.CopyFrom(kind)
    return proto


@pytest.mark.parametrize(
    ("kind", "operator", "says", "gives"),
    [
        (helper.make_tensor_type_proto(TensorProto.INT64, ["n", 3]), "Relu", "int64", "float"),
        (helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 3]), "Shape", "float", "int64"),
        (helper.make_tensor_type_proto(999, ["n", 3]), "Relu", "type 999", "float"),
        (helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 3]), "SequenceConstruct", "float", "sequence of float"),
        (
            helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.INT32, None)),
            "SequenceConstruct",
            "sequence of int32",
            "sequence of float",
        ),
    ],
)
def test_an_output_of_another_type_than_declared(
    file: Path, kind: onnx.TypeProto, operator: str, says: str, gives: str
) -> None:
    message = refusal(file, declared(kind, operator))
    assert f"output 'y' of {file} is declared as {says}, and the graph gives {gives}" in message


def test_declared_outputs_are_kept(file: Path) -> None:
    file.write_bytes(declared(helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", 3])).SerializeToString())
    assert [str(spec) for spec in load(file).outputs] == ["y: float32[batch, 3]"]


def test_a_type_that_cannot_be_inferred_is_believed(file: Path) -> None:
    proto = model(helper.make_node("FastGelu", ["x"], ["y"], "own", domain="com.microsoft"), domains=["com.microsoft"])
    file.write_bytes(proto.SerializeToString())
    assert [str(spec) for spec in load(file).outputs] == ["y: float32[n, 4]"]


def test_outputs_without_a_shape_get_the_one_that_follows(file: Path) -> None:
    proto = onnx.load(file)
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    onnx.save(proto, file)
    assert [spec.rank for spec in load(file).outputs] == [len(v.type.tensor_type.shape.dim) for v in _inferred_outputs(file)]
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, file)
    with pytest.raises(InvalidNetwork, match=f"{proto.graph.input[0].name!r} of .* without a shape"):
        load(file)


def _inferred_outputs(file: Path) -> list[onnx.ValueInfoProto]:
    return list(onnx.shape_inference.infer_shapes(onnx.load(file)).graph.output)


def test_no_output(file: Path) -> None:
    proto = model()
    del proto.graph.output[:]
    assert f"{file} has no output" in refusal(file, proto)


def test_one_output_twice(file: Path) -> None:
    proto = model()
    proto.graph.output.append(proto.graph.output[0])
    assert f"{file} lists the output 'y' more than once" in refusal(file, proto)
