"""Gradients of arithmetic on each element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from deep_bench.network.gradient import backward
from deep_bench.network.gradient.rules import find
from tests.network.gradient.checks import alone, check
from tests.network.gradient.texts import check_second, gradients_of

X = np.array([[-2.3, -0.7, -0.2], [0.3, 0.9, 2.4]])
POSITIVE = np.abs(X) + 0.1
UNARY = {
    **dict.fromkeys("Abs Atan Asinh Cos Cosh Erf Exp Identity Neg Reciprocal Sin Sinh Tan Tanh".split(), X),  # noqa: SIM905
    **dict.fromkeys(("Acos", "Asin", "Atanh"), X / 3),
    **dict.fromkeys(("Log", "Sqrt"), POSITIVE),
    "Acosh": POSITIVE + 1,
}
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum", "Mod<fmod = 1>")
UNRESOLVED = {
    "Mul/8": "0 times an infinite input",
    "Tan/5": "the gradient is beyond float16",
    "Mod/0": "a dividend of 1e-255 and a divisor of 1e-55: differences step over many quotients",
}
HEAD = '<ir_version: 10, opset_import: ["": 21]> g'


def unary(operator: str, kind: str = "double[2,3]") -> str:
    return f"{HEAD} ({kind} x) => (double y) {{ y = {operator}(x) }}"


def binary(operator: str, a: str = "double[2,3]", b: str = "double[3]") -> str:
    return f"{HEAD} ({a} a, {b} b) => (double y) {{ y = {operator}(a, b) }}"


@pytest.mark.parametrize("operator", [*UNARY, *(name.split("<")[0] for name in BINARY), "Clip", "Where"])
def test_cases(operator: str) -> None:
    for outcome in alone(operator):
        assert outcome.word in ("right", "kink") or outcome.case in UNRESOLVED, outcome


@pytest.mark.parametrize("operator", UNARY)
def test_unary(operator: str) -> None:
    x = UNARY[operator]
    assert check(unary(operator), x=x) == "right"
    assert check(unary(operator, "double[batch,3]"), x=x) == "right"
    assert check(unary(operator, "double"), x=x[1, 1]) == "right"
    assert check(unary(operator, "double[0,3]"), x=x[:0]) == "right"
    assert check_second(unary(operator), x=x) == "right"


@pytest.mark.parametrize("operator", BINARY)
def test_binary(operator: str) -> None:
    b = np.array([0.7, -1.3, 1.9])
    assert check(binary(operator), a=POSITIVE, b=b) == "right"
    assert (
        check(binary(operator, "double[n,m]", "double[k,n,1]"), a=POSITIVE, b=b[:2, None] + np.zeros((3, 2, 1))) == "right"
    )
    assert check(binary(operator, "double", "double[1,3]"), a=POSITIVE[1, 2], b=b[None]) == "right"
    assert check(binary(operator, "double[0]", "double[1]"), a=b[:0], b=b[:1]) == "right"
    assert check_second(binary(operator), a=POSITIVE, b=b) == "right"


def test_wrong_second_derivatives_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong rule for ``Cos`` leaves the first derivative of a sine right."""
    monkeypatch.setattr(backward, "find", lambda domain, name: find(domain, "Identity" if name == "Cos" else name))
    assert check(unary("Sin"), x=X) == "right"
    assert check_second(unary("Sin"), x=X).startswith("wrong")


@pytest.mark.parametrize("exponent", [-2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 4])
def test_power_of_a_known_number(exponent: float) -> None:
    text = f"{HEAD} (double[2,3] x) => (double y) <double e = {{{float(exponent)}}}> {{ y = Pow(x, e) }}"
    assert check(text, x=POSITIVE) == "right"
    assert check_second(text, x=POSITIVE) == "right"
    if exponent == int(exponent):
        assert check(text, x=X) == "right"
    if exponent >= 0:
        found = gradients_of(weighted("Pow(x, e)", extra=f"double e = {{{float(exponent)}}}"), x=np.zeros(1), w=np.zeros(1))
        assert found["x"] == 0


def test_power_of_integers_and_negative_bases() -> None:
    text = f"{HEAD} (double[2,3] x, int64[3] e) => (double y) {{ y = Pow(x, e) }}"
    assert check(text, x=X, e=np.array([2, 3, -1])) == "right"
    # The exponent's own gradient where the base is 0 or negative is 0 by convention, and never NaN.
    found = gradients_of(weighted("Pow(x, e)", ", double[3] e"), x=np.array([0.0, -2, 2]), w=np.ones(3), e=np.full(3, 2.0))
    np.testing.assert_allclose(found["e"], [0, 0, 4 * np.log(2)])
    np.testing.assert_allclose(found["x"], [0, -4, 4])
    found = gradients_of(weighted("Pow(x, e)", ", double[1] e"), x=np.zeros(1), w=np.ones(1), e=np.zeros(1))
    assert found["x"] == 0


def weighted(expression: str, inputs: str = "", extra: str = "") -> str:
    return (
        f"{HEAD} (double[n] x, double[n] w{inputs}) => (double loss) <{extra}> "
        f"{{ y = {expression} z = Mul(y, w) loss = ReduceSum<keepdims = 0>(z) }}"
    )


@pytest.mark.parametrize(
    ("expression", "traps"),
    [
        ("Log(x)", [0, -1]),
        ("Sqrt(x)", [0, -1]),
        ("Reciprocal(x)", [0, -0.0]),
        ("Exp(x)", [1000]),
        ("Sinh(x)", [-1000]),
        ("Asin(x)", [1, -2]),
        ("Acosh(x)", [1, 0]),
        ("Atanh(x)", [1, -2]),
        ("Div(w, x)", [0]),
    ],
)
def test_what_is_not_taken_is_no_trap(expression: str, traps: list[float]) -> None:
    text = (
        f"{HEAD} (double[n] x, double[n] w, bool[n] c) => (double loss) "
        f"{{ y = {expression} z = Where(c, y, w) loss = ReduceSum<keepdims = 0>(z) }}"
    )
    x = np.array([*traps, 1.5 if expression == "Acosh(x)" else 0.5], np.float64)
    chosen = np.arange(len(x)) == len(traps)
    with np.errstate(all="ignore"):
        found = gradients_of(text, x=x, w=np.ones(len(x)), c=chosen)
    assert np.all(found["x"][:-1] == 0)
    assert np.isfinite(found["x"]).all()
    assert found["x"][-1] != 0


def test_ties_are_shared() -> None:
    text = f"{HEAD} (double[1] a, double[1] b, double[1] c) => (double[1] loss) {{ loss = Max(a, b, c) }}"
    found = gradients_of(text, a=np.ones(1), b=np.zeros(1), c=np.ones(1))
    assert (found["a"], found["b"], found["c"]) == (0.5, 0, 0.5)
    text = f"{HEAD} (double[1] a, double[1] b) => (double[1] loss) {{ loss = Min(a, b) }}"
    found = gradients_of(text, a=np.ones(1), b=np.ones(1))
    assert (found["a"], found["b"]) == (0.5, 0.5)


def test_clip() -> None:
    text = f"{HEAD} (double[2,3] x, double low, double high) => (double y) {{ y = Clip(x, low, high) }}"
    assert check(text, x=X, low=np.float64(-1), high=np.float64(1)) == "right"
    assert check(text, x=X, low=np.float64(1), high=np.float64(-1)) == "right"
    for bounds in ("x, low", 'x, "", low'):
        text = f"{HEAD} (double[2,3] x, double low) => (double y) {{ y = Clip({bounds}) }}"
        assert check(text, x=X, low=np.float64(0.4)) == "right"
    text = (
        f"{HEAD} (double[3] x) => (double loss) <double b = {{1}}> {{ y = Clip(x, b, b) loss = ReduceSum<keepdims = 0>(y) }}"
    )
    assert gradients_of(text, x=np.array([0.0, 1, 2]))["x"].tolist() == [0, 1, 0]


def test_narrow_types_keep_theirs() -> None:
    text = f"{HEAD} (float16[3] x, float16 b) => (float16 loss) {{ y = Div(x, b) loss = ReduceSum<keepdims = 0>(y) }}"
    found = gradients_of(text, x=np.array([1, 2, 3], np.float16), b=np.float16(0.01))
    assert found["x"].dtype == found["b"].dtype == np.float16
    np.testing.assert_allclose(found["b"], -6e4, rtol=2**-9)


@settings(max_examples=15, deadline=None)
@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3, min_side=0), st.sampled_from(BINARY))
def test_drawn_shapes(drawn, operator: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.5, 2, shape) for shape in drawn.input_shapes)
    kinds = [f"double[{','.join(map(str, shape))}]" if shape else "double" for shape in drawn.input_shapes]
    assert check(binary(operator, *kinds), a=a, b=b) in ("right", "kink")
