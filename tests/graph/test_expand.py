"""Expanding operators through the bodies that ONNX defines."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from deep_bench.graph import OPSET, Network
from deep_bench.graph.edit import Names
from deep_bench.graph.expand import expand

FLOAT = TensorProto.FLOAT


def single(operator: str, count: int, **attributes: Any) -> Network:
    inputs = [f"x{i}" for i in range(count)]
    node = helper.make_node(operator, inputs, ["y"], name="node", **attributes)
    values = [helper.make_tensor_value_info(n, FLOAT, None) for n in [*inputs, "y"]]
    graph = helper.make_graph([node], "graph", values[:-1], values[-1:])
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)]))


def evaluate(graph: Any, *arrays: np.ndarray) -> np.ndarray:
    import onnx_ir as ir

    proto = ir.serde.serialize_graph(graph)
    for value in proto.input:
        value.type.CopyFrom(helper.make_tensor_type_proto(FLOAT, None))
    for value in proto.output:
        value.type.CopyFrom(helper.make_tensor_type_proto(FLOAT, None))
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)])
    feeds = {v.name: a for v, a in zip(proto.input, arrays, strict=True)}
    return ReferenceEvaluator(model).run(None, feeds)[0]


def types(*shapes: tuple[int, ...]) -> list[onnx.TypeProto]:
    return [helper.make_tensor_type_proto(FLOAT, shape) for shape in shapes]


X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)


def test_a_body_that_always_is_the_same() -> None:
    network = single("HardSwish", 1)
    graph = expand(network.nodes[0], [None], Names(network))
    assert graph is not None
    assert [v.name for v in graph.inputs] == ["x0"]
    assert [v.name for v in graph.outputs] == ["y"]
    np.testing.assert_allclose(evaluate(graph, X), X * np.clip(X / 6 + 0.5, 0, 1), rtol=1e-6)


def test_a_body_that_depends_on_the_types() -> None:
    network = single("Softmax", 1, axis=0)
    graph = expand(network.nodes[0], types((3, 4)), Names(network))
    assert graph is not None
    power = np.exp(X)
    np.testing.assert_allclose(evaluate(graph, X), power / power.sum(axis=0), rtol=1e-6)


def test_stated_attributes_and_defaults_reach_the_body() -> None:
    for attributes, alpha in (({"alpha": 0.5}, 0.5), ({}, 1.0)):
        network = single("Celu", 1, **attributes)
        graph = expand(network.nodes[0], types((3, 4)), Names(network))
        assert graph is not None
        expected = np.maximum(X, 0) + np.minimum(0, alpha * (np.exp(X / alpha) - 1))
        np.testing.assert_allclose(evaluate(graph, X), expected, rtol=1e-5, atol=1e-6)


def test_the_same_value_may_be_given_twice() -> None:
    network = single("GreaterOrEqual", 2)
    node = network.nodes[0]
    node.replace_input_with(1, node.inputs[0])
    graph = expand(node, types((3, 4), (3, 4)), Names(network))
    assert graph is not None
    assert [v.name for v in graph.inputs] == ["x0"]


def test_two_expansions_share_no_names() -> None:
    network = single("HardSwish", 1)
    names = Names(network)
    graphs = [expand(network.nodes[0], [None], names) for _ in range(2)]
    inner = [{v.name for n in g for v in n.outputs} - {"y"} for g in graphs if g is not None]
    assert len(inner) == 2
    assert not inner[0] & inner[1]


@pytest.mark.parametrize("operator", ["Exp", "Conv"])
def test_operators_without_a_body(operator: str) -> None:
    network = single(operator, 2 if operator == "Conv" else 1)
    assert expand(network.nodes[0], types((1, 1, 3), (1, 1, 3)), Names(network)) is None


def test_bernoulli_is_not_expanded() -> None:
    """The standard's body of it gives 1 with probability ``1 - x``."""
    network = single("Bernoulli", 1)
    assert expand(network.nodes[0], [helper.make_tensor_type_proto(FLOAT, [4])], Names(network)) is None
    types = [helper.make_tensor_type_proto(FLOAT, [4]).SerializeToString()]
    node = helper.make_node("Bernoulli", ["x"], ["y"]).SerializeToString()
    body = onnx.FunctionProto.FromString(onnx.defs.get_schema("Bernoulli", 22).get_context_dependent_function(node, types))
    assert ["X_random", "input"] in [list(n.input) for n in body.node if n.op_type == "Greater"], "mended: expand it again"


def test_the_body_of_attention_loses_no_digits_of_float64() -> None:
    network = single("Attention", 3)
    node = network.nodes[0]
    double = [helper.make_tensor_type_proto(TensorProto.DOUBLE, [1, 2, 3, 5])] * 3
    graph = expand(node, double, Names(network))
    assert graph is not None
    single_precision = [n.name for n in graph if n.op_type == "Cast" and n.attributes["to"].as_int() == TensorProto.FLOAT]
    assert not single_precision
    narrow = [helper.make_tensor_type_proto(FLOAT, [1, 2, 3, 5])] * 3
    assert any(
        n.op_type == "Cast" and n.attributes["to"].as_int() == TensorProto.FLOAT
        for n in expand(node, narrow, Names(network))
    )
