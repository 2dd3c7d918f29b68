"""Sequences and optional values: as inputs, as results, in control flow; and networks for which there is no graph."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.graph import Network
from deep_bench.reference.operators import find

pytest.importorskip("tensorflow")

from deep_bench.adapters.tensorflow import TensorFlowAdapter

helper, node = onnx.helper, onnx.helper.make_node
FLOAT, INT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def value(name, dtype=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def sequence(name, dtype=FLOAT):
    return helper.make_tensor_sequence_value_info(name, dtype, None)


def optional(name, inner=None):
    tensor = helper.make_tensor_type_proto(FLOAT, None)
    inside = tensor if inner is None else helper.make_sequence_type_proto(tensor)
    return helper.make_value_info(name, helper.make_optional_type_proto(inside))


def network(nodes, inputs, outputs, domains=()) -> Network:
    graph = helper.make_graph(nodes, "sequences", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), *(helper.make_opsetid(d, 1) for d in domains)]
    return Network.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def arrays(*shapes):
    return [np.arange(np.prod(s), dtype=np.float32).reshape(s) + len(s) for s in shapes]


def test_one_function_for_each_structure(adapter):
    nodes = [node("ConcatFromSequence", ["s"], ["c"], axis=-1), node("SequenceInsert", ["s", "c"], ["t"])]
    executor = adapter.prepare(network(nodes, [sequence("s")], [value("c"), sequence("t")]))
    with pytest.raises(InvalidArgument, match="nothing is traced yet"):
        _ = executor.graph
    for items in (arrays((2, 1), (2, 3)), arrays((3,), (1,), (2,)), arrays((1, 2), (1, 5))):
        found = executor({"s": items})
        want = np.concatenate(items, -1)
        np.testing.assert_array_equal(found["c"], want)
        assert isinstance(found["t"], list)
        for got, expected in zip(found["t"], [*items, want], strict=True):
            np.testing.assert_array_equal(got, expected)
    assert len(executor._traces) == 2
    assert executor.untraced is None
    assert "Concat" in "".join(o.type for o in executor.graph.get_operations())


def test_nothing_is_traced_in_the_timed_call(adapter):
    executor = adapter.prepare(network([node("SequenceLength", ["s"], ["n"])], [sequence("s")], [value("n", INT)]))
    call = executor.bind({"s": [adapter.from_numpy(a) for a in arrays((2,), (3,))]})
    traces = dict(executor._traces)
    assert len(traces) == 1
    assert call()["n"].numpy() == 2
    assert executor._traces == traces


@pytest.mark.parametrize("given", [None, np.ones((2, 2), np.float32)])
def test_optional_values(adapter, given):
    nodes = [node("OptionalHasElement", ["o"], ["has"]), node("Identity", ["o"], ["same"])]
    executor = adapter.prepare(network(nodes, [optional("o")], [value("has", BOOL), optional("same")]))
    found = executor({"o": given})
    assert found["has"] == (given is not None)
    assert (found["same"] is None) if given is None else (found["same"] == given).all()


def test_an_empty_optional_value_has_no_element(adapter):
    executor = adapter.prepare(network([node("OptionalGetElement", ["o"], ["y"])], [optional("o", "s")], [sequence("y")]))
    assert [a.tolist() for a in executor({"o": arrays((1,), (2,))})["y"]] == [[1.0], [1.0, 2.0]]
    with pytest.raises(InvalidInput, match="empty optional"):
        executor({"o": None})


@pytest.mark.parametrize("place", [-3, 0, 2])
def test_a_position_that_only_the_run_knows(adapter, place):
    nodes = [node("SequenceErase", ["s", "p"], ["t"]), node("SequenceAt", ["s", "p"], ["x"]), node("Relu", ["x"], ["y"])]
    inputs = [sequence("s"), value("p", INT, [])]
    executor = adapter.prepare(network(nodes, inputs, [sequence("t"), value("y")]))
    items = arrays((1,), (2,), (3,))
    found = executor({"s": items, "p": np.array(place)})
    assert "position" in executor.untraced
    assert not executor.forms.fallback
    with pytest.raises(InvalidArgument, match="no graph"):
        _ = executor.graph
    np.testing.assert_array_equal(found["y"], items[place])
    del items[place]
    assert [a.tolist() for a in found["t"]] == [a.tolist() for a in items]
    with pytest.raises(InvalidInput, match="position 3 in a sequence of 3"):
        executor({"s": arrays((1,), (2,), (3,)), "p": np.array(3)})


@pytest.mark.parametrize("split", [None, 2, (1, 4)])
@pytest.mark.parametrize("fixed", [1, 99])
def test_parts_of_a_tensor(run, split, fixed):
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    inputs = [x] if split is None else [x, np.array(split)]
    options = {"keepdims": 0} if split is None else {}
    want = find("", "SplitToSequence")(*inputs, **options)
    for got, expected in zip(run("SplitToSequence", inputs, fixed=fixed, **options), want, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("trips", [0, 3])
def test_a_loop_that_fills_a_sequence(adapter, trips):
    body = helper.make_graph(
        [
            node("Identity", ["c"], ["go"]),
            node("Cast", ["i"], ["x"], to=FLOAT),
            node("SequenceInsert", ["s", "x"], ["t"]),
            node("SequenceLength", ["t"], ["n"]),
        ],
        "body",
        [value("i", INT, []), value("c", BOOL, []), sequence("s")],
        [value("go", BOOL, []), sequence("t"), value("n", INT, [])],
    )
    nodes = [node("SequenceEmpty", [], ["e"]), node("Loop", ["m", "", "e"], ["all", "counts"], body=body)]
    executor = adapter.prepare(network(nodes, [value("m", INT, [])], [sequence("all"), value("counts", INT, [None])]))
    found = executor({"m": np.array(trips)})
    assert "iterations" in executor.untraced
    assert [float(a) for a in found["all"]] == list(range(trips))
    assert found["counts"].tolist() == list(range(1, trips + 1))


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_that_returns_a_sequence(adapter, flag):
    one = helper.make_graph([node("SequenceConstruct", ["x"], ["a"])], "one", [], [sequence("a")])
    two = helper.make_graph([node("SequenceConstruct", ["x", "x"], ["b"])], "two", [], [sequence("b")])
    nodes = [node("If", ["f"], ["s"], then_branch=one, else_branch=two), node("SequenceLength", ["s"], ["n"])]
    executor = adapter.prepare(network(nodes, [value("f", BOOL, []), value("x", FLOAT, [2])], [value("n", INT, [])]))
    assert executor({"f": np.array(flag), "x": np.ones(2, np.float32)})["n"] == (1 if flag else 2)
    assert "branch" in executor.untraced


def test_xla_needs_a_graph():
    nodes = [node("SplitToSequence", ["x", "n"], ["s"]), node("SequenceLength", ["s"], ["k"])]
    with pytest.raises(Unsupported, match="XLA"):
        TensorFlowAdapter(jit="xla").prepare(
            network(nodes, [value("x", FLOAT, [4]), value("n", INT, [])], [value("k", INT, [])])
        )


def test_operators_of_other_domains_run_as_fallback(adapter):
    nodes = [
        node("BiasGelu", ["x", "b"], ["g"], domain="com.microsoft", name="gelu"),
        node("Softmax", ["g"], ["y"], name="softmax"),
    ]
    inputs = [value("x", FLOAT, [2, 3]), value("b", FLOAT, [3])]
    executor = adapter.prepare(network(nodes, inputs, [value("y")], ["com.microsoft"]))
    feeds = {"x": arrays((2, 3))[0], "b": arrays((3,))[0]}
    grown = find("com.microsoft", "BiasGelu")(feeds["x"], feeds["b"])
    np.testing.assert_allclose(executor(feeds)["y"], find("", "Softmax")(grown), rtol=1e-5)
    assert {"PyFunc", "Softmax"} <= {o.type for o in executor.graph.get_operations()}
    assert list(executor.forms.fallback) == ["gelu"]
    assert executor.forms.native == ("softmax",)


def test_the_first_run_tells_types_that_nothing_else_tells(adapter):
    """The standard's inference knows the results of StringSplit only where both are asked for."""
    nodes = [node("StringSplit", ["x"], ["p"], name="split"), node("StringConcat", ["p", "p"], ["y"], name="join")]
    string = onnx.TensorProto.STRING
    executor = adapter.prepare(network(nodes, [value("x", string, [2])], [value("y", string)]))
    assert "StringSplit" in executor.untraced
    for words, want in ((["a b", "c"], [["aa", "bb"], ["cc", ""]]), (["d", "e"], [["dd"], ["ee"]])):
        assert executor({"x": np.array(words, object)})["y"].tolist() == want
        assert executor.untraced is None
    assert executor.forms.native == ("join",)
    assert "PyFunc" in {o.type for o in executor.graph.get_operations()}


def test_an_eager_executor_stays_eager():
    nodes = [node("StringSplit", ["x"], ["y"], name="split")]
    string = onnx.TensorProto.STRING
    executor = TensorFlowAdapter(eager=True).prepare(network(nodes, [value("x", string, [1])], [value("y", string)]))
    assert executor({"x": np.array(["a b"], object)})["y"].tolist() == [["a", "b"]]
    assert executor.untraced == "it was asked for"
