"""Recorded interleavings, repeated: asynchronous and stale-synchronous servers."""

from __future__ import annotations

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.server import Asynchronous, StaleSynchronous
from tests.reference.distributed.problem import Squares

SGD = db.optimizers["sgd"](lr=0.1)


def drawn_interleaving(workers: int, steps: int, bound: int | None, seed: int) -> list[tuple[int, int]]:
    """Workers that read, compute for a while and push, in an order that is drawn; nobody reads ahead of the bound."""
    rng, done, reading, found = np.random.default_rng(seed), [0] * workers, dict.fromkeys(range(workers), 0), []
    waiting: set[int] = set()
    while reading or waiting:
        for worker in sorted(waiting):
            if bound is None or all(done[worker] - bound <= other for other in done):
                reading[worker] = len(found)
                waiting.remove(worker)
        worker = int(rng.choice(list(reading), p=speeds(reading)))
        found.append((worker, reading.pop(worker)))
        done[worker] += 1
        if done[worker] < steps:
            waiting.add(worker)
    return found


def speeds(reading: dict[int, int]) -> np.ndarray:
    """Worker 0 is by far the fastest."""
    weights = np.array([10.0 if worker == 0 else 1.0 for worker in reading])
    return weights / weights.sum()


def test_one_worker_alone_is_the_inner_rule() -> None:
    problem, adam = Squares.of(1), db.optimizers["adam"](lr=0.1)
    found = Asynchronous(adam).run([(0, k) for k in range(20)], lambda _, x, n: problem.gradients(x), problem.start)
    x, state = problem.start, adam.init(problem.start, NUMPY)
    for version in found.versions:
        np.testing.assert_array_equal(version["w"], x["w"])
        x, state = adam.update(problem.gradients(x), state, x, NUMPY)
    assert found.staleness == (0,) * 20


def test_delayed_gradients_follow_their_recursion() -> None:
    """On a (x - b)² / 2: x_{k+1} = x_k - r a (x_{v_k} - b), of the version that was read."""
    interleaving, x, asked = [(1, 0), (2, 0), (1, 1), (1, 3), (2, 2), (3, 0)], [4.0], []

    def slope(worker, parameters, count):
        asked.append((worker, count))
        return {"x": 2.0 * (parameters["x"] - 1.0)}

    found = Asynchronous(SGD).run(interleaving, slope, {"x": np.array([4.0])})
    for _, version in interleaving:
        x.append(x[-1] - 0.1 * 2.0 * (x[version] - 1.0))
    np.testing.assert_allclose([v["x"][0] for v in found.versions], x)
    assert found.staleness == (0, 1, 1, 0, 2, 5)
    assert asked == [(1, 0), (2, 0), (1, 1), (1, 2), (2, 1), (3, 0)]


@pytest.mark.parametrize("interleaving", [[(0, 1)], [(0, 0), (0, 1), (0, 0)], [(0, -1)]])
def test_what_cannot_have_happened_is_refused(interleaving) -> None:
    with pytest.raises(InvalidArgument, match="a version from"):
        Asynchronous(SGD).run(interleaving, lambda *_: {"x": np.zeros(1)}, {"x": np.zeros(1)})


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_the_staleness_bound_is_never_exceeded(bound: int) -> None:
    worst, free = 0, 0
    for seed in range(20):
        interleaving = drawn_interleaving(4, 12, bound, seed)
        scheme = StaleSynchronous(SGD, bound)
        assert scheme.broken(interleaving) == ""
        assert len(interleaving) == 48
        worst = max(worst, *(event - version for event, (_, version) in enumerate(interleaving)))
        wild = drawn_interleaving(4, 12, None, seed)
        free = max(free, *(event - version for event, (_, version) in enumerate(wild)))
        assert scheme.broken(wild)
    assert worst <= scheme.most_stale(4)
    assert free > StaleSynchronous(SGD, 0).most_stale(4)


def test_what_the_bound_forbids_is_said() -> None:
    ahead = [(1, 0), (1, 1), (2, 0), (1, 2)]
    assert StaleSynchronous(SGD, 2).broken(ahead) == ""
    said = "worker 1 at clock 1 had read 0 updates of worker 2, not 1 (event 1)"
    assert StaleSynchronous(SGD, 0).broken(ahead) == said
    with pytest.raises(InvalidArgument, match="had read 0 updates of worker 2"):
        StaleSynchronous(SGD, 0).run(ahead, lambda *_: {"x": np.zeros(1)}, {"x": np.zeros(1)})
    own = "worker 1 at clock 1 read 0 of its own updates (event 1)"
    assert StaleSynchronous(SGD, 5).broken([(1, 0), (1, 0)]) == own


def test_a_bound_of_0_is_bulk_synchronous() -> None:
    """All workers read the same point at the same clock, which holds all updates of the clocks before."""
    problem, points = Squares.of(3), {}

    def slope(worker, parameters, count):
        points.setdefault(count, []).append(parameters["w"])
        return problem.gradients(parameters, worker)

    rounds = [(worker, 3 * clock) for clock in range(6) for worker in (2, 0, 1)]
    found = StaleSynchronous(SGD, 0).run(rounds, slope, problem.start)
    assert all(np.array_equal(one, read[0]) for read in points.values() for one in read)
    assert len(found.versions) == 19


def test_stale_gradients_converge_on_least_squares() -> None:
    problem = Squares.of(4)
    for seed in range(2):
        interleaving = drawn_interleaving(4, 300, 3, seed)
        gradients = lambda worker, x, _: problem.gradients(x, worker)  # noqa: E731
        found = StaleSynchronous(SGD, 3).run(interleaving, gradients, problem.start)
        assert problem.loss(found.versions[-1]) < 1e-6 * problem.loss(problem.start)
