"""The nodes of a network as cases: which are the same, what is constant, what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidInput, InvalidNetwork
from deep_bench.operators.suites.from_network import cases_of
from deep_bench.operators.suites.suite import Suite

F, I = TensorProto.FLOAT, TensorProto.INT64


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: dict[str, Any] | None = None,
    domains: Sequence[str] = (),
) -> db.Network:
    """A network of these nodes, in opset 20."""
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "made", list(inputs), list(outputs), stored)
    opsets = [helper.make_opsetid("", 20), *(helper.make_opsetid(d, 1) for d in domains)]
    return db.Network.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))


info = helper.make_tensor_value_info
node = helper.make_node


def listed(suite: Suite) -> list[tuple[str, int]]:
    return [(case.label, case.count) for case in suite]


def test_every_node_of_the_shipped_network_is_there() -> None:
    whole = db.load("digits-cnn")
    suite = cases_of(whole, sizes={"batch": 4})
    assert sum(case.count for case in suite) == len(whole.nodes)
    assert not suite.notes
    assert suite.case("Relu 4x16x8x8").count == 2
    assert suite.case("Gemm 4x10x64 NT").count == 1
    assert suite.case("Conv 4x1x8x8 16x1x3x3").source == "digits-cnn: stem"
    assert all(case.tags == {"digits-cnn", case.op_type} for case in suite)


def test_every_case_gives_what_its_nodes_give() -> None:
    whole = db.load("digits-cnn").with_sizes({"batch": 2})
    shapes = {}

    def tell(moment: Any, event: Any) -> None:
        if event.outputs is not None:
            shapes[event.node] = event.outputs[0].shape

    reference = db.frameworks["reference"]()
    reference.prepare(whole).walk({"image": np.zeros((2, 1, 8, 8), np.float32)}, tell)  # type: ignore[attr-defined]
    for case in cases_of(whole):
        first = case.source.partition(": ")[2].split(",")[0]
        assert case.results[0].shape == shapes[first]
        (found, *_) = reference.prepare(case.network())(case.arrays()).values()
        assert found.shape == shapes[first]


def test_sizes_that_nobody_stated_are_told() -> None:
    assert cases_of("digits-cnn").notes == ("batch = 1, which nobody stated",)
    given = cases_of("digits-cnn", {"image": np.zeros((3, 1, 8, 8), np.float32)})
    assert given.notes == ()
    assert given[0].results[0].shape[0] == 3


def test_settings_are_constant_and_parameters_are_drawn() -> None:
    made = network(
        [
            node("Gather", ["table", "ids"], ["rows"], "look"),
            node("Mul", ["rows", "factor"], ["scaled"], "scale"),
            node("Add", ["scaled", "bias"], ["moved"], "move"),
            node("ReduceSum", ["moved", "axes"], ["y"], "sum", keepdims=0),
        ],
        [info("ids", I, ["n"])],
        [info("y", F, None)],
        {
            "table": np.ones((9, 4), np.float32),
            "factor": np.float32(2),
            "bias": np.ones(4, np.float32),
            "axes": np.array([1]),
        },
    )
    suite = cases_of(made, sizes={"n": 5})
    shown = [[str(a) for a in case.arguments] for case in suite]
    assert shown == [
        ["data: float32[9, 4]", "indices: int64[5]"],
        ["A: float32[5, 4]", "B: float32[] = 2."],
        ["A: float32[5, 4]", "B: float32[4]"],
        ["data: float32[5, 4]", "axes: int64[1] = [1]"],
    ]
    assert suite[0].arguments[1].draw == "indices:9"  # type: ignore[union-attr]


def test_a_shape_that_the_network_computes_is_observed() -> None:
    made = network(
        [
            node("Shape", ["x"], ["shape"], "shape"),
            node("Mul", ["shape", "ones"], ["same"], "same"),
            node("NonZero", ["x"], ["where"], "where"),
            node("Shape", ["where"], ["found"], "found"),
            node("Slice", ["found", "one", "two"], ["count"], "count"),
            node("ConstantOfShape", ["count"], ["y"], "fill"),
            node("Reshape", ["x", "same"], ["z"], "again"),
        ],
        [info("x", F, [2, 3])],
        [info("y", F, None), info("z", F, None)],
        {"ones": np.array([1, 1]), "one": np.array([1]), "two": np.array([2])},
    )
    suite = cases_of(made, {"x": np.array([[1, 0, 2], [0, 3, 0]], np.float32)})
    fill, again = suite.filter(operator="ConstantOfShape")[0], suite.filter(operator="Reshape")[0]
    assert str(fill.arguments[0]) == "input: int64[1] = [3]"
    assert str(again.arguments[1]) == "shape: int64[2] = [2 3]"
    assert sum(case.count for case in suite) == 7


def test_nodes_differ_by_attributes_shapes_and_constants() -> None:
    made = network(
        [
            node("Elu", ["x"], ["a"], "a", alpha=1.0),
            node("Elu", ["a"], ["b"], "b", alpha=2.0),
            node("Elu", ["b"], ["c"], "c"),
            node("Elu", ["c"], ["d"], "d", alpha=2.0),
            node("Mul", ["d", "two"], ["e"], "e"),
            node("Mul", ["e", "three"], ["y"], "f"),
        ],
        [info("x", F, [2, 3])],
        [info("y", F, None)],
        {"two": np.float32(2), "three": np.float32(3)},
    )
    assert listed(cases_of(made)) == [
        ("Elu 2x3", 1),
        ("Elu 2x3 #2", 2),
        ("Elu 2x3 #3", 1),
        ("Mul 2x3", 1),
        ("Mul 2x3 #2", 1),
    ]


def test_quantised_nodes_are_the_same_whatever_their_scales() -> None:
    def product(i: int, given: str, made: str) -> onnx.NodeProto:
        names = [given, f"s{i}", "z", "w", "sw", "zw", f"s{i + 1}", "z"]
        return node("QLinearMatMul", names, [made], f"product{i}")

    constants = {f"s{i}": np.float32(0.1 * (i + 1)) for i in range(3)}
    weights = {"w": np.ones((16, 16), np.int8), "sw": np.float32(0.5), "z": np.uint8(3), "zw": np.int8(0)}
    made = network(
        [product(0, "x", "a"), product(1, "a", "y")],
        [info("x", TensorProto.UINT8, [2, 16])],
        [info("y", TensorProto.UINT8, None)],
        constants | weights,
    )
    (case,) = cases_of(made)
    assert case.count == 2
    assert [a.is_constant for a in case.arguments if a is not None] == [False, True, True, False, True, True, True, True]
    assert case.arguments[3].draw == "between:-128:127"  # type: ignore[union-attr]


def test_what_makes_no_case_is_told() -> None:
    body = helper.make_graph([node("Identity", ["x"], ["inner"], "copy")], "body", [], [info("inner", F, None)])
    made = network(
        [
            node("SequenceConstruct", ["x", "x"], ["xs"], "pack"),
            node("ConcatFromSequence", ["xs"], ["joined"], "join", axis=0),
            node("If", ["flag"], ["chosen"], "choose", then_branch=body, else_branch=body),
            node("Relu", ["chosen"], ["y"], "relu"),
        ],
        [info("x", F, [2, 3]), info("flag", TensorProto.BOOL, [])],
        [info("y", F, None), info("joined", F, None)],
    )
    suite = cases_of(made)
    assert "Relu 2x3" in suite.labels
    assert any("If (it holds a graph): 1, such as choose" in note for note in suite.notes)
    assert any("ConcatFromSequence (its input_sequence is a sequence): 1, such as join" in note for note in suite.notes)


def test_operators_of_other_domains_are_there() -> None:
    made = network(
        [node("BiasGelu", ["x", "b"], ["a"], "gelu", domain="com.microsoft"), node("Relu", ["a"], ["y"], "relu")],
        [info("x", F, [2, 3])],
        [info("y", F, None)],
        {"b": np.ones(3, np.float32)},
        ["com.microsoft"],
    )
    suite = cases_of(made)
    assert [case.operator for case in suite] == ["com.microsoft::BiasGelu", "Relu"]
    assert suite[1].results[0].shape == (2, 3)


def test_a_network_that_does_not_run_on_what_is_drawn_says_so() -> None:
    made = network(
        [
            node("NonZero", ["x"], ["where"], "where"),
            node("MatMul", ["where", "w"], ["a"], "product"),
            node("NonZero", ["a"], ["again"], "again"),
            node("Neg", ["again"], ["y"], "negate"),
        ],
        [info("x", F, [2, 3])],
        [info("y", I, None)],
        {"w": np.ones((99, 2), np.int64)},
    )
    suite = cases_of(made)
    assert [case.label for case in suite] == ["NonZero 2x3", "NonZero 2x2"]
    assert any("MatMul" in note and "do not fit each other" in note for note in suite.notes)
    assert any("the network does not run on these inputs" in note for note in suite.notes)


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no open dimension 'bath'"):
        cases_of("digits-cnn", sizes={"bath": 3})
    with pytest.raises(InvalidInput):
        cases_of("digits-cnn", {"image": np.zeros((2, 1, 8, 8), np.float64)})
    with pytest.raises(InvalidNetwork, match="there is no file"):
        cases_of(tmp_path / "none.onnx")
