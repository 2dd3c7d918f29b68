"""What `differentiate` makes of a network, whatever its operators."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, UnsupportedOperator
from deep_bench.network import differentiate, gradient_name
from tests.network.gradient.checks import check

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
X = np.array([0.3, -1.2, 2.0])


def network(text: str) -> db.Network:
    return db.Network.from_proto(onnx.parser.parse_model(HEAD + text))


def run(changed: db.Network, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return db.frameworks["reference"]().prepare(changed)(inputs)


def test_outputs_stay_and_gradients_follow_in_order() -> None:
    both = network(
        "(double[3] x, double[3] z) => (double[3] y, double loss) { y = Mul(x, z)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    derived = differentiate(both, wrt=["z", "x"])
    assert [spec.name for spec in derived.outputs] == ["y", "loss", "d(loss)/d(z)", "d(loss)/d(x)"]
    assert str(derived.outputs[2]) == "d(loss)/d(z): float64[3]"
    found = run(derived, x=X, z=X + 1)
    np.testing.assert_array_equal(found["d(loss)/d(z)"], X)
    np.testing.assert_array_equal(found["d(loss)/d(x)"], X + 1)


def test_a_value_used_twice_gets_the_sum() -> None:
    assert (
        check(HEAD + "(double[3] x) => (double[3] y) { a = Exp(x)  b = Mul(a, a)  c = Mul(b, x)  y = Add(c, a) }", x=X)
        == "right"
    )


def test_by_default_the_parameters_else_the_inputs() -> None:
    weighted = network(
        "(double[3] x) => (double loss) <double[3] w = {1, 2, 3}> { y = Mul(x, w)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    assert [spec.name for spec in differentiate(weighted).outputs] == ["loss", "d(loss)/d(w)"]
    plain = network("(double[3] x, int64[1] k) => (double loss) { loss = ReduceSum<keepdims = 0>(x, k) }")
    assert [spec.name for spec in differentiate(plain).outputs] == ["loss", "d(loss)/d(x)"]


def test_values_between_can_be_asked_for_too() -> None:
    chain = network("(double[3] x) => (double loss) { y = Exp(x)  z = Mul(y, y)  loss = ReduceSum<keepdims = 0>(z) }")
    found = run(differentiate(chain, wrt=["y", "x"]), x=X)
    np.testing.assert_allclose(found["d(loss)/d(y)"], 2 * np.exp(X))
    np.testing.assert_allclose(found["d(loss)/d(x)"], 2 * np.exp(2 * X))


def test_what_the_loss_does_not_depend_on_has_the_gradient_zero() -> None:
    apart = network(
        "(double[3] x, float[n] z) => (double loss, float[n] y) { loss = ReduceSum<keepdims = 0>(x)  y = Exp(z) }"
    )
    found = run(differentiate(apart, wrt=["x", "z"]), x=X, z=np.ones(2, np.float32))
    np.testing.assert_array_equal(found["d(loss)/d(z)"], np.zeros(2, np.float32))
    steps = network("(double[3] x) => (double loss) { y = Floor(x)  loss = ReduceSum<keepdims = 0>(y) }")
    np.testing.assert_array_equal(run(differentiate(steps), x=X)["d(loss)/d(x)"], np.zeros(3))


def test_gradients_of_gradients() -> None:
    cube = network("(double[3] x) => (double loss) { y = Mul(x, x)  z = Mul(y, x)  loss = ReduceSum<keepdims = 0>(z) }")
    once = differentiate(cube).with_loss("Sum", output=gradient_name("loss", "x"), name="total")
    found = run(differentiate(once, "total"), x=X)
    np.testing.assert_allclose(found["d(loss)/d(x)"], 3 * X**2)
    np.testing.assert_allclose(found["d(total)/d(x)"], 6 * X)


def test_open_dimensions_stay_open() -> None:
    text = HEAD + "(double[n,m] x, double[k] z) => (double[n,m] y) { y = Mul(x, z) }"
    for columns in (1, 4):
        assert check(text, x=np.ones((2, 4)), z=np.arange(columns) + 1.0) == "right"
    assert check(text, x=np.ones((0, 4)), z=np.arange(4.0)) == "right"


def test_unknown_ranks() -> None:
    text = HEAD + "(double[3] x, int64[r] s, double[2,3] z) => (double[a,b] y) { e = Expand(x, s)  y = Mul(e, z) }"
    assert check(text, x=X, s=np.array([2, 3]), z=np.ones((2, 3))) == "right"


def test_old_networks_are_upgraded_and_new_ones_stay() -> None:
    old = '<ir_version: 4, opset_import: ["" : 9]> g (float[3] x) => (float loss) { loss = ReduceSum<keepdims = 0>(x) }'
    assert differentiate(db.Network.from_proto(onnx.parser.parse_model(old))).opset == 21
    new = old.replace(": 9]", ": 28]")
    assert differentiate(db.Network.from_proto(onnx.parser.parse_model(new))).opset == 28


def test_the_network_itself_is_left_alone() -> None:
    square = network("(double[3] x) => (double loss) { y = Mul(x, x)  loss = ReduceSum<keepdims = 0>(y) }")
    before = square.to_proto().SerializeToString()
    differentiate(square)
    assert square.to_proto().SerializeToString() == before


def test_the_result_is_valid_onnx() -> None:
    derived = differentiate(db.load("digits-cnn").with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label"))
    onnx.checker.check_model(derived.to_proto(), full_check=True)


@pytest.mark.parametrize(
    ("loss", "wrt", "named"),
    [
        ("loss", ["x"], "no value 'loss'"),
        ("y", ["x"], "shape \\[3\\]"),
        ("total", ["w"], "no value 'w'"),
        ("total", ["k"], "int64"),
        ("count", ["x"], "int64"),
    ],
)
def test_what_cannot_be_differentiated_is_refused(loss: str, wrt: list[str], named: str) -> None:
    text = (
        "(double[3] x, int64[3] k) => (double total, int64 count) "
        "{ y = Exp(x)  total = ReduceSum<keepdims = 0>(y)  count = Size(k) }"
    )
    with pytest.raises(InvalidArgument, match=named):
        differentiate(network(text), loss, wrt)


def test_a_node_without_a_gradient_is_named() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "mine" : 1]> g (double[3] x) => (double loss) <double[3] y>'
        "{ [odd] y = mine.Odd(x)  loss = ReduceSum<keepdims = 0>(y) }"
    )
    with pytest.raises(UnsupportedOperator, match=r"node 'odd' \(mine:Odd, opset 21\).*no gradient"):
        differentiate(db.Network.from_proto(proto))


def test_names_are_not_taken_twice() -> None:
    square = network("(double[3] x) => (double loss) { y = Mul(x, x)  loss = ReduceSum<keepdims = 0>(y) }")
    with pytest.raises(InvalidArgument, match="already"):
        differentiate(differentiate(square))


@pytest.mark.parametrize(
    ("wrt", "came"),
    [
        (["x", "x"], "'x' is in wrt 2 times"),
        (["y", "x", "y", "y"], "'y' is in wrt 3 times"),
        ("x", "wrt='x', a string"),
        (["x", "label"], "the value 'label' is int64"),
        (["nothing"], "g has no value 'nothing'"),
    ],
)
def test_names_that_cannot_be_asked_for_are_refused(wrt: list[str] | str, came: str) -> None:
    text = "(double[3] x, int64 label) => (double loss, int64 l) {"
    plain = network(f"{text} y = Exp(x)  loss = ReduceSum<keepdims = 0>(y)  l = Identity(label) }}")
    with pytest.raises(InvalidArgument) as refused:
        differentiate(plain, wrt=wrt)
    assert refused.value.came == came


def test_of_no_values_there_are_no_gradients() -> None:
    plain = network("(double[3] x) => (double loss) { loss = ReduceSum<keepdims = 0>(x) }")
    assert [spec.name for spec in differentiate(plain, wrt=[]).outputs] == ["loss"]
