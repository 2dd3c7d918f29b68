"""Schemes that equal one process on the whole batch: allreduce, the synchronous server, sharded state, hierarchical."""

from __future__ import annotations

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.reference.distributed.averaged import AllReduce, Hierarchical, ShardedState
from deep_bench.reference.distributed.scheme import flat, unflat
from deep_bench.reference.distributed.server import ParameterServer
from tests.reference.distributed.problem import Squares, run

ADAM = db.optimizers["adam"](lr=0.05)
SCHEMES = [AllReduce(ADAM), ParameterServer(ADAM), ShardedState(ADAM), Hierarchical(ADAM, per_node=2)]


def whole_batch(problem: Squares, steps: int) -> tuple[dict, dict]:
    x, state = problem.start, ADAM.init(problem.start, NUMPY)
    for _ in range(steps):
        x, state = ADAM.update(problem.gradients(x), state, x, NUMPY)
    return x, state


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
def test_uneven_shards_equal_one_process_on_the_whole_batch(scheme, size: int) -> None:
    problem = Squares.of(size)
    assert size == 1 or len(set(problem.samples)) > 1
    (alone, _), (found, _) = whole_batch(problem, 50), run(scheme, problem, 50)
    for x in found:
        for name in alone:
            np.testing.assert_allclose(x[name], alone[name], rtol=1e-10)
            np.testing.assert_array_equal(x[name], found[0][name])


def test_only_the_server_has_a_state() -> None:
    problem = Squares.of(3)
    _, state = run(ParameterServer(ADAM), problem, 5)
    np.testing.assert_allclose(state["server"]["mean"]["w"], whole_batch(problem, 5)[1]["mean"]["w"], rtol=1e-12)
    assert sorted(state) == ["server", "steps"]


def test_sharded_states_are_the_parts_of_the_whole_one() -> None:
    """Section 5.1: each of N processes stores 1/N of the states; no element twice, none left out."""
    problem = Squares.of(4)
    _, state = run(ShardedState(ADAM), problem, 5)
    parts = [one["mean"]["part"] for one in state["inner"]]
    assert [len(part) for part in parts] == [6, 5, 5, 5]
    np.testing.assert_allclose(np.concatenate(parts), flat(whole_batch(problem, 5)[1]["mean"]), rtol=1e-11)


def test_a_lost_rank_would_show() -> None:
    """What a server does that forgets rank 0: no longer the whole batch."""
    problem = Squares.of(3)
    x = [problem.start for _ in range(3)]
    slopes = [problem.gradients(one, rank) for rank, one in enumerate(x)]
    scheme = ParameterServer(db.optimizers["sgd"](lr=1.0))
    found, _ = scheme.step(slopes, list(problem.samples), scheme.init(x), x)
    np.testing.assert_allclose(-found[0]["w"], problem.gradients(problem.start)["w"], rtol=1e-12)
    slopes[0] = {name: 0 * g for name, g in slopes[0].items()}
    lost, _ = scheme.step(slopes, list(problem.samples), scheme.init(x), x)
    assert np.max(np.abs(lost[0]["w"] - found[0]["w"])) > 0.1


def test_the_vector_is_in_backward_order_and_can_be_undone() -> None:
    x = {"first": np.arange(6.0).reshape(2, 3), "scalar": np.array(7.0), "last": np.array([8.0, 9.0])}
    vector = flat(x)
    assert vector.tolist() == [8, 9, 7, 0, 1, 2, 3, 4, 5]
    back = unflat(vector, x)
    assert list(back) == list(x)
    assert all(np.array_equal(back[name], x[name]) for name in x)
