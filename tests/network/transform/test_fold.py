"""Constant folding."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.network.transform import check, fold
from tests.network.transform.texts import network, normal, operators, run


def test_what_depends_on_constants_goes() -> None:
    net = network(
        "f (float[2,3] x) => (float[2,3] y) { t = Transpose(w)  r = Relu(t)  s = Softmax(x)  y = Add(s, r) }", w=normal(3, 2)
    )
    folded = fold(net)
    assert operators(folded) == ["Softmax", "Add"]
    assert list(folded.initializers) == ["r"]
    assert check(net, folded, {"x": normal(2, 3)}).identical


def test_random_numbers_stay() -> None:
    net = network(
        "f (float[4] x) => (float[4] y) { r = RandomNormal<shape = [4]>()  b = Bernoulli(p)  d, m = Dropout(p, q, t)"
        "  k = Dropout(p)  a = Add(r, b)  c = Add(a, d)  e = Add(c, k)  y = Add(x, e) }",
        p=np.full(4, 0.5, np.float32),
        q=np.float32(0.5),
        t=np.array(True),
    )
    assert operators(fold(net)) == ["RandomNormal", "Bernoulli", "Dropout", "Add", "Add", "Add", "Add"]


def test_large_results_stay() -> None:
    text = "f (float[1] x) => (float[1000] y) { r = Expand(c, n)  y = Add(x, r) }"
    net = network(text, c=np.float32(1), n=np.array([1000]))
    assert operators(fold(net, limit=3_999)) == ["Expand", "Add"]
    assert operators(fold(net, limit=4_000)) == ["Add"]


def test_no_larger_than_before_is_folded_without_limit() -> None:
    net = network("f (float[100,10] x) => (float[100,10] y) { t = Transpose(w)  y = Add(x, t) }", w=normal(10, 100))
    assert operators(fold(net, limit=0)) == ["Add"]


def test_a_value_between_that_is_too_large() -> None:
    """Its small consumer is folded, and it goes; but not where something else needs it."""
    text = "f (float[1] x) => (float[1] y{}) {{ e = Expand(c, n)  s = ReduceSum<keepdims = 0>(e)  y = Add(x, s) {} }}"
    constants = {"c": np.float32(1), "n": np.array([1000])}
    assert operators(fold(network(text.format("", ""), **constants), limit=4_000)) == ["Add"]
    both = network(text.format(", float[1000] z", " z = Mul(x, e) "), **constants)
    folded = fold(both, limit=4_000)
    assert operators(folded) == ["Add", "Mul"]
    assert check(both, folded, {"x": normal(1)}).identical


def test_a_constant_output_keeps_a_node() -> None:
    net = network("f (float[2] x) => (float[2] y, float[2] z) { y = Relu(x)  z = Neg(c) }", c=normal(2))
    folded = fold(net)
    assert sorted(operators(folded)) == ["Constant", "Relu"]
    assert check(net, folded, {"x": normal(2)}).identical


def test_fixed_shapes() -> None:
    net = network(
        "f (float[2,3,N] x) => (int64[2] a, int64[3] b) { y = Reshape(x, n)  a = Shape<end = 2>(y)  b = Shape(x) }",
        n=np.array([6, -1]),
    )
    net = net.with_sizes({"N": 4})
    folded = fold(net)
    assert operators(folded) == ["Constant", "Constant"]
    assert run(folded, {"x": normal(2, 3, 4)})["a"].tolist() == [6, 4]


def test_inputs_with_a_default_are_no_constants() -> None:
    net = network("f (float[2] x, float[2] w) => (float[2] y) { t = Neg(w)  y = Add(x, t) }", w=normal(2))
    assert operators(fold(net)) == ["Neg", "Add"]


def test_graphs_inside_use_what_was_folded() -> None:
    text = """f (bool c, float[2] x) => (float[2] y) { k = Neg(w)
        y = If(c) <then_branch = a () => (float[2] p) { p = Add(x, k) },
                   else_branch = b () => (float[2] q) { q = Mul(x, k) }> }"""
    net = network(text, w=normal(2))
    folded = fold(net)
    assert operators(folded) == ["If"]
    for condition in (True, False):
        assert check(net, folded, {"c": np.array(condition), "x": normal(2)}).identical


def test_a_negative_limit() -> None:
    with pytest.raises(InvalidArgument, match="-1 bytes"):
        fold(network("f (float[2] x) => (float[2] y) { y = Relu(x) }"), limit=-1)
