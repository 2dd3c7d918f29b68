"""Gradients of activations and the softmax family."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from tests.network.gradient.checks import alone, check
from tests.network.gradient.texts import check_second, gradients_of

X = np.array([[-4.3, -0.7, -0.2], [0.3, 0.9, 3.4]])
HEAD = '<ir_version: 10, opset_import: ["": {}]> g'
PLAIN = (
    "Celu",
    "Celu<alpha = 2.5>",
    "Elu",
    "Elu<alpha = 2.5>",
    "Elu<alpha = -0.5>",
    "Gelu",
    'Gelu<approximate = "tanh">',
    "HardSigmoid",
    "HardSigmoid<alpha = -0.3, beta = 0.1>",
    "HardSwish",
    "LeakyRelu",
    "LeakyRelu<alpha = 1.5>",
    "LeakyRelu<alpha = -0.5>",
    "LogSoftmax",
    "LogSoftmax<axis = 0>",
    "Mish",
    "Relu",
    "Selu",
    "Selu<alpha = 0.5, gamma = 3.0>",
    "Shrink",
    "Shrink<bias = 1.5, lambd = 1.0>",
    "Sigmoid",
    "Softmax",
    "Softmax<axis = -2>",
    "Softplus",
    "Softsign",
    "Swish",
    "Swish<alpha = -1.7>",
    "ThresholdedRelu",
    "ThresholdedRelu<alpha = -1.0>",
)


def text(operator: str, kind: str = "double[2,3]", result: str = "double") -> str:
    opset = 24 if operator.startswith("Swish") else 22
    return f"{HEAD.format(opset)} ({kind} x) => ({result} y) {{ y = {operator}(x) }}"


@pytest.mark.parametrize("operator", sorted({name.split("<")[0] for name in (*PLAIN, "Hardmax", "PRelu", "SwiGLU")}))
def test_cases(operator: str) -> None:
    for outcome in alone(operator):
        assert outcome.word in ("right", "kink"), outcome


@pytest.mark.parametrize("operator", PLAIN)
def test_activation(operator: str) -> None:
    assert check(text(operator), x=X) == "right"
    assert check(text(operator, "double[batch,3]"), x=X) == "right"
    assert check(text(operator, "double[0,3]"), x=X[:0]) == "right"
    assert check_second(text(operator), x=X) == "right"
    if "oftmax" not in operator:
        assert check(text(operator, "double"), x=X[0, 1]) == "right"


@pytest.mark.parametrize("slope", [np.array(0.2), np.array([0.2, -0.5, 1.5]), np.array([[0.2], [3.0]])])
def test_slopes_of_prelu(slope: np.ndarray) -> None:
    dims = ",".join(map(str, slope.shape))
    kind = f"double[{dims}]" if dims else "double"
    network = f"{HEAD.format(21)} (double[n,3] x, {kind} slope) => (double y) {{ y = PRelu(x, slope) }}"
    assert check(network, x=X, slope=slope) == "right"
    assert check_second(network, x=X, slope=slope) == "right"


def test_swiglu() -> None:
    network = f"{HEAD.format(28)} (double[2,3] a, double[2,3] b) => (double y) {{ y = SwiGLU<alpha = 1.5>(a, b) }}"
    assert check(network, a=X, b=X[::-1]) == "right"
    assert check_second(network, a=X, b=X[::-1]) == "right"


def summed(operator: str, kind: str) -> str:
    opset = 24 if operator.startswith("Swish") else 22
    return f"{HEAD.format(opset)} ({kind}[n] x) => ({kind} loss) {{ y = {operator}(x) loss = ReduceSum<keepdims = 0>(y) }}"


def test_kinks_as_in_pytorch() -> None:
    assert gradients_of(summed("Relu", "float"), x=np.zeros(1, np.float32))["x"] == 0
    assert gradients_of(summed("LeakyRelu<alpha = 0.25>", "float"), x=np.zeros(1, np.float32))["x"] == 0.25
    ends = gradients_of(summed("HardSwish", "float"), x=np.array([-3.5, -3, 3, 3.5], np.float32))["x"]
    np.testing.assert_allclose(ends, [0, -0.5, 1.5, 1], rtol=1e-6)
    assert gradients_of(summed("HardSigmoid", "float"), x=np.array([-2.5, 2.5], np.float32))["x"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "operator", ["Gelu", 'Gelu<approximate = "tanh">', "Mish", "Swish", "Softplus", "Selu", "Celu", "Elu"]
)
@pytest.mark.parametrize("kind", ["float", "float16"])
def test_far_from_0(operator: str, kind: str) -> None:
    dtype = np.float32 if kind == "float" else np.float16
    far = np.finfo(dtype).max / 8
    found = gradients_of(summed(operator, kind), x=np.array([-far, far], dtype))["x"]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, [0, 1.0507 if operator == "Selu" else 1], rtol=2e-3)


def test_masked_scores() -> None:
    network = (
        f"{HEAD.format(21)} (float[2,3] x, float[2,3] w) => (float loss) "
        "{ y = Softmax(x) z = Mul(y, w) loss = ReduceSum<keepdims = 0>(z) }"
    )
    x = np.array([[0, -np.inf, 1], [-np.inf, 0, -np.inf]], np.float32)
    found = gradients_of(network, x=x, w=np.arange(6, dtype=np.float32).reshape(2, 3))["x"]
    p = 1 / (1 + np.e)
    np.testing.assert_allclose(found, [[-2 * p * (1 - p), 0, 2 * p * (1 - p)], [0, 0, 0]], rtol=1e-5)


@settings(max_examples=15, deadline=None)
@given(array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3), st.sampled_from(PLAIN), st.booleans())
def test_drawn_shapes(shape: tuple[int, ...], operator: str, known: bool) -> None:
    if "axis" in operator and len(shape) < 2:
        shape = (2, *shape)
    dims = ",".join(str(d) if known else f"d{i}" for i, d in enumerate(shape))
    x = np.random.default_rng(0).uniform(-4, 4, shape)
    assert check(text(operator, f"double[{dims}]"), x=x) in ("right", "kink")
