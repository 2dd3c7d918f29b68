"""Activations joined with what stands before them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deep_bench.reference.operators.contrib import activation

RNG = np.random.default_rng(1)
FLOATS = [np.float16, np.float32, np.float64]


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def gelu(x):
    return x / 2 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


@pytest.mark.parametrize("shape", [(2, 3), (1,), (0, 3), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_gelu(judge, shape, dtype) -> None:
    judge("Gelu", [random(*shape, dtype=dtype)])
    judge("BiasGelu", [random(*shape, dtype=dtype), random(shape[-1], dtype=dtype)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bias", [False, True])
def test_fast_gelu(judge, dtype, bias) -> None:
    extra = [random(4, dtype=dtype)] if bias else []
    judge("FastGelu", [random(2, 3, 4, dtype=dtype), *extra])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("attributes", [{}, {"alpha": 1.0}, {"alpha": -0.5}])
def test_quick_gelu(judge, dtype, attributes) -> None:
    judge("QuickGelu", [random(2, 3, dtype=dtype)], **attributes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_scaled_silu(judge, dtype) -> None:
    judge("ScaledSiLU", [random(2, 3, dtype=dtype)], alpha=2.0)
    judge("ScaledSiLU", [random(2, 3, dtype=dtype), np.array(0.3, dtype)], alpha=2.0)


def test_gelu_of_doubles_has_no_kernel_but_a_definition() -> None:
    x, b = random(3, 4, dtype=np.float64), random(4, dtype=np.float64)
    np.testing.assert_allclose(activation.Gelu(x), gelu(x), rtol=1e-12)
    np.testing.assert_allclose(activation.BiasGelu(x, b), gelu(x + b), rtol=1e-12)


def test_bias_split_gelu_weighs_the_left_half_by_the_right_one() -> None:
    x, b = random(2, 3, 8, dtype=np.float64), random(8, dtype=np.float64)
    whole = x + b
    np.testing.assert_allclose(activation.BiasSplitGelu(x, b), whole[..., :4] * gelu(whole[..., 4:]), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "inner", "full"),
    [
        ((4, 3, 5), 1, (4, 1, 3, 5)),
        ((4, 1, 3, 5), 1, (4, 1, 3, 5)),
        ((2, 3, 5), 0, (1, 2, 3, 5)),
        ((1, 2, 3, 5), 0, (1, 2, 3, 5)),
        ((4, 2, 3, 5), 0, (4, 2, 3, 5)),
    ],
)
def test_bias_softmax_repeats_the_bias_over_inner_or_outer_axes(shape, inner, full) -> None:
    data, bias = random(4, 2, 3, 5, dtype=np.float64), random(*shape, dtype=np.float64)
    e = np.exp(data + np.broadcast_to(bias.reshape(full), data.shape))
    expected = e / e.sum(axis=(2, 3), keepdims=True)
    np.testing.assert_allclose(activation.BiasSoftmax(data, bias, axis=2, is_inner_broadcast=inner), expected, rtol=1e-12)


def test_bias_softmax_of_nothing_is_nothing() -> None:
    assert activation.BiasSoftmax(random(0, 3), random(3), axis=1, is_inner_broadcast=0).shape == (0, 3)
    assert activation.BiasSoftmax(random(2, 0), random(0), axis=1, is_inner_broadcast=0).shape == (2, 0)
