"""Sparse, quantised, one-bit and low-rank gradients: what is lost, and that nothing is lost for good."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.reference.distributed.averaged import AllReduce
from deep_bench.reference.distributed.compressed import LowRank, OneBit, Quantised, Sparse, orthogonalised
from deep_bench.reference.distributed.scheme import contributions, draws, flat, total
from tests.reference.distributed.problem import Squares, run

STEP = db.optimizers["sgd"](lr=1.0)
SHAPES = {"matrix": (9, 7), "kernel": (4, 3, 2), "bias": (6,), "scalar": ()}


def drawn(rng: np.random.Generator, size: int) -> list[dict[str, np.ndarray]]:
    return [{name: rng.standard_normal(shape) for name, shape in SHAPES.items()} for _ in range(size)]


@pytest.mark.parametrize(
    ("scheme", "memory"),
    [(Sparse(STEP, k=0.05), "residual"), (OneBit(STEP, group=16), "residual"), (LowRank(STEP, rank=1), "memory")],
    ids=lambda x: type(x).__name__,
)
def test_error_feedback_gives_everything_in_the_end(scheme, memory: str) -> None:
    """What was applied and what is remembered is, at any time, the sum of all that ranks contributed."""
    rng, x = np.random.default_rng(0), [{name: np.zeros(shape) for name, shape in SHAPES.items()}] * 3
    state, given, last = scheme.init(x), 0.0, 0.0
    for _ in range(12):
        slopes, samples = drawn(rng, 3), [int(n) for n in rng.integers(1, 9, 3)]
        given = given + flat(total(contributions(slopes, samples)))
        x, state = scheme.step(slopes, samples, state, x)
        kept = [as_vector(one, x[0]) for one in state[memory]]
        np.testing.assert_allclose(-flat(x[0]) + sum(kept), given, atol=1e-12)
        assert np.linalg.norm(-flat(x[0]) - given) > 0.1
        last = max(np.linalg.norm(one) for one in kept)
    assert last > 0.1


def as_vector(memory: Any, like: dict[str, np.ndarray]) -> np.ndarray:
    """A memory as the vector; what it lacks is 0."""
    if isinstance(memory, np.ndarray):
        return memory
    return flat({name: memory.get(name, np.zeros_like(x)) for name, x in like.items()})


@pytest.mark.parametrize(
    "scheme", [Sparse(STEP, k=1.0), LowRank(STEP, rank=9), Quantised(STEP, levels=2**50)], ids=lambda x: type(x).__name__
)
def test_without_compression_they_are_allreduce(scheme) -> None:
    rng, x = np.random.default_rng(1), [{name: np.zeros(shape) for name, shape in SHAPES.items()}] * 3
    state, plain = scheme.init(x), AllReduce(STEP)
    y, other = x, plain.init(x)
    for _ in range(4):
        slopes = drawn(rng, 3)
        x, state = scheme.step(slopes, [1, 2, 3], state, x)
        y, other = plain.step(slopes, [1, 2, 3], other, y)
        np.testing.assert_allclose(flat(x[2]), flat(y[2]), atol=1e-12)


def test_sparse_sums_have_the_union_of_what_ranks_chose() -> None:
    x = [{"w": np.zeros(6)}] * 2
    scheme = Sparse(STEP, k=0.3)
    slopes = [{"w": np.array([6.0, 0.2, -8.0, 0.0, 1.0, 0.0])}, {"w": np.array([0.0, 0.0, 2.0, -4.0, 1.0, 0.0])}]
    moved, state = scheme.step(slopes, [1, 1], scheme.init(x), x)
    assert moved[0]["w"].tolist() == [-3.0, 0.0, 3.0, 2.0, 0.0, 0.0]
    assert [e.tolist() for e in state["residual"]] == [[0, 0.1, 0, 0, 0.5, 0], [0, 0, 0, 0, 0.5, 0]]


def test_an_element_that_is_never_large_is_sent_once_it_has_grown() -> None:
    x, scheme = [{"w": np.zeros(2)}], Sparse(STEP, k=0.5)
    state, sent = scheme.init(x), []
    for _ in range(8):
        x, state = scheme.step([{"w": np.array([1.0, 0.3])}], [1], state, x)
        sent.append(-x[0]["w"][1])
    np.testing.assert_allclose(sent, [0, 0, 0, 1.2, 1.2, 1.2, 1.2, 2.4])


@pytest.mark.parametrize("norm", ["euclidean", "max"])
def test_quantisation_is_right_on_average_and_errs_as_lemma_3_1_says(norm: str) -> None:
    rng = np.random.default_rng(0)
    v, count = rng.standard_normal(64) * 10.0 ** rng.uniform(-2, 0, 64), 4_000
    scheme = Quantised(STEP, levels=4, group=64, norm=norm)
    found = np.stack([scheme.quantise(v, draws(0, step, 1, 64)) for step in range(count)])
    size = np.linalg.norm(v) if norm == "euclidean" else np.abs(v).max()
    spread = found.std(axis=0)
    assert np.all(np.abs(found.mean(axis=0) - v) <= 5 * spread / np.sqrt(count) + 1e-12)
    assert np.mean(np.sum((found - v) ** 2, axis=1)) <= min(64 / 4**2, 8 / 4) * np.linalg.norm(v) ** 2
    places = np.abs(found) / size * 4
    np.testing.assert_allclose(places, np.rint(places), atol=1e-12)
    assert np.all(np.abs(places - np.abs(v) / size * 4) < 1 + 1e-12)
    assert np.all(found * v >= 0)


def test_groups_have_norms_of_their_own_and_zeros_stay() -> None:
    scheme = Quantised(STEP, levels=1, group=2, norm="max")
    v = np.array([3.0, -3.0, 0.0, 0.0, 5.0])
    assert scheme.quantise(v, np.full(5, 0.5)).tolist() == v.tolist()
    halves = np.array([4.0, 1.0, 2.0])
    assert scheme.quantise(halves, np.array([0.9, 0.2, 0.0])).tolist() == [4.0, 4.0, 2.0]
    assert scheme.quantise(halves, np.array([0.9, 0.3, 0.0])).tolist() == [4.0, 0.0, 2.0]


def test_draws_differ_by_rank_and_step_and_can_be_repeated() -> None:
    all_draws = [draws(seed, step, rank, 5).tolist() for seed in (0, 1) for step in (0, 1) for rank in (0, 1)]
    assert len({tuple(one) for one in all_draws}) == 8
    assert all_draws[3] == draws(0, 1, 1, 5).tolist()


def test_one_bit_stands_for_the_mean_of_its_side() -> None:
    x, scheme = [{"w": np.zeros(5)}], OneBit(STEP, group=3)
    moved, state = scheme.step([{"w": np.array([1.0, 3.0, -4.0, 0.0, -2.0])}], [1], scheme.init(x), x)
    assert (-moved[0]["w"]).tolist() == [2.0, 2.0, -4.0, 0.0, -2.0]
    assert state["residual"][0].tolist() == [-1.0, 1.0, 0.0, 0.0, 0.0]


def test_orthogonalised_columns_are_orthonormal_and_span_the_same() -> None:
    p = np.random.default_rng(0).standard_normal((9, 4))
    q = orthogonalised(p)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(q @ (q.T @ p), p, atol=1e-13)
    np.testing.assert_allclose(np.abs(q), np.abs(np.linalg.qr(p)[0]), atol=1e-13)
    parallel = orthogonalised(p[:, :1] * [1.0, 3.0, 7.0])
    np.testing.assert_allclose(parallel.T @ parallel, np.eye(3), atol=1e-14)
    assert orthogonalised(np.zeros((3, 2))).tolist() == np.zeros((3, 2)).tolist()


def test_power_iteration_finds_the_best_approximation_with_a_warm_start() -> None:
    """Algorithm 1 again and again on one matrix, without feedback, is subspace iteration."""
    rng, x = np.random.default_rng(0), [{"w": np.zeros((9, 7))}] * 2
    u, values, vt = np.linalg.svd(rng.standard_normal((9, 7)))
    m = u[:, :7] * (values * [3, 2, 1, 1, 1, 1, 1]) @ vt
    scheme, slopes = LowRank(STEP, rank=2), [{"w": m + 1}, {"w": m - 1}]
    state = scheme.init(x)
    for _ in range(40):
        state["memory"] = [{"w": np.zeros((9, 7))}] * 2
        before = x[0]["w"]
        x, state = scheme.step(slopes, [1, 1], state, x)
    best = u[:, :2] * (values[:2] * [3, 2]) @ vt[:2]
    np.testing.assert_allclose(before - x[0]["w"], best, atol=1e-6)


@pytest.mark.parametrize("inner", [1, 2])
def test_vectors_are_not_compressed_and_a_matrix_of_low_rank_is_exact(inner: int) -> None:
    """One of less than the scheme's rank too, of which a column is left that is all rounding error."""
    rng, scheme = np.random.default_rng(0), LowRank(STEP, rank=2)
    slopes = [{"w": rng.standard_normal((8, inner)) @ rng.standard_normal((inner, 6)), "b": rng.standard_normal(5)}]
    x = [{name: np.zeros_like(g) for name, g in slopes[0].items()}]
    state = scheme.init(x)
    for step in (1, 2, 3):
        x, state = scheme.step(slopes, [1], state, x)
        np.testing.assert_allclose(x[0]["b"], -step * slopes[0]["b"])
        np.testing.assert_allclose(x[0]["w"], -step * slopes[0]["w"], atol=1e-13)
    assert list(state["memory"][0]) == ["w"]


RULE = db.optimizers["momentum"](lr=0.05, momentum=0.5)


@pytest.mark.parametrize(
    "scheme",
    [Sparse(RULE, k=0.1), OneBit(RULE, group=8), LowRank(RULE, rank=1), Quantised(RULE, levels=4, group=8)],
    ids=lambda x: type(x).__name__,
)
def test_they_converge_on_least_squares(scheme) -> None:
    problem = Squares.of(3)
    found, _ = run(scheme, problem, 600)
    assert problem.loss(found[0]) < 1e-6 * problem.loss(problem.start)
    assert all(np.array_equal(x["w"], found[0]["w"]) for x in found)
