"""Lowering, with an adapter that runs plans in NumPy and checks what each slot claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import deep_bench as db
from deep_bench.adapters.lowering import Lowered, NotNative, Plan, Site, Slot, lower, output_types
from deep_bench.errors import InvalidArgument, UnsupportedOperator
from deep_bench.graph import OPSET, Network

from . import numpy_adapter as adapter
from .test_standard_cases import BASIC as ELEMENTARY

RANDOM = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def value(name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    **constants: Any,
) -> Network:
    initializers = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)]))


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Inputs and outputs as words; ``-`` is an omitted one."""
    names = [["" if n == "-" else n for n in words.split()] for words in (inputs, outputs)]
    return helper.make_node(operator, *names, name=f"{operator}_{outputs.split()[0]}", **attributes)


def operators(plan: Plan) -> list[str]:
    return [step.site.operator for step in plan.steps]


def run(lowered: Lowered, **inputs: Any) -> tuple[Any, ...]:
    return adapter.run(lowered.plan, inputs)


# Folding


def test_shape_arithmetic_of_known_sizes_is_gone() -> None:
    given = network(
        [
            node("Shape", "x", "s"),
            node("Gather", "s i", "n"),
            node("Concat", "n m", "t", axis=0),
            node("Reshape", "x t", "y"),
        ],
        [value("x", [4, 6])],
        [value("y", None)],
        i=np.array([0]),
        m=np.array([3, -1]),
    )
    lowered = adapter.lowered(given)
    assert operators(lowered.plan) == ["Reshape"]
    assert lowered.plan.steps[0].site.constant(1).tolist() == [4, 3, -1]
    assert lowered.plan.steps[0].site.outputs[0].shape == (4, 3, 2)
    assert lowered.absent == ("Shape_s", "Gather_n", "Concat_t")
    assert lowered.forms.native == ("Reshape_y",)
    assert run(lowered, x=normal(4, 6))[0].shape == (4, 3, 2)


def test_a_known_size_beside_an_open_one_is_known() -> None:
    given = network(
        [node("Shape", "x", "s"), node("Gather", "s i", "n"), node("Mul", "n two", "y")],
        [value("x", ["batch", 6])],
        [value("y", None, TensorProto.INT64)],
        i=np.array(1),
        two=np.array(2),
    )
    lowered = adapter.lowered(given)
    assert operators(lowered.plan) == []
    assert run(lowered, x=normal(3, 6))[0] == 12


def test_a_partly_known_target_gives_the_rank_and_the_known_sizes() -> None:
    given = network(
        [
            node("Shape", "x", "s", end=1),
            node("Concat", "s m", "t", axis=0),
            node("Reshape", "x t", "y"),
            node("ConstantOfShape", "t", "z"),
            node("Expand", "one t", "w"),
        ],
        [value("x", ["batch", 6])],
        [value(n, None) for n in "yzw"],
        m=np.array([2, 3]),
        one=np.ones((1, 1, 1), np.float32),
    )
    lowered = adapter.lowered(given)
    shapes = {s.site.operator: s.site.outputs[0].shape for s in lowered.plan.steps}
    assert shapes["Reshape"] == shapes["ConstantOfShape"] == shapes["Expand"] == (None, 2, 3)
    assert [y.shape for y in run(lowered, x=normal(5, 6))] == [(5, 2, 3)] * 3


def test_declared_sizes_of_inner_values_are_not_believed() -> None:
    graph = helper.make_graph(
        [node("Relu", "x", "t"), node("Shape", "t", "y")],
        "graph",
        [value("x", ["n"])],
        [value("y", [1], TensorProto.INT64)],
        value_info=[value("t", [99])],
    )
    given = Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)]))
    (y,) = run(adapter.lowered(given), x=normal(3))
    assert y.tolist() == [3]


def test_large_results_are_not_kept() -> None:
    given = network([node("ConstantOfShape", "s", "y")], [], [value("y", None)], s=np.array([1024, 1024]))
    lowered = adapter.lowered(given)
    assert operators(lowered.plan) == ["ConstantOfShape"]


def test_random_results_are_not_kept() -> None:
    given = network([node("RandomNormalLike", "w", "y")], [], [value("y", None)], w=normal(3))
    assert operators(adapter.lowered(given).plan) == ["RandomNormalLike"]


def test_strings_are_folded_as_strings() -> None:
    given = network(
        [node("StringConcat", "a a", "y")], [], [value("y", None, TensorProto.STRING)], a=np.array(["né"], object)
    )
    assert run(adapter.lowered(given))[0].tolist() == ["néné"]


def test_sizes_that_do_not_fit_leave_the_element_type() -> None:
    """A branch may hold nodes that cannot run with the sizes at hand; only taking it is an error."""
    wrong = helper.make_graph([node("MatMul", "x w", "then_y")], "then", [], [value("then_y", None)])
    given = network(
        [node("If", "b", "y", then_branch=wrong, else_branch=branch("else", "Relu", "x"))],
        [value("b", [], TensorProto.BOOL), value("x", [2, 3])],
        [value("y", None)],
        w=normal(4, 5),
    )
    lowered = adapter.lowered(given)
    (matmul,) = lowered.plan.steps[0].site.attributes["then_branch"].steps
    assert matmul.site.outputs[0].dtype == np.float32
    assert matmul.site.outputs[0].shape is None
    x = normal(2, 3)
    np.testing.assert_array_equal(run(lowered, b=np.array(False), x=x)[0], np.maximum(x, 0))


# Parameters


def weighted() -> Network:
    return network(
        [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "x t", "y")],
        [value("x", [2, 3])],
        [value("y", None)],
        w=normal(4, 3),
    )


def test_inference_folds_parameters() -> None:
    lowered = adapter.lowered(weighted())
    assert operators(lowered.plan) == ["MatMul"]
    assert lowered.plan.parameters == ()


def test_training_folds_nothing_that_depends_on_a_parameter() -> None:
    given = weighted()
    lowered = adapter.lowered(given, mode="train")
    assert operators(lowered.plan) == ["Transpose", "MatMul"]
    assert lowered.plan.parameters == ("w",)
    assert lowered.plan.steps[0].site.constant(0) is None
    assert lowered.plan.steps[0].site.input(0).shape == (4, 3)
    x = normal(2, 3)
    np.testing.assert_allclose(run(lowered, x=x)[0], x @ given.initializers["w"].T, rtol=1e-6)


# Nodes that do nothing

NOTHING = {
    "Identity": node("Identity", "x", "t"),
    "Cast": node("Cast", "x", "t", to=TensorProto.FLOAT),
    "CastLike": node("CastLike", "x x", "t"),
    "Dropout": node("Dropout", "x", "t"),
    "Expand": node("Expand", "x ones", "t"),
    "Pad": node("Pad", "x zeros", "t"),
    "Reshape": node("Reshape", "x copy", "t"),
    "Slice": node("Slice", "x start far", "t"),
    "Sum": node("Sum", "x", "t"),
    "Tile": node("Tile", "x ones", "t"),
    "Transpose": node("Transpose", "x", "t", perm=[0, 1]),
}
SETTINGS = {
    "copy": np.array([0, 3]),
    "far": np.array([2**31 - 1]),
    "ones": np.array([1, 1]),
    "start": np.array([0]),
    "zeros": np.array([0, 0, 0, 0]),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_node_that_does_nothing_is_another_name(name: str) -> None:
    given = network([NOTHING[name], node("Relu", "t", "y")], [value("x", ["n", 3])], [value("y", None)], **SETTINGS)
    lowered = adapter.lowered(given)
    assert operators(lowered.plan) == ["Relu"]
    assert lowered.plan.steps[0].site.inputs[0].name == "x"
    x = normal(2, 3)
    np.testing.assert_array_equal(run(lowered, x=x)[0], np.maximum(x, 0))


SOMETHING = {
    "Reshape": node("Reshape", "x free", "t"),
    "Slice": node("Slice", "x start far axes back", "t"),
    "Transpose": node("Transpose", "x", "t"),
}


@pytest.mark.parametrize("name", SOMETHING)
def test_a_node_that_only_looks_idle_stays(name: str) -> None:
    settings = {**SETTINGS, "free": np.array([-1, 3]), "axes": np.array([0]), "back": np.array([-1])}
    given = network([SOMETHING[name]], [value("x", [3, "n"])], [value("t", None)], **settings)
    assert operators(adapter.lowered(given).plan) == [name]


def test_other_names_can_still_be_asked_for() -> None:
    given = network(
        [node("Relu", "x", "a"), node("Identity", "a", "b"), node("Identity", "c", "d")],
        [value("x", [2])],
        [value(n, None) for n in "xab"] + [value("d", None)],
        c=normal(2),
    )
    lowered = adapter.lowered(given)
    assert lowered.plan.outputs == ("x", "a", "b", "d")
    x = normal(2)
    outputs = run(lowered, x=x)
    np.testing.assert_array_equal(outputs[2], np.maximum(x, 0))
    np.testing.assert_array_equal(outputs[3], given.initializers["c"])


def test_inner_values_can_be_asked_for_and_the_rest_does_not_run() -> None:
    given = network([node("Relu", "x", "a"), node("Exp", "a", "y")], [value("x", [2])], [value("y", None)], unused=normal(2))
    lowered = adapter.lowered(given, outputs=["a"])
    assert operators(lowered.plan) == ["Relu"]
    assert lowered.plan.constants == {}
    assert lowered.absent == ("Exp_y",)


def test_a_name_that_no_value_has() -> None:
    with pytest.raises(InvalidArgument, match="no value 'nothing'"):
        adapter.lowered(weighted(), outputs=["nothing"])


# Native code, expansion, reference


def gelu() -> Network:
    return network([node("Gelu", "x", "y")], [value("x", [2, "n"])], [value("y", None)])


BASIC = {"Add", "Cast", "CastLike", "Div", "Erf", "Mul", "Sqrt", "Sum"}


@pytest.mark.parametrize("known", [{"Gelu"}, BASIC])
def test_native_or_decomposed(known: Collection[str]) -> None:
    lowered = adapter.lowered(gelu(), known)
    decomposed = known == BASIC
    assert lowered.forms.decomposed == (("Gelu_y",) if decomposed else ())
    assert lowered.forms.native == (() if decomposed else ("Gelu_y",))
    assert (len(lowered.plan.steps) > 1) is decomposed
    x = normal(2, 3)
    expected = run(adapter.lowered(gelu()), x=x)[0]
    np.testing.assert_allclose(run(lowered, x=x)[0], expected, rtol=1e-5, atol=1e-6)


def test_an_expansion_with_a_node_that_is_not_native_is_no_decomposition() -> None:
    lowered = adapter.lowered(gelu(), BASIC - {"Erf"}, fall_back=True)
    assert operators(lowered.plan) == ["Gelu"]
    assert "needs Erf" in lowered.forms.fallback["Gelu_y"]
    assert not lowered.forms.native
    assert not lowered.forms.decomposed
    x = normal(2, 3)
    np.testing.assert_array_equal(run(lowered, x=x)[0], run(adapter.lowered(gelu()), x=x)[0])


def test_what_cannot_run_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOperator) as caught:
        adapter.lowered(gelu(), ())
    assert (caught.value.node, caught.value.operator, caught.value.opset) == ("Gelu_y", "Gelu", OPSET)
    assert "no Gelu here" in caught.value.reason


def test_a_fallback_may_refuse_as_well() -> None:
    def refuse(site: Any, *_: Any) -> Any:
        raise NotNative(f"not even {site.operator}")

    with pytest.raises(UnsupportedOperator, match="not even Gelu"):
        lower(gelu(), native=refuse, fallback=refuse)


def test_unused_outputs_are_marked() -> None:
    given = network([node("TopK", "x k", "v i")], [value("x", [5])], [value("i", None, TensorProto.INT64)], k=np.array([2]))
    site = adapter.lowered(given).plan.steps[0].site
    assert not site.wants(0)
    assert site.wants(1)


def test_nodes_that_an_upgrade_adds_count_for_the_node_they_help() -> None:
    graph = helper.make_graph([node("Softmax", "x", "y", axis=1)], "g", [value("x", [2, 3, 4])], [value("y", None)])
    given = Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]))
    lowered = adapter.lowered(given)
    assert operators(lowered.plan) == ["Flatten", "Softmax", "Reshape"]
    assert lowered.forms.native == ("Softmax_y",)
    assert lowered.absent == ()


# Subgraphs


def branch(name: str, operator: str, *inputs: str) -> onnx.GraphProto:
    made = helper.make_node(operator, list(inputs), [f"{name}_y"], name=f"{name}_node")
    return helper.make_graph([made], name, [], [value(f"{name}_y", None)])


def choice(condition: str) -> list[onnx.NodeProto]:
    branches = {"then_branch": branch("then", "Add", "x", "c"), "else_branch": branch("else", "Relu", "x")}
    return [node("If", condition, "t", **branches), node("Exp", "t", "y")]


@pytest.mark.parametrize("condition", [True, False])
def test_a_known_condition_leaves_one_branch(condition: bool) -> None:
    given = network(choice("b"), [value("x", [2])], [value("y", None)], b=np.array(condition), c=normal(2))
    lowered = adapter.lowered(given)
    assert operators(lowered.plan) == ["Add" if condition else "Relu", "Exp"]
    assert set(lowered.absent) == {"If_t", "else_node" if condition else "then_node"}
    x = normal(2)
    taken = x + given.initializers["c"] if condition else np.maximum(x, 0)
    np.testing.assert_allclose(run(lowered, x=x)[0], np.exp(taken), rtol=1e-6)


def test_an_unknown_condition_keeps_both_with_what_they_capture() -> None:
    inputs = [value("b", [], TensorProto.BOOL), value("x", [2])]
    given = network(choice("b"), inputs, [value("y", None)], c=normal(2))
    lowered = adapter.lowered(given)
    step = lowered.plan.steps[0]
    assert step.captures == ("x", "c")
    assert step.site.attributes["then_branch"].captures == ("x", "c")
    assert step.site.attributes["else_branch"].captures == ("x",)
    assert set(lowered.plan.constants) == {"c"}
    assert step.site.outputs[0].shape == (2,)
    assert set(lowered.forms.native) == {"If_t", "then_node", "else_node", "Exp_y"}
    x = normal(2)
    for condition in (True, False):
        taken = x + given.initializers["c"] if condition else np.maximum(x, 0)
        np.testing.assert_allclose(run(lowered, b=np.array(condition), x=x)[0], np.exp(taken), rtol=1e-6)


def loop(grow: bool) -> Network:
    """Adds a row to what it carries in each turn, or adds 1 to it."""
    step = [node("Concat", "a a", "b", axis=0)] if grow else [node("Add", "a one", "b")]
    body = helper.make_graph(
        [node("Identity", "c", "d"), *step],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("a", None)],
        [value("d", [], TensorProto.BOOL), value("b", None)],
    )
    return network(
        [node("Loop", "n - x", "y", body=body)],
        [value("n", [], TensorProto.INT64), value("x", [1, 2])],
        [value("y", None)],
        one=np.float32(1),
    )


@pytest.mark.parametrize("grow", [False, True])
def test_a_loop_keeps_only_the_sizes_that_its_body_keeps(grow: bool) -> None:
    lowered = adapter.lowered(loop(grow))
    shape = lowered.plan.steps[0].site.outputs[0].shape
    assert shape == ((None, 2) if grow else (1, 2))
    x = normal(1, 2)
    (y,) = run(lowered, n=np.array(3), x=x)
    np.testing.assert_allclose(y, np.repeat(x, 8, axis=0) if grow else x + 3, rtol=1e-6)


def test_scan() -> None:
    body = helper.make_graph(
        [node("Add", "s e", "t"), node("Identity", "t", "o")],
        "body",
        [value("s", [2]), value("e", [2])],
        [value("t", [2]), value("o", [2])],
    )
    given = network(
        [node("Scan", "f x", "l y", body=body, num_scan_inputs=1)],
        [value("f", [2]), value("x", ["n", 2])],
        [value("l", None), value("y", None)],
    )
    lowered = adapter.lowered(given)
    assert [s.shape for s in lowered.plan.steps[0].site.outputs] == [(2,), (None, 2)]
    first, x = normal(2), normal(5, 2)
    last, sums = run(lowered, f=first, x=x)
    np.testing.assert_allclose(sums, first + np.cumsum(x, axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(last, sums[-1])


def mapped() -> Network:
    """``(x + w, 2 x + w)`` as a map over a sequence, of which the body takes ``w`` from outside."""
    body = helper.make_graph([node("Add", "a w", "b")], "body", [value("a", None)], [value("b", None)])
    return network(
        [
            node("Add", "x x", "twice"),
            node("Relu", "v", "w"),
            node("SequenceConstruct", "x twice", "s"),
            node("SequenceMap", "s", "m", body=body),
            node("ConcatFromSequence", "m", "y", axis=0),
        ],
        [value("x", [2]), value("v", [2])],
        [value("y", None)],
    )


CONTAINERS = {"SequenceConstruct", "ConcatFromSequence", "SequenceEmpty", "SequenceLength", "SequenceAt", "SequenceInsert"}


@pytest.mark.parametrize("known", [None, {"Add", "Relu", "Loop", *CONTAINERS}], ids=["native", "decomposed"])
def test_a_map_over_a_sequence(known: Collection[str] | None) -> None:
    lowered = adapter.lowered(mapped(), known)
    assert lowered.forms.decomposed == (() if known is None else ("SequenceMap_m",))
    assert not lowered.forms.fallback
    x, v = normal(2), np.array([3, -1], np.float32)
    w = np.array([3, 0], np.float32)
    np.testing.assert_array_equal(run(lowered, x=x, v=v)[0], np.concatenate([x + w, 2 * x + w]))


def attention(score_mod: Sequence[onnx.NodeProto], **constants: Any) -> Network:
    """FlexAttention whose scores are changed by a graph from ``s`` to ``t``."""
    graph = helper.make_graph(score_mod, "mod", [value("s", None)], [value("t", None)])
    inputs = [value(n, [1, 1, 2, 4]) for n in "qkv"]
    flex = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], name="flex", domain="ai.onnx.preview", score_mod=graph)
    initializers = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    made = helper.make_graph([node("Neg", "k", "outer"), flex], "g", [*inputs], [value("y", None)], initializers)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.preview", 1)]
    return Network.from_proto(helper.make_model(made, opset_imports=imports))


def flex(q: np.ndarray, k: np.ndarray, v: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    scores = change(q @ k.swapaxes(-1, -2) / 2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_a_body_with_the_graph_that_the_node_was_given() -> None:
    """The values that the graph names are found, be they outside, or called as the standard's own."""
    mod = [node("ReduceMax", "outer", "Score", keepdims=0), node("Add", "Score bias", "K"), node("Mul", "s K", "t")]
    lowered = adapter.lowered(attention(mod, bias=np.float32(0.5)), ELEMENTARY)
    assert lowered.forms.decomposed == ("flex",)
    q, k, v = (normal(1, 1, 2, 4) for _ in range(3))
    np.testing.assert_allclose(
        run(lowered, q=q, k=k, v=v)[0], flex(q, k, v, lambda s: s * ((-k).max() + 0.5)), rtol=1e-4, atol=1e-5
    )


def test_a_body_with_a_node_that_falls_back() -> None:
    lowered = adapter.lowered(attention([node("Selu", "s", "t")]), ELEMENTARY - {"Tanh"}, fall_back=True)
    assert not lowered.forms.fallback
    lowered = adapter.lowered(attention([node("Tanh", "s", "t")]), ELEMENTARY - {"Tanh"}, fall_back=True)
    assert list(lowered.forms.fallback) == ["flex"]
    assert lowered.forms.native == ()
    q, k, v = (normal(1, 1, 2, 4) for _ in range(3))
    np.testing.assert_allclose(run(lowered, q=q, k=k, v=v)[0], flex(q, k, v, np.tanh), rtol=1e-4, atol=1e-5)


def test_what_the_standards_body_loses_is_refused() -> None:
    inner = helper.make_graph([node("Neg", "s", "n")], "inner", [], [value("n", None)])
    other = helper.make_graph([node("Abs", "s", "p")], "other", [], [value("p", None)])
    mod = [node("ReduceMax", "s", "m", keepdims=0), node("Cast", "m", "c", to=TensorProto.BOOL)]
    given = attention([*mod, node("If", "c", "t", then_branch=inner, else_branch=other)])
    with pytest.raises(UnsupportedOperator, match="FlexAttention"):
        adapter.lowered(given, ELEMENTARY)


def gradient(y: str) -> Network:
    node_ = helper.make_node(
        "Gradient", ["x", "w"], ["g"], name="grad", domain="ai.onnx.preview.training", xs=["x"], zs=["w"], y=y
    )
    nodes = [node("Mul", "x w", "a"), node("Tanh", "a", "b"), node("Add", "b c", "y"), node_]
    made = helper.make_graph(nodes, "g", [value("x", [2]), value("w", [2]), value("c", [2])], [value("g", None)])
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.preview.training", 1)]
    return Network.from_proto(helper.make_model(made, opset_imports=imports))


def differentiable(site: Site) -> Callable[..., Any]:
    """Native code for all that is in `gradient`."""
    if site.operator.endswith("Gradient"):
        return lambda *arrays: arrays[0]
    return adapter.native(site, known={"Mul", "Add"})


def test_what_is_differentiated_is_a_graph_of_its_own() -> None:
    plan = lower(gradient("a"), native=differentiable, fallback=None).plan
    (step,) = plan.steps  # the rest of the network does not run
    inner = step.site.attributes["graph"]
    assert operators(inner) == ["Mul"]
    assert [slot.shape for slot in inner.inputs] == [(2,), (2,)]
    assert step.site.outputs[0].shape == (2,)
    assert step.captures == ()


def test_no_derivative_is_taken_through_the_reference() -> None:
    with pytest.raises(UnsupportedOperator, match="Tanh"):
        lower(gradient("y"), native=differentiable, fallback=lambda site, function: function)


@pytest.mark.parametrize(
    ("operator", "types", "attributes", "found"),
    [
        ("CastLike", ["float32", "float16"], {}, ["float16"]),
        ("Greater", ["uint32", "uint32"], {}, ["bool"]),
        ("TopK", ["uint32", "int64"], {"axis": -1}, ["uint32", "int64"]),
        ("ConstantOfShape", ["int64"], {"value": np.array([1], np.int32)}, ["int32"]),
        ("Conv", ["float32", "float32"], {"pads": (1, 1, 1, 1)}, ["float32"]),
        ("Where", ["bool", None, "float32"], {}, [None]),
    ],
)
def test_types_that_become_known_later(operator: str, types, attributes, found) -> None:
    slots = tuple(Slot(f"i{i}", None if t is None else np.dtype(t)) for i, t in enumerate(types))
    site = Site("late", operator, OPSET, attributes, slots, tuple(Slot(f"o{i}") for i in range(len(found))))
    assert output_types(site) == [None if t is None else np.dtype(t) for t in found]


# Whole networks


def test_the_network_that_ships() -> None:
    given = db.load("digits-cnn")
    image = RANDOM.random((2, 1, 8, 8), dtype=np.float32)
    expected = db.frameworks["reference"]().prepare(given)({"image": image})["logits"]
    for mode in ("inference", "train"):
        lowered = adapter.lowered(given, mode=mode)
        np.testing.assert_allclose(run(lowered, image=image)[0], expected, rtol=1e-5, atol=1e-6)
        assert {*lowered.forms.native, *lowered.absent} == {n.name for n in given.all_nodes()}
