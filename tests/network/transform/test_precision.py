"""Networks in float16 and bfloat16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.network.transform import beyond_range, check, precision
from tests.network.transform.texts import digits, network, normal, operators, run

FORMATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("keep", [(), ("Gemm",), ("*norm*", "Add")])
def test_digits(to: str, keep: tuple[str, ...]) -> None:
    net, image = digits()
    keep = tuple(k for k in keep if k != "*norm*" or any("norm" in n.name for n in net.nodes))
    low = precision(net, to, keep=keep)
    assert (low.inputs, low.outputs) == (net.inputs, net.outputs)
    assert all(a.dtype == FORMATS[to] for n, a in low.initializers.items() if n.endswith(to))
    found = check(net, low, image)
    assert found.word == "right"
    assert found.formats == (to,)


def test_casts_only_at_the_borders() -> None:
    net, _ = digits()
    assert operators(precision(net)).count("Cast") == 2
    assert [n.op_type for n in precision(net).nodes if n.op_type != "Cast"] == operators(net)


def test_kept_nodes_compute_in_float32() -> None:
    net, _ = digits()
    low = precision(net, keep=["MaxPool"])
    pool = next(n for n in low.nodes if n.op_type == "MaxPool")
    assert pool.inputs[0].producer().op_type == "Cast"
    assert pool.inputs[0].name.endswith(".float32")


def test_borders_change_on_request() -> None:
    net, image = digits()
    low = precision(net, borders=True)
    assert {s.dtype for s in (*low.inputs, *low.outputs)} == {np.dtype(np.float16)}
    assert "Cast" not in operators(low)
    found = check(net, low, image, through=lambda call, x: call({n: a.astype(np.float16) for n, a in x.items()}))
    assert found.word == "right"


def test_borders_of_kept_nodes() -> None:
    net = network("f (float[4] x) => (float[4] y, int64[1] n) { y = Exp(x)  n = Shape(y) }")
    low = precision(net, borders=True, keep=["Exp"])
    assert [str(s.dtype) for s in (*low.inputs, *low.outputs)] == ["float16", "float16", "int64"]
    assert run(low, {"x": normal(4).astype(np.float16)})["y"].dtype == np.float16


def test_overflow_is_refused_kept_or_saturated() -> None:
    net = network(
        "f (float[2,3] x) => (float[2,3] y) { z = Add(x, mask)  y = Softmax(z) }",
        mask=np.array([[0, 0, -3e38], [0, -3e38, 0]], np.float32),
    )
    x = {"x": normal(2, 3)}
    assert beyond_range(net) == {"mask": "2 of 6 elements overflow"}
    assert beyond_range(net, "bfloat16") == {}
    with pytest.raises(
        InvalidArgument, match=r"2 of 6 elements of the constant 'mask' of node .* overflow in float16: up to 3e"
    ):
        precision(net)
    kept = precision(net, overflow="keep")
    assert operators(kept) == ["Add", "Cast", "Softmax", "Cast"]
    assert check(net, kept, x).ok
    saturated = precision(net, overflow="saturate")
    assert saturated.initializers["mask.float16"].min() == -65504
    assert check(net, saturated, x).ok


def test_what_vanishes_is_told() -> None:
    net = network("f (float[2] x) => (float[2] y) { y = Add(x, w) }", w=np.array([1e-9, 1], np.float32))
    assert beyond_range(net) == {"w": "1 of 2 elements vanish"}


def test_a_constant_for_both_formats() -> None:
    net = network("f (float[4] x) => (float[4] y) { a = Exp(x)  b = Mul(a, w)  y = Add(b, w) }", w=normal(4))
    low = precision(net, keep=["Add"])
    assert {n: str(a.dtype) for n, a in low.initializers.items()} == {"w": "float32", "w.float16": "float16"}
    assert check(net, low, {"x": normal(4)}).ok


def test_shapes_and_integers_are_left_alone() -> None:
    net = network(
        'f (float[1,1,4,4] x) => (float y, int64[4] n) { y = Resize<mode = "nearest">(x, , scales)  n = Shape(y) }',
        scales=np.array([1, 1, 2, 2], np.float32),
    )
    low = precision(net)
    assert low.initializers["scales"].dtype == np.float32
    assert check(net, low, {"x": normal(1, 1, 4, 4)}).ok


def test_graphs_inside_stay_in_float32() -> None:
    text = """f (bool c, float[2] x) => (float[2] y) { k = Neg(x)
        z = If(c) <then_branch = a () => (float[2] p) { p = Add(x, k) }, else_branch = b () => (float[2] q) { q = Exp(k) }>
        y = Relu(z) }"""
    net = network(text)
    low = precision(net)
    for condition in (True, False):
        assert check(net, low, {"c": np.array(condition), "x": normal(2)}).ok


def test_types_of_its_own_stay() -> None:
    net = network("f (float16[4] x) => (float[4] y) { h = Neg(x)  w = Cast<to = 1>(h)  y = Exp(w) }")
    low = precision(net, keep=["Exp"])
    assert operators(low) == operators(net)


@pytest.mark.parametrize("wrong", [{"to": "float8"}, {"keep": ["Sin"]}, {"overflow": "ignore"}])
def test_bad_requests(wrong: dict) -> None:
    with pytest.raises(InvalidArgument):
        precision(digits()[0], **wrong)
