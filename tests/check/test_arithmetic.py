"""Stochastic arithmetic: what is exact stays exact, what rounds is disturbed by the right amount, the rest is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from deep_bench.check.arithmetic import DisturbedArray, NoRoundingModel, Rounding, as_plain, disturb
from deep_bench.check.estimate import Deviations, compare

FLOAT32 = np.dtype(np.float32)
X = np.random.default_rng(0).standard_normal((8, 16))
W = np.random.default_rng(1).standard_normal((16, 4))

INEXACT: dict[str, Callable[[Any], Any]] = {
    "divide": lambda x: x / 3,
    "exp": np.exp,
    "matmul": lambda x: x @ W,
    "dot method": lambda x: x.dot(W),
    "einsum": lambda x: np.einsum("ij,jk->ik", x, W),
    "tensordot": lambda x: np.tensordot(x, W, 1),
    "sum": lambda x: x.sum(0),
    "np.sum": lambda x: np.sum(x, axis=(0, 1)),
    "mean": lambda x: x.mean(axis=1, keepdims=True),
    "np.mean": np.mean,
    "var": lambda x: np.var(x, axis=0),
    "std": lambda x: x.std(),
    "cumsum": lambda x: np.cumsum(x, 1),
    "cumsum method": lambda x: x.cumsum(),
    "prod": lambda x: np.prod(x, axis=1),
    "fft": np.fft.fft,
    "det": lambda x: np.linalg.det(x[:4, :4]),
    "outer": lambda x: np.multiply.outer(x[0], x[1]),
    "windows": lambda x: sliding_window_view(x, 3, axis=1, subok=True).sum(-1),
}
EXACT: dict[str, Callable[[Any], Any]] = {
    "where": lambda x: np.where(x > 0, x, 0),
    "maximum": lambda x: np.maximum(x, 0),
    "max": lambda x: x.max(0),
    "pad": lambda x: np.pad(x, 1),
    "reshape": lambda x: x.reshape(4, 32).T,
    "take": lambda x: np.take(x, [0, 2], axis=1),
    "concatenate": lambda x: np.concatenate([x, -x]),
    "sort": lambda x: np.sort(x, axis=1),
    "clip": lambda x: np.clip(x, -1, 1),
    "floor": np.floor,
    "windows": lambda x: sliding_window_view(x, 3, axis=1, subok=True),
    "like": np.ones_like,
    "astype": lambda x: x.astype(np.float32),
}


def _rounding(seed: int = 0, **options: Any) -> Rounding:
    return Rounding(FLOAT32, np.random.default_rng(seed), **options)


@pytest.mark.parametrize("name", INEXACT)
def test_what_rounds_is_disturbed_a_little(name: str) -> None:
    exact = INEXACT[name](X)
    result = INEXACT[name](disturb(X, _rounding()))
    assert isinstance(result, DisturbedArray)
    difference = np.abs(as_plain(result) - exact)
    assert 0 < difference.max() < 1e-4 * np.abs(exact).max()


@pytest.mark.parametrize("name", EXACT)
def test_what_is_exact_stays_exact(name: str) -> None:
    result = EXACT[name](disturb(X, _rounding()))
    assert isinstance(result, DisturbedArray)
    np.testing.assert_array_equal(as_plain(result), EXACT[name](X) if name != "astype" else X)


@pytest.mark.parametrize("name", INEXACT)
def test_the_oracle_computes_in_float64(name: str) -> None:
    np.testing.assert_array_equal(as_plain(INEXACT[name](disturb(X, Rounding(FLOAT32)))), INEXACT[name](X))


def test_a_function_without_a_model_is_refused() -> None:
    with pytest.raises(NoRoundingModel, match=r"linalg\.svd"):
        np.linalg.svd(disturb(X, _rounding()))
    with pytest.raises(NoRoundingModel, match=r"divide\.reduce"):
        np.divide.reduce(disturb(X, _rounding()))


def test_comparisons_give_plain_booleans_and_conversions_plain_integers() -> None:
    x = disturb(X, _rounding())
    assert type(x > 0) is np.ndarray
    assert type(x.astype(np.int64)) is np.ndarray
    assert type(np.argmax(x, axis=1)) is np.ndarray


def test_conversions_to_narrow_integers_are_plain() -> None:
    x = disturb(np.array([1.0, -2.0]), Rounding(np.dtype(np.float32), np.random.default_rng(0)))
    found = x.astype(ml_dtypes.int4)
    assert (type(found), found.dtype, found.astype(int).tolist()) == (np.ndarray, np.dtype(ml_dtypes.int4), [1, -2])


def test_complex_results_deviate_by_a_length() -> None:
    deviations = Deviations(np.array([1 + 1j]))
    deviations.add(np.array([1 + 1j + 3e-7 + 4e-7j]))
    assert deviations.expectation(np.dtype(np.complex64)).spread == pytest.approx([5e-7], rel=0.1)


def test_whole_numbers_are_added_and_multiplied_exactly() -> None:
    x = disturb(np.arange(12.0).reshape(3, 4), _rounding())
    np.testing.assert_array_equal(as_plain(x @ x.T), np.arange(12.0).reshape(3, 4) @ np.arange(12.0).reshape(3, 4).T)


def test_assignment_in_place_keeps_the_values() -> None:
    y = np.zeros_like(disturb(X, _rounding()))
    y[1] = 2.0
    y += 0.1
    assert isinstance(y, DisturbedArray)
    np.testing.assert_allclose(as_plain(y)[1], 2.1, rtol=1e-6)


def test_infinities_and_nans_pass() -> None:
    x = disturb(np.array([np.inf, -np.inf, np.nan, 0.1]), _rounding())
    y = as_plain(x * 3.3)
    assert np.isposinf(y[0])
    assert np.isneginf(y[1])
    assert np.isnan(y[2])


def _bits(form: np.dtype, kernel: Callable[..., np.ndarray], a: np.ndarray, b: np.ndarray) -> float:
    deviations = Deviations(as_plain(disturb(a, Rounding(form)) @ b))
    for seed in range(8):
        deviations.add(as_plain(disturb(a, Rounding(form, np.random.default_rng(seed))) @ b.astype(np.float64)))
    return compare(kernel(a, b).astype(form), deviations.expectation(form)).bits


@pytest.mark.parametrize("length", [16, 128, 2048])
@pytest.mark.parametrize("same_sign", [False, True])
def test_kernels_have_the_bits_of_their_format_at_every_length(length: int, same_sign: bool) -> None:
    rng = np.random.default_rng(length)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((32, length), (length, 32)))
    if same_sign:
        a, b = np.abs(a), np.abs(b)
    assert 21.5 < _bits(FLOAT32, np.matmul, a, b) < 26
    half = np.dtype(np.float16)
    products = _bits(half, lambda p, q: p.astype(np.float32) @ q.astype(np.float32), a.astype(half), b.astype(half))
    assert 10.5 < products < 14.5


def test_a_sequential_sum_is_explained_by_sequential_rounding_only() -> None:
    x = np.abs(np.random.default_rng(0).standard_normal((16, 8192))).astype(np.float32)
    chain = np.add.accumulate(x, axis=1)[:, -1]
    bits = {}
    for accumulation in ("blocked", "sequential"):
        deviations = Deviations(x.astype(np.float64).sum(1))
        for seed in range(8):
            deviations.add(as_plain(disturb(x, _rounding(seed, accumulation=accumulation)).sum(1)))
        bits[accumulation] = compare(chain, deviations.expectation(FLOAT32)).bits
    assert bits["blocked"] < 21.5 < bits["sequential"]
