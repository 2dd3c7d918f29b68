"""The check finds what is not equivalent, and accepts what is."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import DeepBenchError
from deep_bench.network.gradient.tape import Symbol, Tape
from deep_bench.network.transform import Match, check, precision, replace
from tests.network.transform.texts import digits, network, normal


def test_itself_is_identical() -> None:
    net, image = digits()
    found = check(net, net.copy(), image)
    assert found.ok
    assert found.identical


def test_other_order_of_a_sum_is_rounding() -> None:
    before = network("f (float[4,64] x) => (float[4] y) { y = ReduceSum<keepdims = 0>(x, a) }", a=np.array([1]))
    text = "f (float[4,64] x) => (float[4] y) { z = MatMul(x, one)  y = Squeeze(z, a) }"
    found = check(before, network(text, a=np.array([1]), one=np.ones((64, 1), np.float32)), {"x": normal(4, 64)})
    assert found.word == "right"


@pytest.mark.parametrize("factor", [1.001, 1.00003])
def test_a_small_factor_is_wrong(factor: float) -> None:
    net, image = digits()
    changed = replace(net, "Relu(Add(x, y))", lambda tape, found: tape.Relu((found["x"] + found["y"]) * factor))
    found = check(net, changed, image)
    assert found.word == "wrong"
    assert "in float64 as well" in found.reason


def test_wrong_integers_are_wrong() -> None:
    before = network("f (float[4,5] x) => (int64[4] y) { y = ArgMax<axis = 1, keepdims = 0>(x) }")
    after = network("f (float[4,5] x) => (int64[4] y) { y = ArgMin<axis = 1, keepdims = 0>(x) }")
    assert check(before, after, {"x": normal(4, 5)}).word == "wrong"


def test_a_wrong_shape_is_wrong() -> None:
    before = network("f (float[4,5] x) => (float[4,5] y) { y = Relu(x) }")
    after = network("f (float[4,5] x) => (float[20] y) { r = Relu(x)  y = Reshape(r, s) }", s=np.array([20]))
    assert check(before, after, {"x": normal(4, 5)}).word == "wrong"


def test_other_outputs_are_refused() -> None:
    before = network("f (float[4] x) => (float[4] y) { y = Relu(x) }")
    after = network("f (float[4] x) => (float[4] z) { z = Relu(x) }")
    with pytest.raises(DeepBenchError, match="named 'z'"):
        check(before, after, {"x": normal(4)})


def test_random_numbers_are_not_compared() -> None:
    net = network("f (float[4] x) => (float[4] y) { r = RandomNormalLike(x)  y = Add(x, r) }")
    assert check(net, net.copy(), {"x": normal(4)}).word == "cannot tell"


def test_a_fault_beside_a_change_of_precision_is_found() -> None:
    net, image = digits()
    half = precision(net, "float16")
    assert check(net, half, image).ok
    broken = replace(half, "Relu(Add(x, y))", lambda tape, found: tape.Relu((found["x"] + found["y"]) * 1.1))
    assert check(net, broken, image).word == "wrong"


def test_overflow_in_float16_is_no_rounding() -> None:
    net = network("f (float[4,4] x) => (float[4,4] y) { z = Mul(x, x)  y = Div(z, c) }", c=np.float32(1000))
    found = check(net, precision(net, "float16"), {"x": np.full((4, 4), 1000, np.float32)})
    assert found.word == "reduced precision"


def test_too_coarse_a_format_is_not_right() -> None:
    """The changed network claims float16, but its values went through a grid of eighths."""
    net, image = digits()
    half = precision(net, "float16")

    def coarse(tape: Tape, found: Match) -> Symbol:
        return tape.Relu(tape.Round((found["x"] + found["y"]) * 8.0) / 8.0)

    assert not check(net, replace(half, "Relu(Add(x, y))", coarse), image).ok


def test_sequences_are_compared_bit_by_bit_only() -> None:
    text = "f (float[4,6] x) => (seq(float[4,3]) y) {{ a = {}(x)  y = SplitToSequence<axis = 1>(a, s) }}"
    net, other = (network(text.format(name), s=np.array(3)) for name in ("Relu", "Neg"))
    x = {"x": normal(4, 6)}
    assert check(net, net.copy(), x).identical
    found = check(net, other, x)
    assert not found.identical
    assert found.word == "cannot tell"


def test_too_few_bits_are_the_fault_of_the_format() -> None:
    """The difference of two numbers near 4000, which float16 holds to two units."""
    net = network("f (float[64] x) => (float[64] y) { z = Add(x, c)  y = Sub(z, c) }", c=np.float32(4000))
    x = {"x": normal(64)}
    assert check(net, net.copy(), x).ok
    found = check(net, precision(net, "float16"), x)
    assert found.word == "reduced precision"
    assert "not so in the network's own formats" in found.reason


@pytest.mark.parametrize(
    ("x", "nothing"), [(np.full((2, 3), np.nan, np.float32), "without a finite element"), (normal(0, 3), "empty")]
)
@pytest.mark.parametrize("body", ["y = Relu(x)", "z = Add(x, x)  y = Relu(z)"])
def test_outputs_that_tell_nothing_are_not_right(x: np.ndarray, nothing: str, body: str) -> None:
    before = network("f (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    after = network(f"f (float[N,3] x) => (float[N,3] y) {{ {body} }}")
    found = check(before, after, {"x": x})
    assert (found.word, found.ok) == ("no information", False)
    assert found.reason == f"the outputs are {nothing}, so there is nothing to compare"
    assert np.isnan(found.bits)
    assert check(before, after, {"x": normal(2, 3)}).ok == (body == "y = Relu(x)")


def test_a_number_where_nan_is_expected_stays_wrong() -> None:
    before = network("f (float[3] x) => (float[3] y) { y = Relu(x) }")
    after = network("f (float[3] x) => (float[3] y) { z = IsNaN(x)  y = Where(z, zero, x) }", zero=np.zeros(3, np.float32))
    assert check(before, after, {"x": np.full(3, np.nan, np.float32)}).word == "wrong"


def test_one_output_that_tells_something_is_enough() -> None:
    net = network("f (float[3] x, float[0] e) => (float[3] y, float[0] z) { y = Relu(x)  z = Relu(e) }")
    assert check(net, net.copy(), {"x": normal(3), "e": normal(0)}).ok
