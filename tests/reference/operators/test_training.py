"""Optimizer steps and gradients of domain ``ai.onnx.preview.training``."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.training import Adagrad, Adam, Gradient, Momentum

RATE, LATER = np.array(0.5), np.array(3, np.int64)
X, G = np.array([1.0, -2.0]), np.array([0.25, 4.0])


def test_adagrad() -> None:
    x, h = Adagrad(RATE, LATER, X, G, np.zeros(2), decay_factor=1.0, epsilon=0.0)
    assert h.tolist() == [0.0625, 16]
    assert x.tolist() == [1 - 0.125, -2 - 0.125]


def test_adam_moves_by_the_rate_at_first() -> None:
    x, v, h = Adam(RATE, np.array(1, np.int64), X, G, np.zeros(2), np.zeros(2), epsilon=0.0)
    assert x == pytest.approx([0.5, -2.5])
    assert v == pytest.approx(0.1 * G)
    assert h == pytest.approx(0.001 * G**2, rel=1e-4)  # 0.999 is a float32


def test_adam_at_no_step_and_with_both_regularizations() -> None:
    options = {"alpha": 0.5, "beta": 0.5, "epsilon": 0.0, "norm_coefficient": 2.0, "norm_coefficient_post": 0.5}
    x, v, h = Adam(RATE, np.array(0, np.int64), X, G, np.zeros(2), np.ones(2), **options)
    assert v.tolist() == [1.125, 0.0]
    assert h.tolist() == [3.03125, 0.5]
    assert x == pytest.approx([0.5 * (1 - 0.5 * 1.125 / np.sqrt(3.03125)), -1])


@pytest.mark.parametrize(("t", "share"), [(0, 1), (3, 0.5)])
def test_momentum(t, share) -> None:
    options = {"alpha": 0.25, "beta": 0.5, "norm_coefficient": 0.0}
    x, v = Momentum(RATE, np.array(t), X, G, X, mode="standard", **options)
    assert v.tolist() == (0.25 * X + share * G).tolist()
    assert x.tolist() == (X - 0.5 * v).tolist()
    y, _ = Momentum(RATE, np.array(t), X, G, X, mode="nesterov", **options)
    assert y.tolist() == (X - 0.5 * (G + 0.25 * v)).tolist()
    with pytest.raises(Unsupported, match="heavy"):
        Momentum(RATE, np.array(t), X, G, X, mode="heavy", **options)


def test_several_tensors_are_ordered_by_kind() -> None:
    other = np.full((2, 3), 5.0)
    both = Adagrad(RATE, LATER, X, other, G, other, np.zeros(2), np.zeros((2, 3)))
    first, second = Adagrad(RATE, LATER, X, G, np.zeros(2)), Adagrad(RATE, LATER, other, other, np.zeros((2, 3)))
    assert [y.tolist() for y in both] == [y.tolist() for pair in zip(first, second, strict=True) for y in pair]
    with pytest.raises(InvalidInput, match="4 tensors"):
        Adagrad(RATE, LATER, X, G, X, G)


@pytest.mark.parametrize("rate", [np.float32, np.float64])
def test_the_type_is_that_of_the_tensors(rate) -> None:
    x = np.array([1, 2], np.float32)
    for y in Adam(RATE.astype(rate), LATER, x, x, x, x):
        assert y.dtype == np.float32


def test_gradient_of_a_smooth_function() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 2)), rng.standard_normal((2, 4))
    da, db = Gradient(a, b, xs=("a", "b"), y="y", function=lambda a, b: (np.tanh(a @ b),))
    slope = 1 - np.tanh(a @ b) ** 2
    np.testing.assert_allclose(da, slope @ b.T, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(db, a.T @ slope, rtol=1e-10, atol=1e-11)


def test_gradient_of_other_types_and_sizes() -> None:
    large = np.array([1e6], np.float32)
    (dx,) = Gradient(large, np.array(3), xs=("x",), zs=("z",), y="y", function=lambda x, z: (x * x * z,))
    assert (dx.dtype, dx.tolist()) == (np.float32, [6e6])
    (dx,) = Gradient(np.zeros((0, 2)), xs=("x",), y="y", function=lambda x: (x,))
    assert dx.shape == (0, 2)
    with pytest.raises(InvalidInput, match="'x', which is int64"):
        Gradient(np.array(3), xs=("x",), y="y", function=lambda x: (x,))
    with pytest.raises(InvalidInput, match="with 1 inputs"):
        Gradient(large, xs=("x",), zs=("z",), y="y", function=lambda x, z: (x,))
