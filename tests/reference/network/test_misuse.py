"""Nodes that their operator's reference cannot be called for are refused before anything runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from onnx import TensorProto, helper

from deep_bench.adapters.lowering import NotNative, lower
from deep_bench.errors import UnsupportedOperator
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.reference.operators import OPERATORS, find, misuse

CONTRIB = "com.microsoft"


def network(operator: str, inputs: int, domain: str = CONTRIB, **attributes: Any) -> Network:
    node = helper.make_node(operator, ["x"] * inputs, ["y"], "node", domain=domain, **attributes)
    value = functools.partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=["n"])
    graph = helper.make_graph([node], "misuse", [value("x")], [value("y")])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)]
    return Network.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def fall_back(network: Network) -> object:
    def native(site: Any) -> Callable[..., Any]:
        raise NotNative("no code here")

    return lower(network, native=native, fallback=lambda site, function: function)


each_way = pytest.mark.parametrize("prepare", [ReferenceAdapter().prepare, fall_back], ids=["reference", "fallback"])


@each_way
@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "reason"),
    [
        ("FastGelu", 3, {}, "it takes 1 to 2 inputs, 3 given"),
        ("QuickGelu", 2, {}, "it takes 1 input, 2 given"),
        ("BiasGelu", 1, {}, "it takes 2 inputs, 1 given"),
        ("FastGelu", 1, {"alpha": 1.0}, "it has no attribute 'alpha'"),
        ("QuickGelu", 1, {"X": 1.0}, "it has no attribute 'X'"),
        ("QuickGelu", 1, {"alpha": "steep"}, "its attribute 'alpha' is a floating-point number, 'steep' given"),
        ("QuickGelu", 1, {"n_outputs": 1}, "it has no attribute 'n_outputs'"),
        ("TransposeMatMul", 2, {"transA": [1]}, "its attribute 'transA' is an integer, (1,) given"),
        ("GroupNorm", 3, {"activation": 0}, "its attribute 'groups' is missing"),
    ],
)
def test_a_node_that_cannot_be_called_is_refused(
    prepare: Callable[[Network], object], operator: str, inputs: int, attributes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedOperator) as caught:
        prepare(network(operator, inputs, **attributes))
    assert (caught.value.node, caught.value.operator) == ("node", f"{CONTRIB}:{operator}")
    assert caught.value.reason == reason


@each_way
def test_the_default_domain_is_no_exception(prepare: Callable[[Network], object]) -> None:
    with pytest.raises(UnsupportedOperator, match="it takes 2 inputs, 3 given"):
        prepare(network("PRelu", 3, domain=""))


@each_way
def test_a_right_node_is_not_refused(prepare: Callable[[Network], object]) -> None:
    prepare(network("FastGelu", 2))
    prepare(network("QuickGelu", 1, alpha=1.5))


def test_variadic_inputs_have_no_upper_limit() -> None:
    assert misuse(find("", "Sum"), 40, {}) == ""
    assert misuse(find("", "Concat"), 40, {"axis": 0}) == ""


@pytest.mark.parametrize("key", OPERATORS, ids=":".join)
def test_every_reference_takes_its_own_defaults(key: tuple[str, str]) -> None:
    parameters = inspect.signature(find(*key)).parameters.values()
    inputs = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    stated = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in ("n_outputs", "function")}
    assert misuse(find(*key), len(inputs), stated) == ""
