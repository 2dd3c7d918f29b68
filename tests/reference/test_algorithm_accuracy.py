"""Each algorithm is what it says: its errors, its order and its memory are its own, and not those of another one."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deep_bench.check.estimate import compare
from deep_bench.check.thresholds import ROUNDING_BITS
from deep_bench.errors import Unsupported
from deep_bench.reference.operators.algorithms import algorithms
from deep_bench.reference.operators.algorithms.convolution import cook_toom

from .algorithm_accuracy import SHAPES, bits, expected, normal, typed


def test_the_transforms_of_winograd_are_the_published_ones() -> None:
    """Lavin and Gray print these for F(4, 3), with the columns in the order of the points 0, 1, -1, 2, -2, infinity."""
    at, g, bt = cook_toom(4, 3)
    assert at.tolist() == [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
    np.testing.assert_allclose(24 * g, [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], rtol=1e-15)
    assert bt[:2].tolist() == [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0]]


@pytest.mark.parametrize(("outputs", "taps"), [(1, 1), (1, 3), (2, 2), (2, 3), (4, 3), (2, 7), (4, 5)])
def test_the_transforms_correlate(outputs: int, taps: int) -> None:
    x, w = normal(outputs + taps - 1), normal(taps)
    at, g, bt = cook_toom(outputs, taps)
    np.testing.assert_allclose(at @ ((g @ w) * (bt @ x)), np.correlate(x, w), rtol=1e-9, atol=1e-10)


def test_the_larger_tile_of_winograd_loses_bits_and_the_smaller_one_few() -> None:
    inputs = [normal(2, 32, 20, 20), normal(8, 32, 3, 3), normal(8)]
    found = {name: bits("Conv", name, inputs) for name in algorithms["Conv"]}
    assert found["winograd_4"] < min(found["direct"], found["im2col"], found["winograd_2"]) - 1.5
    assert found["winograd_2"] > 24 - ROUNDING_BITS
    assert found["winograd_4"] > 24 - 5


def test_whole_numbers_show_which_convolution_transforms_with_fractions() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((1, 4, 12, 12), (4, 4, 3, 3)))
    exact = algorithms["Conv"]["direct"](x.astype(np.float64), w.astype(np.float64))
    same = {name: np.array_equal(conv(x, w), exact) for name, conv in algorithms["Conv"].items()}
    assert same == {"direct": True, "fft": False, "im2col": True, "winograd_2": True, "winograd_4": False}


def test_a_nan_reaches_what_the_algorithm_mixes_it_with() -> None:
    x, w = np.ones((1, 1, 16, 16), np.float32), np.ones((1, 1, 3, 3), np.float32)
    x[0, 0, 0, 0] = np.nan
    with np.errstate(all="ignore"):
        spoilt = {name: int(np.isnan(conv(x, w)).sum()) for name, conv in algorithms["Conv"].items()}
    assert spoilt == {"direct": 1, "im2col": 1, "winograd_2": 4, "winograd_4": 16, "fft": 14 * 14}
    single = {name: int(np.isnan(conv(x, w[:, :, :1, :1])).sum()) for name, conv in algorithms["Conv"].items()}
    assert single == {"direct": 1, "im2col": 1, "winograd_2": 1, "winograd_4": 1, "fft": 16 * 16}


def test_the_definition_of_a_convolution_needs_no_product_of_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: Any, **__: Any) -> None:
        raise AssertionError("a product of matrices")

    monkeypatch.setattr(np, "matmul", refusing)
    x, w = np.ones((1, 2, 5, 5), np.float32), np.ones((1, 2, 3, 3), np.float32)
    assert algorithms["Conv"]["direct"](x, w).tolist() == [[[[18.0] * 3] * 3]]
    with pytest.raises(AssertionError, match="product of matrices"):
        algorithms["Conv"]["im2col"](x, w)


BIG = 2.0**24
"""From here on float32 has even numbers only: adding 1 changes nothing."""


@pytest.mark.parametrize(
    ("operator", "largest", "undone"),
    [
        ("ReduceSum", BIG, lambda y, _: y),
        ("ReduceL1", -BIG, lambda y, _: y),
        ("ReduceMean", BIG, lambda y, n: y * n),
        ("ReduceSumSquare", BIG**0.5, lambda y, _: y),
        ("ReduceL2", BIG**0.5, lambda y, _: np.square(np.float64(y))),
    ],
)
def test_sums_add_in_the_order_that_they_say(operator: str, largest: float, undone: Any) -> None:
    n = 256
    x = np.array([largest, *[1.0] * (n - 1)], np.float32)
    for name, lost in {"sequential": n, "pairwise": 2, "blocked": 64, "compensated": 0}.items():  # 255 rounds to 256
        kept = BIG + n - lost
        exact = np.square(np.float64(np.sqrt(np.float32(kept)))) if operator == "ReduceL2" else kept
        assert undone(algorithms[operator][name](x)[0], n) == exact


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_products_add_in_the_order_that_they_say(operator: str) -> None:
    n = 128
    row, column = np.array([[BIG, *[1.0] * (n - 1)]], np.float32), np.ones((n, 1), np.float32)
    found = {name: float(product(row, column)[0, 0]) - BIG for name, product in algorithms[operator].items()}
    assert found["sequential"] == 0
    assert found["compensated"] == n
    assert n - 32 <= found["blocked"] <= n  # the first of four blocks, or of four parts, may lose its own
    assert n - 32 <= found["split_k"] <= n


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_split_sums_are_those_of_four_parts(operator: str) -> None:
    a, b = (x.astype(np.float32) for x in (normal(20, 400), normal(400, 20)))
    parts = [a[:, k : k + 100] @ b[k : k + 100] for k in range(0, 400, 100)]
    np.testing.assert_array_equal(algorithms[operator]["split_k"](a, b), parts[0] + parts[1] + parts[2] + parts[3])


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
@pytest.mark.parametrize(("dtype", "condition"), [(np.float32, 2.0**14), (np.float64, 2.0**40)])
def test_a_compensated_product_survives_cancellation(operator: str, dtype: Any, condition: float) -> None:
    """Terms that cancel but for one part in ``condition``: other algorithms lose as much of the result."""
    row, column = normal(1, 65).astype(dtype), normal(65, 1).astype(dtype)
    row[0, -1] = 0
    whole = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row[0], column[:, 0], strict=True))
    row[0, -1], column[-1, 0] = -float(whole) * (1 - 1 / condition), 1
    exact = whole + Fraction(float(row[0, -1]))
    error = {
        name: abs(float(Fraction(float(product(row, column)[0, 0])) / exact - 1))
        for name, product in algorithms[operator].items()
    }
    assert error["compensated"] < 2 * np.finfo(dtype).eps
    assert error["sequential"] > 1000 * np.finfo(dtype).eps


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_products_in_tiles_are_sums_of_tiles(operator: str) -> None:
    a, b = (x.astype(np.float32) for x in (normal(40, 96), normal(96, 40)))
    corner = a[:32, :32] @ b[:32, :32] + a[:32, 32:64] @ b[32:64, :32] + a[:32, 64:] @ b[64:, :32]
    np.testing.assert_array_equal(algorithms[operator]["blocked"](a, b)[:32, :32], corner)


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_strassen_errs_relative_to_the_largest_elements(operator: str) -> None:
    a, b = normal(96, 96), normal(96, 96)
    a[:48], b[:, :48] = 1e-4 * a[:48], 1e-4 * b[:, :48]
    assert bits(operator, "blas", [a, b]) > 24 - ROUNDING_BITS
    assert bits(operator, "strassen", [a, b]) < 16
    estimate = expected(operator, typed([a, b], np.float32), {}, np.float32)[0].norm_wise()
    assert compare(algorithms[operator]["strassen"](*typed([a, b], np.float32)), estimate).bits > 24 - ROUNDING_BITS


def test_the_variance_as_a_difference_loses_bits_to_a_large_mean() -> None:
    def found(mean: float) -> dict[str, float]:
        inputs = [normal(16, 256) + mean, normal(256), normal(256)]
        return {name: bits("LayerNormalization", name, inputs) for name in algorithms["LayerNormalization"]}

    centred, far, farther = found(0.0), found(64.0), found(256.0)
    assert min(centred.values()) > 24 - ROUNDING_BITS
    for name in ("two_pass", "welford"):
        assert min(far[name], farther[name]) > 24 - ROUNDING_BITS - 1
    assert far["one_pass"] < centred["one_pass"] - 3
    assert farther["one_pass"] < far["one_pass"] - 1


def test_a_variance_that_rounding_makes_negative_is_zero() -> None:
    x, one = np.repeat(np.linspace(1000, 1001, 64), 64).reshape(64, 64).astype(np.float32), np.ones(64, np.float32)
    y, _, inverse = algorithms["LayerNormalization"]["one_pass"](x, one, epsilon=1e-5, n_outputs=3)
    assert np.isfinite(y).all()
    np.testing.assert_allclose(inverse.max(), 1e-5**-0.5, rtol=1e-6)


def test_welford_is_not_the_two_pass_form() -> None:
    x, scale = normal(16, 256).astype(np.float32), np.ones(256, np.float32)
    results = [form(x, scale) for form in algorithms["LayerNormalization"].values()]
    assert not any(np.array_equal(a, b) for n, a in enumerate(results) for b in results[:n])


def test_the_online_softmax_rescales_its_sum_as_the_maximum_grows() -> None:
    x = np.sort(normal(64, 200), axis=-1).astype(np.float32)
    once, online = (algorithms["Softmax"][name](x) for name in ("two_pass", "online"))
    assert not np.array_equal(once, online)
    np.testing.assert_allclose(once, online, rtol=1e-5)


@pytest.mark.parametrize("name", algorithms["Softmax"])
def test_a_softmax_stands_infinities(name: str) -> None:
    inf, softmax = np.inf, algorithms["Softmax"][name]
    x = np.array([[-inf, -inf, 1.0, -inf, 2.0], [-inf] * 5, [1e38, -1e38, 0, 0, 1e38], [0, inf, 0, 0, 0]], np.float32)
    with np.errstate(all="ignore"):
        y = softmax(x)
    np.testing.assert_allclose(y[0], [0, 0, 1 / (1 + np.e), 0, np.e / (1 + np.e)], rtol=1e-6)
    np.testing.assert_array_equal(y[2], [0.5, 0, 0, 0, 0.5])
    assert np.isnan(y[1]).all()
    assert np.isnan(y[3]).all()


def test_tiled_attention_never_holds_all_scores() -> None:
    q = normal(1, 8, 256, 4).astype(np.float32)
    scores = 8 * 256 * 256 * q.itemsize
    peak = {}
    for name, attention in algorithms["Attention"].items():
        tracemalloc.start()
        attention(q, q, q)
        peak[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak["plain"] > scores > 1.5 * peak["tiled"]


def test_tiled_attention_refuses_the_scores() -> None:
    q = np.ones((1, 1, 4, 4), np.float32)
    with pytest.raises(Unsupported, match="scores"):
        algorithms["Attention"]["tiled"](q, q, q, n_outputs=4)


@pytest.mark.parametrize("name", algorithms["Attention"])
def test_a_query_that_attends_to_nothing_gives_zeros(name: str) -> None:
    q = normal(1, 1, 20, 4).astype(np.float32)
    mask = np.ones((20, 20), np.bool_)
    mask[3] = False
    with np.errstate(all="ignore"):
        y = algorithms["Attention"][name](q, q, q, mask)[0]
    assert not y[0, 0, 3].any()
    assert y[0, 0, 4].any()


def test_separate_gates_take_four_times_as_many_products(monkeypatch: pytest.MonkeyPatch) -> None:
    count, multiply = 0, np.matmul

    def counting(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return multiply(*arguments, **options)

    monkeypatch.setattr(np, "matmul", counting)
    inputs = [normal(*shape) for shape in SHAPES["LSTM"]]
    counts = {}
    for name, lstm in algorithms["LSTM"].items():
        count = 0
        lstm(*inputs)
        counts[name] = count
    assert counts == {"fused": 6, "separate": 24}  # one for the input, and one for each of five elements of the sequence
