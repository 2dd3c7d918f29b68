"""Values that are no tensors for torch: strings, float4, sequences, optionals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.graph import Network

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)

WORDS = np.array(["a", "bc", ""], object)


@pytest.fixture
def adapter() -> TorchAdapter:
    return TorchAdapter()


def tensor(name: str, kind: int = T.FLOAT, shape=("n",)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(name: str, kind: int = T.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, kind, None)


def optional(name: str, kind: int = T.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, helper.make_optional_type_proto(helper.make_tensor_type_proto(kind, None)))


def network(nodes, inputs, outputs, **constants) -> Network:
    held = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "values", inputs, outputs, held)
    imports = [helper.make_opsetid("", 28), helper.make_opsetid("ai.onnx.preview.training", 1)]
    return Network.from_proto(helper.make_model(graph, opset_imports=imports, ir_version=13))


def graph(name, nodes, inputs, outputs) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs)


# Strings and float4


def test_strings_come_back_as_they_went_in_and_are_not_shared(adapter) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    executor = adapter.prepare(network(nodes, [tensor("x", T.STRING)], [tensor("y", T.STRING)]))
    native = adapter.from_numpy(WORDS)
    assert native is not WORDS
    y = executor.forward({"x": native})["y"]
    assert y is not native
    assert y.tolist() == WORDS.tolist()
    assert adapter.to_numpy(y) is not y
    assert executor.bind({"x": native})()["y"].tolist() == WORDS.tolist()


def test_what_strings_decide_is_computed_by_torch(adapter) -> None:
    nodes = [
        helper.make_node("Equal", ["x", "word"], ["same"], name="compare"),
        helper.make_node("Cast", ["same"], ["numbers"], name="numbers", to=T.FLOAT),
        helper.make_node("Mul", ["numbers", "numbers"], ["y"], name="square"),
    ]
    given = network(nodes, [tensor("x", T.STRING)], [tensor("y")], word=np.array(["bc"], object))
    executor = adapter.prepare(given)
    assert list(executor.forms.fallback) == ["compare"]
    assert "strings" in executor.forms.fallback["compare"]
    np.testing.assert_array_equal(executor({"x": WORDS})["y"], [0, 1, 0])


def test_branches_and_loops_over_strings(adapter) -> None:
    then = graph("then", [helper.make_node("Identity", ["x"], ["a"])], [], [tensor("a", T.STRING)])
    other = graph("other", [helper.make_node("StringConcat", ["x", "x"], ["b"])], [], [tensor("b", T.STRING)])
    body = graph(
        "body",
        [helper.make_node("StringConcat", ["s", "z"], ["t"]), helper.make_node("Identity", ["t"], ["u"])],
        [tensor("i", T.INT64, ()), tensor("c", T.BOOL, ()), tensor("s", T.STRING)],
        [tensor("c", T.BOOL, ()), tensor("t", T.STRING), tensor("u", T.STRING)],
    )
    nodes = [
        helper.make_node("If", ["p"], ["z"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["n", "", "x"], ["y", "all"], body=body),
    ]
    inputs = [tensor("x", T.STRING, (3,)), tensor("p", T.BOOL, ()), tensor("n", T.INT64, ())]
    executor = adapter.prepare(network(nodes, inputs, [tensor("y", T.STRING), tensor("all", T.STRING, ("k", 3))]))
    found = executor({"x": WORDS, "p": np.array(False), "n": np.array(2)})
    assert found["y"].tolist() == ["aaaaa", "bcbcbcbcbc", ""]
    assert found["all"].tolist() == [["aaa", "bcbcbc", ""], ["aaaaa", "bcbcbcbcbc", ""]]
    nothing = executor({"x": WORDS, "p": np.array(True), "n": np.array(0)})
    assert nothing["y"].tolist() == WORDS.tolist()
    assert nothing["all"].shape == (0, 3)


def test_float4_is_held_and_widened(adapter) -> None:
    x = np.array([0.5, -6, 1.5], ml_dtypes.float4_e2m1fn)
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=T.FLOAT), helper.make_node("Identity", ["x"], ["z"])]
    executor = adapter.prepare(network(nodes, [tensor("x", T.FLOAT4E2M1)], [tensor("y"), tensor("z", T.FLOAT4E2M1)]))
    found = executor({"x": x})
    assert found["y"].tolist() == [0.5, -6, 1.5]
    assert found["z"].dtype == x.dtype


def test_small_integers_are_copied(adapter) -> None:
    x = np.array([3, -8], ml_dtypes.int4)
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["x"], ["z"])]
    executor = adapter.prepare(network(nodes, [tensor("x", T.INT4)], [tensor("y", T.INT4), tensor("z", T.INT4)]))
    native = {"x": adapter.from_numpy(x)}
    found = executor.forward(native)
    assert len({t.untyped_storage().data_ptr() for t in (*found.values(), native["x"])}) == 3
    assert (adapter.to_numpy(found["z"]) == x).all()


# Sequences and optionals


def test_sequences_of_graphs(adapter) -> None:
    nodes = [helper.make_node("SequenceInsert", ["xs", "x", "zero"], ["ys"])]
    given = network(nodes, [sequence("xs"), tensor("x")], [sequence("ys")], zero=np.array(0))
    executor = adapter.prepare(given)
    xs = [np.ones(2, np.float32), np.zeros(3, np.float32)]
    native = {"xs": [adapter.from_numpy(x) for x in xs], "x": adapter.from_numpy(np.full(1, 5, np.float32))}
    (first, *rest) = executor.forward(native)["ys"]
    assert first.tolist() == [5]
    held = {t.data_ptr() for t in (*native["xs"], native["x"])}
    assert not held & {t.data_ptr() for t in (first, *rest)}  # fresh
    assert [y.shape for y in executor.bind(native)()["ys"]] == [(1,), (2,), (3,)]
    assert len(executor({"xs": [], "x": xs[0]})["ys"]) == 1


def test_the_working_precision_holds_in_sequences(adapter) -> None:
    nodes = [helper.make_node("ConcatFromSequence", ["xs"], ["y"], axis=0)]
    executor = TorchAdapter(dtype="float64").prepare(network(nodes, [sequence("xs")], [tensor("y")]))
    assert executor.forward({"xs": [torch.ones(2), torch.ones(1)]})["y"].dtype == torch.float64


@pytest.mark.parametrize("x", [None, np.ones(2, np.float32)])
def test_optionals(x, adapter) -> None:
    nodes = [helper.make_node("OptionalHasElement", ["x"], ["has"]), helper.make_node("Identity", ["x"], ["y"])]
    executor = adapter.prepare(network(nodes, [optional("x")], [tensor("has", T.BOOL, ()), optional("y")]))
    found = executor({"x": x})
    assert found["has"] == (x is not None)
    assert (found["y"] is None) == (x is None)


def test_nothing_has_no_element(adapter) -> None:
    nodes = [helper.make_node("OptionalGetElement", ["x"], ["y"])]
    executor = adapter.prepare(network(nodes, [optional("x")], [tensor("y")]))
    with pytest.raises(InvalidInput, match="empty optional"):
        executor({"x": None})


@pytest.mark.parametrize(("operator", "others"), [("SequenceAt", []), ("SequenceErase", []), ("SequenceInsert", ["x"])])
@pytest.mark.parametrize("position", [-4, 4])
def test_positions_outside(operator: str, others: list[str], position: int, adapter) -> None:
    output = tensor("y") if operator == "SequenceAt" else sequence("y")
    nodes = [helper.make_node(operator, ["xs", *others, "at"], ["y"])]
    executor = adapter.prepare(network(nodes, [sequence("xs"), tensor("x"), tensor("at", T.INT64, ())], [output]))
    x = np.ones(1, np.float32)
    with pytest.raises(InvalidInput, match=f"position {position}"):
        executor({"xs": [x] * 3, "x": x, "at": np.array(position)})


@pytest.mark.parametrize(
    ("shape", "split", "sizes"),
    [((0, 2), None, []), ((0, 2), 3, []), ((0, 2), [0, 0], [0, 0]), ((5, 2), 2, [2, 2, 1]), ((5, 2), [0, 5], [0, 5])],
)
def test_pieces(shape, split, sizes, run_node) -> None:
    parts = None if split is None else np.array(split)
    (found,) = run_node("SplitToSequence", np.ones(shape, np.float32), parts)
    assert [f.shape[0] for f in found] == sizes


def test_strings_in_sequences(adapter) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "one"], ["t"]),
        helper.make_node("StringConcat", ["t", "t"], ["y"]),
    ]
    given = network(nodes, [tensor("x", T.STRING)], [sequence("s", T.STRING), tensor("y", T.STRING)], one=np.array(1))
    found = adapter.prepare(given)({"x": WORDS})
    assert [s.tolist() for s in found["s"]] == [WORDS.tolist()] * 2
    assert found["y"].tolist() == ["aa", "bcbc", ""]


# Graphs of other operators


def test_a_map_over_sequences_with_a_captured_value(adapter) -> None:
    body = graph(
        "body",
        [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Mul", ["c", "w"], ["d"])],
        [tensor("a"), tensor("b")],
        [tensor("c"), tensor("d")],
    )
    nodes = [helper.make_node("SequenceMap", ["xs", "x"], ["ys", "zs"], body=body)]
    executor = adapter.prepare(network(nodes, [sequence("xs"), tensor("x"), tensor("w")], [sequence("ys"), sequence("zs")]))
    one = np.ones(2, np.float32)
    found = executor({"xs": [one, 2 * one], "x": one, "w": 3 * one})
    assert [y.tolist() for y in found["ys"]] == [[2, 2], [3, 3]]
    assert [z.tolist() for z in found["zs"]] == [[6, 6], [9, 9]]
    assert executor({"xs": [], "x": one, "w": one}) == {"ys": [], "zs": []}


def gradient(nodes, inputs, outputs, xs, y, fed, **rest) -> Network:
    node = helper.make_node("Gradient", fed, outputs, name="gradient", domain="ai.onnx.preview.training", xs=xs, y=y, **rest)
    return network([*nodes, node], inputs, [tensor(o) for o in outputs])


def test_gradients(adapter) -> None:
    nodes = [
        helper.make_node("Mul", ["a", "b"], ["h"]),
        helper.make_node("Exp", ["h"], ["e"]),
        helper.make_node("Mul", ["e", "c"], ["y"]),
    ]
    inputs = [tensor(n, shape=(3,)) for n in "abc"]
    given = gradient(nodes, inputs, ["da", "dc"], ["a", "c"], "y", ["a", "c", "b"], zs=["b"])
    a, b, c = (np.array(v, np.float32) for v in ([0, 1, -1], [2, 0.5, 1], [1, 2, 3]))
    found = adapter.prepare(given)({"a": a, "b": b, "c": c})
    np.testing.assert_allclose(found["da"], c * b * np.exp(a * b), rtol=1e-6)
    np.testing.assert_allclose(found["dc"], np.exp(a * b), rtol=1e-6)


def test_gradients_of_inner_values_elsewhere(adapter) -> None:
    """With respect to h, at another value than the one that h has."""
    nodes = [helper.make_node("Neg", ["a"], ["h"]), helper.make_node("Mul", ["h", "h"], ["y"])]
    found = adapter.prepare(gradient(nodes, [tensor("a"), tensor("p")], ["dh"], ["h"], "y", ["p"]))
    one = np.ones(1, np.float32)
    assert found({"a": one, "p": 4 * one})["dh"] == [8]


def test_gradients_of_gradients(adapter) -> None:
    cube = [helper.make_node("Mul", ["a", "a"], ["s"]), helper.make_node("Mul", ["s", "a"], ["y"])]
    first = helper.make_node("Gradient", ["a"], ["da"], domain="ai.onnx.preview.training", xs=["a"], y="y")
    executor = adapter.prepare(gradient([*cube, first], [tensor("a")], ["dda"], ["a"], "da", ["a"]))
    assert executor({"a": np.array([2], np.float32)})["dda"] == [12]


def test_a_value_that_does_not_depend_has_no_slope(adapter) -> None:
    nodes = [helper.make_node("Mul", ["b", "b"], ["y"])]
    executor = adapter.prepare(gradient(nodes, [tensor("a"), tensor("b")], ["da"], ["a"], "y", ["a"]))
    assert executor({"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)})["da"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("nodes", "y"),
    [
        ([helper.make_node("Mul", ["a", "a"], ["y"])], "nothing"),
        ([helper.make_node("Cast", ["a"], ["s"], to=T.STRING), helper.make_node("Cast", ["s"], ["y"], to=T.FLOAT)], "y"),
    ],
    ids=["no such value", "through the reference"],
)
def test_gradients_that_cannot_be_taken_are_refused(nodes, y, adapter) -> None:
    with pytest.raises(Unsupported):
        adapter.prepare(gradient(nodes, [tensor("a")], ["da"], ["a"], y, ["a"]))


def test_without_a_condition_a_loop_runs_to_its_end(adapter) -> None:
    """Then what the body says counts for nothing, says the standard."""
    body = graph(
        "body",
        [helper.make_node("Less", ["i", "zero"], ["never"]), helper.make_node("Identity", ["s"], ["t"])],
        [tensor("i", T.INT64, ()), tensor("c", T.BOOL, ()), tensor("s", shape=(1,))],
        [tensor("never", T.BOOL, ()), tensor("t", shape=(1,)), tensor("t", shape=(1,))],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y", "all"], body=body)]
    inputs = [tensor("n", T.INT64, ()), tensor("x", shape=(1,))]
    outputs = [tensor("y", shape=(1,)), tensor("all", shape=("k", 1))]
    executor = adapter.prepare(network(nodes, inputs, outputs, zero=np.array(0)))
    assert executor({"n": np.array(3), "x": np.ones(1, np.float32)})["all"].shape == (3, 1)


def test_types_that_come_with_the_values(adapter) -> None:
    """What follows an operator of unknown result is built when it first runs, with the right types."""
    from deep_bench.adapters.lowering import Site, Slot
    from deep_bench.adapters.torch.operators import build

    def late(operator: str, inputs: int, outputs: int = 1, **attributes):
        slots = tuple(Slot(f"i{i}") for i in range(inputs))
        return build(Site("late", operator, 28, attributes, slots, tuple(Slot(f"o{i}") for i in range(outputs))))

    big = adapter.from_numpy(np.array([2**31, 1], np.uint32))
    assert late("Greater", 2)(big, adapter.from_numpy(np.array([1, 1], np.uint32))).tolist() == [True, False]
    assert late("Add", 2)(big, big).dtype == torch.uint32
    values, indices = late("TopK", 2, 2, axis=-1)(big, torch.tensor([1]))
    assert (values.dtype, indices.dtype) == (torch.uint32, torch.int64)
    assert late("CastLike", 2)(torch.ones(1), torch.ones(1, dtype=torch.float16)).dtype == torch.float16
    with pytest.raises(Unsupported, match="strings"):
        late("Equal", 2)(WORDS, WORDS)
