"""Gradients of casts and of quantization, as steps and straight through them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_bench.errors import InvalidArgument
from tests.network.gradient.checks import alone, check
from tests.network.gradient.texts import gradients_of

UNRESOLVED = {"CastLike/7": "beside 1e29, which float8 would have cut off, differences in float64 lose small elements"}
HEAD = '<ir_version: 10, opset_import: ["": 21]> g'
X = np.array([[0.3, -0.26, 5, -7], [100, -100, 63.6, 63.8]], np.float32)
W = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
ROUND_TRIP = (
    HEAD + " (float[2,4] x, float s, float[2,4] w) => (float loss) <int8 z = {0}> "
    "{ q = QuantizeLinear(x, s, z) r = Identity(q) d = DequantizeLinear(r, s, z) m = Mul(d, w) "
    "loss = ReduceSum<keepdims = 0>(m) }"
)


@pytest.mark.parametrize("operator", ["Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"])
def test_cases(operator: str) -> None:
    for outcome in alone(operator):
        refused = outcome.word == "refused" and "no negative numbers" in outcome.detail  # inputs in float8e8m0
        assert outcome.word in ("right", "kink") or refused or outcome.case in UNRESOLVED, outcome


def test_quantization_is_steps() -> None:
    found = gradients_of(ROUND_TRIP, x=X, s=np.float32(0.5), w=W)
    assert not found["x"].any()
    assert found["s"] == np.sum(W * np.clip(np.rint(X / np.float32(0.5)), -128, 127))


def test_straight_through() -> None:
    """It passes where the rounded result is not saturated: 63.6 / 0.5 is rounded to 127, and 63.8 / 0.5 to 128."""
    scale = np.float32(0.5)
    found = gradients_of(ROUND_TRIP, straight_through=True, x=X, s=scale, w=W)
    np.testing.assert_array_equal(found["x"], [[1, 2, 3, 4], [0, 0, 7, 0]])
    inside = found["x"] != 0
    q = np.clip(np.rint(X / scale), -128, 127)
    np.testing.assert_allclose(found["s"], np.sum(W * np.where(inside, q - X / scale, q)), rtol=1e-5)


def test_casts_to_integers_are_steps_all_the_same() -> None:
    text = (
        HEAD
        + " (float[2,4] x) => (float loss) { i = Cast<to = 3>(x) f = Cast<to = 1>(i) loss = ReduceSum<keepdims = 0>(f) }"
    )
    for straight_through in (False, True):
        assert not gradients_of(text, straight_through=straight_through, x=X)["x"].any()


def test_dynamic_quantization() -> None:
    text = (
        HEAD + " (float[2,4] x, float[2,4] w) => (float loss) { q, s, z = DynamicQuantizeLinear(x) "
        "d = DequantizeLinear(q, s, z) m = Mul(d, w) loss = ReduceSum<keepdims = 0>(m) }"
    )
    steps = gradients_of(text, x=X, w=W)["x"]
    through = gradients_of(text, straight_through=True, x=X, w=W)["x"]
    assert np.flatnonzero(steps).tolist() == [4, 5]  # the largest and the smallest make the scale
    np.testing.assert_allclose(through.reshape(-1)[[0, 1, 2, 3, 6, 7]], W.reshape(-1)[[0, 1, 2, 3, 6, 7]], rtol=1e-5)


def test_products_of_integers() -> None:
    """Straight through them the gradient is that of the product of what was quantized."""
    product = (
        HEAD + " (float[2,4] x, float[4,3] w, float[2,3] v) => (float loss) "
        "{ a, s, z = DynamicQuantizeLinear(x) b, t, u = DynamicQuantizeLinear(w) i = MatMulInteger(a, b, z, u) "
        "f = Cast<to = 1>(i) g = Mul(f, s) h = Mul(g, t) m = Mul(h, v) loss = ReduceSum<keepdims = 0>(m) }"
    )
    rng = np.random.default_rng(2)
    x, w, v = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((2, 4), (4, 3), (2, 3)))
    found = gradients_of(product, straight_through=True, x=x, w=w, v=v)
    np.testing.assert_allclose(found["x"], v @ w.T, atol=0.05)
    np.testing.assert_allclose(found["w"], x.T @ v, atol=0.05)
    assert np.count_nonzero(gradients_of(product, x=x, w=w, v=v)["x"]) == 2


def test_convolution_of_integers() -> None:
    convolution = (
        HEAD + " (float[1,1,4,4] x, float[2,1,3,3] w) => (float loss) "
        "<float s = {0.01}, uint8 z = {128}, uint8[2] u = {128, 128}> "
        "{ a = QuantizeLinear(x, s, z) b = QuantizeLinear(w, s, z) i = ConvInteger<pads = [1, 1, 1, 1]>(a, b, z, u) "
        "f = Cast<to = 1>(i) g = Mul(f, s) h = Mul(g, s) loss = ReduceSum<keepdims = 0>(h) }"
    )
    rng = np.random.default_rng(2)
    x, w = rng.uniform(-1, 1, (1, 1, 4, 4)).astype(np.float32), rng.uniform(-1, 1, (2, 1, 3, 3)).astype(np.float32)
    found = gradients_of(convolution, straight_through=True, x=x, w=w)
    padded = np.pad(x[0, 0], 1)
    expected = [[padded[i : i + 4, j : j + 4].sum() for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(found["w"][:, 0], [expected, expected], atol=0.1)
    np.testing.assert_allclose(found["x"][0, 0, 1:3, 1:3], np.full((2, 2), w.sum()), atol=0.2)


@pytest.mark.parametrize("kind", ["float[2,4]", "float[2,n]"])
def test_scales_of_blocks(kind: str) -> None:
    text = (
        HEAD + f" ({kind} x, float[2,2] s, {kind} w) => (float loss) "
        "{ q = QuantizeLinear<axis = 1, block_size = 3, output_dtype = 3>(x, s) "
        "d = DequantizeLinear<axis = 1, block_size = 3>(q, s) m = Mul(d, w) loss = ReduceSum<keepdims = 0>(m) }"
    )
    scale = np.array([[0.5, 0.25], [1, 2]], np.float32)
    steps = gradients_of(text, x=X, s=scale, w=W)
    q = np.clip(np.rint(X / scale[:, [0, 0, 0, 1]]), -128, 127) * W
    np.testing.assert_allclose(steps["s"], np.stack([q[:, :3].sum(1), q[:, 3]], 1))
    through = gradients_of(text, straight_through=True, x=X, s=scale, w=W)
    np.testing.assert_array_equal(through["x"], W)


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT16", "BFLOAT16"])
def test_there_and_back(name: str) -> None:
    """Gradients of 8 bits stay in float32 on the way; those of 16 bits are rounded once."""
    code = onnx.TensorProto.DataType.Value(name)
    text = (
        HEAD + " (float[2,4] x, float[2,4] w) => (float loss) "
        f"{{ n = Cast<to = {code}>(x) y = Cast<to = 1>(n) m = Mul(y, w) loss = ReduceSum<keepdims = 0>(m) }}"
    )
    found = gradients_of(text, x=X, w=W / 7)["x"]
    np.testing.assert_allclose(found, W / 7, rtol=0 if "8" in name else 2**-8)


def test_gradients_that_do_not_fit() -> None:
    text = '<ir_version: 13, opset_import: ["": 25]> g (float8e8m0[2] x) => (float loss) { y = Cast<to = 1>(x) '
    with pytest.raises(InvalidArgument, match="float8_e8m0fnu"):
        gradients_of(text + "loss = ReduceSum<keepdims = 0>(y) }", x=np.ones(2, ml_dtypes.float8_e8m0fnu))


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(-2, 1), st.booleans())
def test_drawn_shapes(rows: int, columns: int, axis: int, known: bool) -> None:
    """A scale per element of an axis of ``DequantizeLinear``."""
    dims = f"{rows},{columns}" if known else "a,b"
    count = (rows, columns)[axis]
    text = (
        HEAD + f" (int8[{dims}] x, double[k] s, int8[k] z) => (double y) "
        f"{{ t = Cast<to = 1>(s) d = DequantizeLinear<axis = {axis}>(x, t, z) y = Cast<to = 11>(d) }}"
    )
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (rows, columns)).astype(np.int8)
    z = rng.integers(-5, 5, count).astype(np.int8)
    assert check(text, precise=False, x=x, s=rng.uniform(0.5, 2, count), z=z) == "right"
