"""D-PSGD, AD-PSGD and SGP: what averages keep, how fast ranks agree, and closed forms on quadratics."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import deep_bench as db
from deep_bench.distributed.schemes.neighbours import TOPOLOGIES
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.neighbours import Decentralised, Gossip, GradientPush, one_peer_exponential, weights
from tests.reference.distributed.problem import numbers, scalars

SGD = db.optimizers["sgd"](lr=0.1)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_weights_keep_the_mean_and_are_those_of_the_topology(name: str) -> None:
    for size in (*range(1, 10), 12, 16):
        w = weights(name, size)
        np.testing.assert_allclose(w.sum(axis=0), 1)
        np.testing.assert_allclose(w.sum(axis=1), 1)
        np.testing.assert_allclose(w, TOPOLOGIES[name](size).weights())


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_ranks_agree_as_fast_as_the_spectral_gap_says(name: str) -> None:
    """Without gradients, the second singular value is how much is left of the distance from the mean."""
    rng, scheme = np.random.default_rng(0), Decentralised(SGD, topology=name)
    x, rate = scalars(rng.standard_normal(8)), 1 - TOPOLOGIES[name](8).spectral_gap
    state, mean = scheme.init(x), numbers(x).mean()
    for _ in range(20):
        before = np.linalg.norm(numbers(x) - mean)
        x, state = scheme.step(scalars([0.0] * 8), [1] * 8, state, x)
        np.testing.assert_allclose(numbers(x).mean(), mean, atol=1e-14)
        assert np.linalg.norm(numbers(x) - mean) <= rate * before + 1e-14
    if name == "ring":
        np.testing.assert_allclose(np.linalg.norm(numbers(x) - mean) / before, rate, rtol=1e-3)


def test_decentralised_sgd_is_algorithm_1() -> None:
    """x' = W x - r A (x - b), gradients at x and not at W x; its fixed point solves (I - W + r A) x = r A b."""
    a, b, scheme = np.array([0.5, 1.0, 3.0, 1.0, 2.0]), np.array([-1.0, 2.0, 4.0, 0.0, 1.0]), Decentralised(SGD)
    x = scalars([3.0, -1.0, 0.0, 2.0, 5.0])
    state, w, y = scheme.init(x), weights("ring", 5), numbers(x)
    for _ in range(400):
        x, state = scheme.step(scalars(a * (numbers(x) - b)), [1, 2, 3, 4, 5], state, x)
        y = w @ y - 0.1 * a * (y - b)
        np.testing.assert_allclose(numbers(x), y, rtol=1e-10)
    np.testing.assert_allclose(y, np.linalg.solve(np.eye(5) - w + 0.1 * np.diag(a), 0.1 * a * b), rtol=1e-8)


def test_it_averages_parameters_and_not_gradients() -> None:
    """What averages gradients instead leaves ranks apart for ever, and on a ring steps by other gradients."""
    scheme, x = Decentralised(SGD, topology="complete"), scalars([0.0, 4.0, 8.0])
    moved, _ = scheme.step(scalars([10.0, 20.0, 30.0]), [1] * 3, scheme.init(x), x)
    np.testing.assert_allclose(numbers(moved), [3.0, 2.0, 1.0])


def test_gossip_repeats_pairs_and_tells_staleness() -> None:
    """A gradient is that of what its rank held after its own last event, however often others changed it since."""
    read = []

    def slope(worker, parameters, count):
        read.append((worker, float(parameters["x"][0]), count))
        return {"x": np.array([1.0])}

    found = Gossip(SGD).run([(0, 1), (2, 1), (1, 0), (1, 1)], slope, scalars([0.0, 4.0, 8.0]))
    np.testing.assert_allclose([numbers(x) for x in found.parameters], [
        [0.0, 4.0, 8.0], [1.9, 2.0, 8.0], [1.9, 5.0, 4.9], [3.45, 3.35, 4.9], [3.45, 3.25, 4.9]
    ])  # fmt: skip
    assert found.staleness == (0, 0, 2, 0)
    assert [(w, c) for w, _, c in read] == [(0, 0), (2, 0), (1, 0), (1, 1)]
    np.testing.assert_allclose([x for _, x, _ in read], [0.0, 8.0, 4.0, 3.35])
    with pytest.raises(InvalidArgument, match="of 2 ranks"):
        Gossip(SGD).run([(0, 2)], slope, scalars([0.0, 1.0]))


def test_gossip_keeps_the_mean_and_agrees_without_gradients() -> None:
    rng, start = np.random.default_rng(0), scalars([1.0, -2.0, 5.0, 8.0])
    pairs = [tuple(map(int, rng.choice(4, 2, replace=False))) for _ in range(60)]
    found = Gossip(SGD).run(pairs, lambda *_: {"x": np.zeros(1)}, start)
    distances = [np.linalg.norm(numbers(x) - 3.0) for x in found.parameters]
    np.testing.assert_allclose([numbers(x).mean() for x in found.parameters], 3.0)
    assert all(b <= a + 1e-15 for a, b in pairwise(distances))
    assert distances[-1] < 1e-3 * distances[0]


def test_push_weights_keep_sums_on_any_graph() -> None:
    """On a star that nobody balances, biased values drift; divided by their push weights, they reach the mean."""
    star = GradientPush(SGD, targets=lambda rank, step, size: range(1, size) if rank == 0 else [0])
    x = scalars([1.0, -2.0, 5.0, 8.0])
    state = star.init(x)
    for _ in range(60):
        x, state = star.step(scalars([0.0] * 4), [1] * 4, state, x)
        np.testing.assert_allclose(numbers(state["biased"]).sum(), 12.0)
        np.testing.assert_allclose(sum(state["weight"]), 4.0)
    assert np.ptp(state["weight"]) > 0.5
    assert np.ptp(numbers(state["biased"])) > 1
    np.testing.assert_allclose(numbers(x), 3.0, rtol=1e-8)


def test_push_steps_move_the_mass_by_the_gradients_at_unbiased_parameters() -> None:
    """Algorithm 1: what all ranks hold changes by -r times the sum of gradients."""
    targets = lambda rank, step, size: [(rank + 1) % size] if rank else list(range(1, size))  # noqa: E731
    scheme, x = GradientPush(SGD, targets=targets), scalars([1.0, -2.0, 5.0])
    state, mass = scheme.init(x), 4.0
    for _ in range(300):
        slopes = numbers(x) - np.array([1.0, 2.0, 6.0])
        x, state = scheme.step(scalars(slopes), [1] * 3, state, x)
        mass -= 0.1 * slopes.sum()
        np.testing.assert_allclose(numbers(state["biased"]).sum(), mass, atol=1e-12)
        biased, weight = numbers(state["biased"]), np.array(state["weight"])
        np.testing.assert_allclose(numbers(x), biased / weight)
    assert abs(mass / 3 - 3.0) < 0.6


def test_one_peer_exponential_graphs_average_exactly_in_log_n_steps() -> None:
    assert one_peer_exponential(0, 5, 1) == []
    scheme, x = GradientPush(SGD), scalars(np.arange(8.0) ** 2)
    state = scheme.init(x)
    for _ in range(3):
        x, state = scheme.step(scalars([0.0] * 8), [1] * 8, state, x)
    assert state["weight"] == [1.0] * 8
    np.testing.assert_allclose(numbers(x), 17.5)
