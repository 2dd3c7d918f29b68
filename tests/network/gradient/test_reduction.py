"""Gradients of reductions and running sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from tests.network.gradient.checks import alone, check
from tests.network.gradient.texts import check_second, gradients_of

REDUCTIONS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)
X = np.random.default_rng(3).permutation(np.linspace(0.3, 2, 24)).reshape(2, 3, 4)
HEAD = '<ir_version: 10, opset_import: ["": {}]> g'


def constant(operator: str, kind: str, axes: list[int] | None, keepdims: int, noop: int = 0) -> str:
    stated = f"<int64[{len(axes)}] axes = {{{', '.join(map(str, axes))}}}>" if axes is not None else ""
    call = f"{operator}<keepdims = {keepdims}, noop_with_empty_axes = {noop}>(x{', axes' if axes is not None else ''})"
    return f"{HEAD.format(21)} ({kind} x) => (double y) {stated} {{ y = {call} }}"


@pytest.mark.parametrize("operator", [*REDUCTIONS, "CumSum", "CumProd"])
def test_cases(operator: str) -> None:
    for outcome in alone(operator):
        assert outcome.word in ("right", "kink"), outcome


@pytest.mark.long
@pytest.mark.parametrize("operator", REDUCTIONS)
def test_axes(operator: str) -> None:
    for kind, (axes, keepdims) in itertools.product(
        ("double[2,3,4]", "double[a,3,b]"), [(None, 0), (None, 1), ([-1], 0), ([0, -2], 0), ([1], 1)]
    ):
        assert check(constant(operator, kind, axes, keepdims), x=X) == "right"
    assert check(constant(operator, "double", None, 0), x=X[0, 0, 0]) == "right"
    assert check(constant(operator, "double[2,3,4]", [], 0), x=X) == "right"
    assert check(constant(operator, "double[2,3,4]", [], 0, noop=1), x=X) == "right"
    assert check(constant(operator, "double[0,3]", [1], 0), x=X[:0, :, 0]) == "right"
    assert check_second(constant(operator, "double[2,3,4]", [1], 0), x=X) == "right"


@pytest.mark.long
@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize("noop", [0, 1])
def test_axes_known_only_in_the_run(operator: str, noop: int) -> None:
    for count, axes in (("k", [-1, 0]), ("k", []), ("2", [0, 2]), ("0", [])):
        text = (
            f"{HEAD.format(21)} (double[a,b,c] x, int64[{count}] axes) => (double y) "
            f"{{ y = {operator}<keepdims = 0, noop_with_empty_axes = {noop}>(x, axes) }}"
        )
        assert check(text, x=X, axes=np.array(axes, np.int64)) == "right"


def test_kinks_and_zeros() -> None:
    text = f"{HEAD.format(21)} (double[3] x) => (double loss) {{ loss = %s<keepdims = 0>(x) }}"
    assert gradients_of(text % "ReduceMax", x=np.array([2.0, 1, 2]))["x"].tolist() == [0.5, 0, 0.5]
    assert gradients_of(text % "ReduceMin", x=np.array([2.0, 1, 1]))["x"].tolist() == [0, 0.5, 0.5]
    assert gradients_of(text % "ReduceL1", x=np.array([0.0, -2, 1]))["x"].tolist() == [0, -1, 1]
    assert gradients_of(text % "ReduceL2", x=np.zeros(3))["x"].tolist() == [0, 0, 0]
    assert gradients_of(text % "ReduceProd", x=np.array([0.0, 3, 2]))["x"].tolist() == [6, 0, 0]
    assert gradients_of(text % "ReduceProd", x=np.array([0.0, 3, 0]))["x"].tolist() == [0, 0, 0]
    found = gradients_of(text % "ReduceLogSumExp", x=np.array([-np.inf, 0, 1000]))["x"]
    assert found.tolist() == [0, 0, 1]


def running(operator: str, axis: int, exclusive: int, reverse: int, kind: str = "double[a,b]") -> str:
    opset = 26 if operator == "CumProd" else 21
    return (
        f"{HEAD.format(opset)} ({kind} x) => (double y) <int64 axis = {{{axis}}}> "
        f"{{ y = {operator}<exclusive = {exclusive}, reverse = {reverse}>(x, axis) }}"
    )


@pytest.mark.parametrize(("exclusive", "reverse"), list(itertools.product((0, 1), (0, 1))))
def test_running(exclusive: int, reverse: int) -> None:
    for operator, axis in itertools.product(("CumSum", "CumProd"), (0, -1)):
        assert check(running(operator, axis, exclusive, reverse), x=X[0]) == "right"
        assert check_second(running(operator, axis, exclusive, reverse), x=X[0]) == "right"
    zeros = np.array([[2, 0, 3, 0.5], [0, 4, 0, 5], [2, 3, 4, 0], [0, 0, 1, 2]])
    assert check(running("CumProd", 1, exclusive, reverse), x=zeros) == "right"


@settings(max_examples=15, deadline=None)
@given(st.data(), array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=3), st.sampled_from(REDUCTIONS))
def test_drawn_shapes(data, shape: tuple[int, ...], operator: str) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2, shape)
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    known = data.draw(st.booleans())
    kind = f"double[{','.join(str(d) if known else f'd{i}' for i, d in enumerate(shape))}]"
    settings_drawn = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    assert check(constant(operator, kind, axes, *settings_drawn), x=x) == "right"
