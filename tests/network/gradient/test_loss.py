"""Gradients of the losses of classification."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from tests.network.gradient.checks import alone, check
from tests.network.gradient.texts import check_second, gradients_of

LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
REDUCTIONS = ("none", "sum", "mean")
RNG = np.random.default_rng(5)
HEAD = '<ir_version: 10, opset_import: ["": 22]> g'


def text(
    loss: str,
    reduction: str,
    *,
    kind: str = "double[n,c,d]",
    weight: bool = True,
    ignore: int | None = -1,
    both: bool = False,
) -> str:
    inputs = f"{kind} x, int64 t" + (", double[c] w" if weight else "")
    target = kind.replace("double", "int64").replace(",c", "")
    inputs = inputs.replace("int64 t", f"{target} t")
    ignored = "" if ignore is None else f", ignore_index = {ignore}"
    outputs = "y, p" if both else "y"
    declared = "double y, double p" if both else "double y"
    call = f'{loss}<reduction = "{reduction}"{ignored}>(x, t{", w" if weight else ""})'
    return f"{HEAD} ({inputs}) => ({declared}) {{ {outputs} = {call} }}"


X = RNG.normal(size=(3, 4, 2))
T = np.array([[0, 3], [-1, 2], [2, 2]])
W = np.array([0.5, 2, 1, 0.25])


@pytest.mark.parametrize("operator", LOSSES)
def test_cases(operator: str) -> None:
    for outcome in alone(operator):
        assert outcome.word in ("right", "kink"), outcome


@pytest.mark.parametrize(("loss", "reduction"), list(itertools.product(LOSSES, REDUCTIONS)))
def test_weights_and_ignored_targets(loss: str, reduction: str) -> None:
    assert check(text(loss, reduction), x=X, t=T, w=W) == "right"
    assert check(text(loss, reduction, weight=False), x=X, t=T) == "right"
    assert check(text(loss, reduction, ignore=2), x=X, t=np.abs(T), w=W) == "right"
    assert check(text(loss, reduction, ignore=None), x=X, t=np.abs(T), w=W) == "right"
    assert check(text(loss, reduction, weight=False, ignore=None), x=X, t=np.abs(T)) == "right"
    flat = text(loss, reduction, kind="double[n,c]", weight=False, ignore=None)
    assert check(flat, x=X[:, :, 0], t=np.abs(T[:, 0])) == "right"


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_log_probabilities_and_second_derivatives(reduction: str) -> None:
    assert check(text(LOSSES[1], reduction, both=True), x=X, t=T, w=W) == "right"
    assert check_second(text(LOSSES[1], reduction), x=X, t=T, w=W) == "right"


def test_unlikely_classes() -> None:
    network = f"{HEAD} (float[1,3] x, int64[1] t) => (float loss) {{ loss = SoftmaxCrossEntropyLoss(x, t) }}"
    found = gradients_of(network, x=np.array([[0, 500, -np.inf]], np.float32), t=np.array([0]))["x"]
    np.testing.assert_allclose(found, [[-1, 1, 0]])


@settings(max_examples=12, deadline=None)
@given(array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=3), st.sampled_from(LOSSES), st.sampled_from(REDUCTIONS))
def test_drawn_shapes(shape: tuple[int, ...], loss: str, reduction: str) -> None:
    rng = np.random.default_rng(0)
    kind = f"double[n,c{''.join(f',d{i}' for i in range(len(shape) - 2))}]"
    t = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    found = check(
        text(loss, reduction, kind=kind, ignore=None), x=rng.normal(size=shape), t=t, w=rng.uniform(1, 2, shape[1])
    )
    assert found == "right"
