"""Replacing nodes and patterns of nodes."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidNetwork
from deep_bench.network.gradient.tape import Symbol, Tape
from deep_bench.network.transform import Match, by_name, check, replace
from tests.network.transform.texts import digits, network, normal, operators, run

TWO = "f (float[4] x) => (float[4] y, float[4] z) { a = Sqrt(x)  b = Add(a, c)  y = Relu(b)  z = Neg(a) }"


def test_by_operator_name_and_function() -> None:
    net, image = digits()
    for match in ("Relu", by_name(net.nodes[2].name), lambda node: node.op_type == "Relu"):
        changed = replace(net, match, lambda tape, found: tape.Max(found.inputs[0], 0.0))
        assert "Max" in operators(changed)
        assert check(net, changed, image).ok


def test_values_keep_their_names() -> None:
    net, _ = digits()
    changed = replace(net, "Relu", lambda tape, found: tape.Max(found.inputs[0], 0.0))
    values = {v.name for n in changed.nodes for v in n.outputs}
    assert {v.name for n in net.nodes for v in n.outputs} <= values


def test_a_pattern_binds_variables_in_any_order() -> None:
    net = network(TWO, c=np.float32(2))
    seen = []
    for pattern in ("Relu(Add(Sqrt(v), k))", "Relu(Add(k, Sqrt(v)))", "Relu(Add(Sqrt(v), 2))", "Relu(Add(_, ...))"):
        replace(net, pattern, lambda tape, found: seen.append((found.private, [n.op_type for n in found.nodes])))
    assert seen[:3] == [(False, ["Relu", "Add", "Sqrt"])] * 3
    assert seen[3] == (True, ["Relu", "Add"])


def test_a_variable_twice_is_the_same_value() -> None:
    net = network("f (float[2] x, float[2] w) => (float[2] y, float[2] z) { y = Mul(x, x)  z = Mul(x, w) }")
    squares = replace(net, "Mul(a, a)", lambda tape, found: found["a"] ** 2.0)
    assert operators(squares) == ["Mul", "Pow"]
    inputs = {"x": normal(2), "w": normal(2, seed=1)}
    assert check(net, squares, inputs).ok


def test_a_number_must_be_the_constant() -> None:
    net = network(TWO, c=np.float32(2))
    with pytest.raises(InvalidArgument, match="nothing in f matches"):
        replace(net, "Relu(Add(x, 3))", lambda tape, found: None)
    assert operators(replace(net, "Relu(Add(x, 3))", lambda tape, found: None, required=False)) == operators(net)


def test_what_serves_something_else_stays() -> None:
    net = network(TWO, c=np.float32(2))
    changed = replace(net, "Relu(Add(Sqrt(v), k))", lambda tape, found: tape.Relu(found["v"] ** 0.5 + found["k"]))
    assert sorted(operators(changed)) == ["Add", "Neg", "Pow", "Relu", "Sqrt"]
    assert check(net, changed, {"x": np.abs(normal(4))}).ok


def test_an_input_in_the_place_of_an_output_is_copied() -> None:
    net = network("f (float[4] x) => (float[4] y) { a = Neg(x)  y = Neg(a) }")
    changed = replace(net, "Neg(Neg(x))", lambda tape, found: found["x"])
    assert operators(changed) == ["Identity"]
    assert check(net, changed, {"x": normal(4)}).identical


def test_several_outputs() -> None:
    net = network("f (float[4,6] x) => (float[4,3] y, float[4,3] z) { y, z = Split<axis = 1, num_outputs = 2>(x) }")
    halves = replace(net, "Split", lambda tape, found: (found.inputs[0].slice(1, 0, 3), found.inputs[0].slice(1, 3, 6)))
    assert operators(halves) == ["Slice", "Slice"]
    assert check(net, halves, {"x": normal(4, 6)}).identical
    with pytest.raises(InvalidArgument, match="1 symbols for node"):
        replace(net, "Split", lambda tape, found: found.inputs[0])


def test_attributes_and_contents() -> None:
    net = network("f (float[4,3] x) => (float[4,2] y) { y = Gemm<alpha = 0.5>(x, w) }", w=normal(3, 2))

    def build(tape: Tape, found: Match) -> Symbol:
        return found["x"] @ tape.constant(found.contents("w") * found.attributes()["alpha"], np.float32)

    changed = replace(net, "Gemm(x, w)", build)
    assert operators(changed) == ["MatMul"]
    assert check(net, changed, {"x": normal(4, 3)}).ok


def test_other_domains() -> None:
    net = network("f (float[4] x) => (float[4] y) { a = com.microsoft.QuickGelu(x)  y = Neg(a) }")
    net.graph.opset_imports["com.microsoft"] = 1
    changed = replace(net, "Neg(com.microsoft.QuickGelu(v))", lambda tape, f: -(f["v"] * tape.Sigmoid(f["v"] * 1.702)))
    assert operators(changed) == ["Mul", "Sigmoid", "Mul", "Neg"]


@pytest.mark.parametrize("pattern", ["Relu(", "Relu(x=1)", "Relu(x + y)", "3", "Relu(..., x)", "Relu('a')"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="the pattern"):
        replace(digits()[0], pattern, lambda tape, found: None)


def test_a_cycle_is_refused() -> None:
    net = network("f (float[4] x) => (float[4] y) { a = Relu(x)  y = Neg(a) }")

    def build(tape: Tape, found: Match) -> Symbol:
        (use,) = found.node.outputs[0].uses()
        return tape.Abs(Symbol(tape, use.node.outputs[0]))

    with pytest.raises(InvalidNetwork, match="depend on itself"):
        replace(net, "Relu", build)


def test_the_network_itself_stays() -> None:
    net, image = digits()
    before = run(net, image)["logits"]
    replace(net, "Relu", lambda tape, found: tape.Neg(found.inputs[0]))
    assert np.array_equal(run(net, image)["logits"], before)
