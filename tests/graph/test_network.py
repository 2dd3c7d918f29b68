"""Networks as values: what they say of themselves, and their other forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidNetwork
from deep_bench.graph import Network

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)


def value(name: str, shape: list[int | str | None] | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def proto_of(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    weight = numpy_helper.from_array(WEIGHT, "w")
    graph = helper.make_graph(nodes, "small", inputs, [value("y", ["n", 4])], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture
def network() -> Network:
    product = helper.make_node("MatMul", ["x", "w"], ["p"], "product")
    return Network.from_proto(proto_of([product, helper.make_node("Relu", ["p"], ["y"], "relu")], [value("x", ["n", 3])]))


def test_inputs_exclude_initializers() -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    network = Network.from_proto(proto_of([product], [value("x", ["n", 3]), value("w", [3, 4])]))
    assert [str(spec) for spec in network.inputs] == ["x: float32[n, 3]"]


def test_dimensions_without_a_usable_name_are_named_after_their_place() -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    network = Network.from_proto(proto_of([relu], [value("x", [None, "?", "-1", "n", 5])]))
    assert network.inputs[0].shape == ("x.0", "x.1", "x.2", "n", 5)
    assert network.open_dimensions == ("x.0", "x.1", "x.2", "n")


def sequence_length() -> Network:
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    return Network.from_proto(proto_of([helper.make_node("SequenceLength", ["x"], ["y"])], [sequence]))


def test_sequences_are_described() -> None:
    (spec,) = sequence_length().inputs
    assert (spec.containers, spec.dtype, spec.shape, spec.is_tensor) == (("sequence",), np.float32, (), False)
    assert str(spec) == "x: sequence of float32 tensors"


def test_optionals_are_described() -> None:
    kind = helper.make_optional_type_proto(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None)))
    value = helper.make_value_info("x", kind)
    network = Network.from_proto(proto_of([helper.make_node("OptionalHasElement", ["x"], ["y"])], [value]))
    assert network.inputs[0].containers == ("optional", "sequence")
    assert str(network.inputs[0]) == "x: optional sequence of float32 tensors"


def test_an_input_without_a_type_is_refused() -> None:
    network = Network.from_proto(proto_of([helper.make_node("Relu", ["x"], ["y"])], [onnx.ValueInfoProto(name="x")]))
    with pytest.raises(InvalidNetwork, match="'x'"):
        _ = network.inputs


@pytest.mark.parametrize(("count", "message"), [(0, "small has no output"), (2, "lists the output 'y' more than once")])
def test_results_must_have_names_of_their_own(count: int, message: str) -> None:
    proto = proto_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 4])])
    outputs = [proto.graph.output[0]] * count
    del proto.graph.output[:]
    proto.graph.output.extend(outputs)
    with pytest.raises(InvalidNetwork, match=message):
        Network.from_proto(proto)


def test_maps_are_refused(tmp_path: Path) -> None:
    map_type = onnx.TypeProto()
    map_type.map_type.key_type = TensorProto.STRING
    map_type.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a"])
    proto = proto_of([node], [helper.make_value_info("x", map_type)])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    with pytest.raises(InvalidNetwork, match="map"):
        Network.from_proto(proto)
    onnx.save(proto, tmp_path / "map.onnx")
    with pytest.raises(InvalidNetwork, match="map"):
        db.load(tmp_path / "map.onnx")


def test_sizes_fix_open_dimensions(network: Network) -> None:
    fixed = network.with_sizes({"n": 5})
    assert fixed.inputs[0].shape == (5, 3)
    assert fixed.open_dimensions == ()
    assert network.inputs[0].shape == ("n", 3)


def test_one_size_fixes_every_dimension_of_that_name() -> None:
    add = helper.make_node("Add", ["x", "z"], ["y"])
    network = Network.from_proto(proto_of([add], [value("x", ["n", 3]), value("z", ["n", "m"])]))
    assert [spec.shape for spec in network.with_sizes({"n": 2}).inputs] == [(2, 3), (2, "m")]


def test_an_unknown_or_negative_size_is_refused(network: Network) -> None:
    with pytest.raises(InvalidArgument, match=r"no open dimension 'm'\nExpected: one of n"):
        network.with_sizes({"m": 5})
    with pytest.raises(InvalidArgument, match="size -1 for dimension 'n'"):
        network.with_sizes({"n": -1})


def test_outputs_can_be_chosen(network: Network) -> None:
    assert [v.name for v in network.with_outputs(["p", "y"]).graph.outputs] == ["p", "y"]
    assert [v.name for v in network.graph.outputs] == ["y"]
    with pytest.raises(InvalidArgument, match="'q'"):
        network.with_outputs(["q"])


def test_names_are_unique_across_subgraphs() -> None:
    def branch(name: str) -> onnx.GraphProto:
        nodes = [helper.make_node("Relu", ["x"], ["z"], "same"), helper.make_node("Tanh", ["z"], ["out"])]
        return helper.make_graph(nodes, name, [], [value("out", None)])

    condition = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.asarray(True)))
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch("a"), else_branch=branch("b"))
    network = Network.from_proto(proto_of([condition, choice], [value("x", [2, 3])]))
    nodes = list(network.all_nodes())
    values = [v.name for node in nodes for v in node.outputs]
    assert len(nodes) == 6
    assert all(node.name for node in nodes)
    assert len({node.name for node in nodes}) == len(nodes)
    assert len(set(values)) == len(values)


def test_parameters_are_what_training_changes() -> None:
    network = db.load("digits-cnn")
    assert sum(p.size for p in network.parameters.values()) == 38666  # without running means and variances
    assert {n for n in network.initializers if "running" not in n} == network.parameters.keys()


def test_sha256_is_that_of_the_file_and_stable(network: Network, tmp_path: Path) -> None:
    first, second = db.load("digits-cnn"), db.load("digits-cnn")
    assert first.sha256 == second.sha256
    assert network.sha256 == network.copy().sha256
    assert network.sha256 != network.with_sizes({"n": 2}).sha256
    loaded = db.load(network.save(tmp_path / "a.onnx"))
    assert loaded.sha256 == db.load(network.save(tmp_path / "b.onnx")).sha256


def test_written_and_read_again_it_is_the_same(network: Network, tmp_path: Path) -> None:
    again = db.load(network.save(tmp_path / "again.onnx"))
    assert [(n.name, n.op_type) for n in again.nodes] == [(n.name, n.op_type) for n in network.nodes]
    assert (again.inputs, again.outputs, again.opsets) == (network.inputs, network.outputs, network.opsets)
    np.testing.assert_array_equal(again.initializers["w"], WEIGHT)


def test_external_data_goes_with_the_network(network: Network, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    onnx.save(network.to_proto(), tmp_path / "n.onnx", save_as_external_data=True, location="n.data", size_threshold=0)
    loaded = db.load(tmp_path / "n.onnx")
    for form in (loaded, loaded.copy(), loaded.with_sizes({"n": 2})):
        saved = db.load(form.save(tmp_path / "elsewhere" / "n.onnx"))
        np.testing.assert_array_equal(saved.initializers["w"], WEIGHT)
        np.testing.assert_array_equal(numpy_helper.to_array(form.to_proto().graph.initializer[0]), WEIGHT)
    np.testing.assert_array_equal(loaded.initializers["w"], WEIGHT)


def test_external_data_count_in_the_sha256(network: Network, tmp_path: Path) -> None:
    onnx.save(network.to_proto(), tmp_path / "n.onnx", save_as_external_data=True, location="n.data", size_threshold=0)
    before = db.load(tmp_path / "n.onnx").sha256
    (tmp_path / "n.data").write_bytes((WEIGHT + 1).tobytes())
    assert db.load(tmp_path / "n.onnx").sha256 != before
