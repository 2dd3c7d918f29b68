"""PowerSGD with error feedback and warm start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.compressed import LowRank
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.compressed import LowRank as Reference
from deep_bench.testing.schemes import check_scheme
from tests.distributed.schemes.small_problem import best_loss, check_frameworks, check_resumes, stepped, whole_loss

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)


@pytest.mark.parametrize("rank", [1, 2])
def test_it_is_the_reference(rank: int) -> None:
    found = check_scheme(lambda comm: LowRank(MOMENTUM, comm, rank=rank), Reference(MOMENTUM, rank=rank))
    assert found.ok, str(found)


def _moved(slopes: list[list[np.ndarray]], rank: int) -> Any:
    """Plain descent by these gradients of each step and rank: parameters and the last state."""

    def on_rank(comm: Any) -> Any:
        rule, w = LowRank(db.optimizers["sgd"](lr=1.0), comm, rank=rank), {"w": np.zeros_like(slopes[0][0])}
        state = rule.init(w, NUMPY)
        for of_ranks in slopes:
            w, state = rule.update({"w": of_ranks[comm.rank]}, state, w, NUMPY)  # type: ignore[assignment]
        return w["w"], state

    return run_local(len(slopes[0]), on_rank)


def test_a_mean_of_low_rank_is_sent_as_it_is() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((6, 2)), rng.standard_normal((2, 5))
    slopes = [left @ np.diag(size) @ right for size in ([1.0, 2.0], [3.0, -1.0], [0.0, 5.0])]
    for moved, _ in _moved([slopes], 2):
        np.testing.assert_allclose(-moved, sum(slopes) / 3, atol=1e-12)


def test_nothing_is_lost_and_a_warm_start_finds_the_largest_direction() -> None:
    rng = np.random.default_rng(1)
    u, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    v, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    slope = u[:, :5] @ np.diag([10.0, 1, 0.5, 0.2, 0.1]) @ v.T
    found = _moved([[slope, slope]] * 8, 1)
    moved, (first, second) = found[0][0], (state for _, state in found)
    np.testing.assert_allclose(-moved + first["residual"]["w"] + second["residual"]["w"], 8 * slope, atol=1e-10)
    basis = first["basis"]["w"][:, 0]
    assert abs(basis @ v[:, 0]) > 0.999 * np.linalg.norm(basis)


def test_a_step_without_gradients_does_not_end_it() -> None:
    """Where all are 0 there is no direction to go on with, and the next step finds one again."""
    slope = np.outer([1.0, 2, 3], [1.0, -1])
    for moved, state in _moved([[0 * slope] * 2, [slope] * 2, [0 * slope] * 2, [0 * slope] * 2], 1):
        np.testing.assert_allclose(-moved, slope, atol=1e-12)
        np.testing.assert_allclose(state["residual"]["w"], 0, atol=1e-12)


def test_what_is_not_finite_is_told_to_all() -> None:
    for bad in (np.nan, np.inf):
        slope = np.array([[1.0, bad], [3, 4]])
        for moved, _ in _moved([[slope, np.ones((2, 2))]], 1):
            assert not np.isfinite(moved).all()


def test_two_messages_for_all_parameters() -> None:
    def on_rank(comm: Any) -> list[int]:
        sizes: list[int] = []
        allreduce = comm.allreduce
        comm.allreduce = lambda x, *o, **n: (sizes.append(x.size), allreduce(x, *o, **n))[1]
        w = {"a": np.ones((6, 5)), "b": np.ones(7), "c": np.ones((4, 2, 3)), "d": np.ones(())}
        rule = LowRank(MOMENTUM, comm, rank=2)
        w, state = rule.update(w, rule.init(w, NUMPY), w, NUMPY)
        sizes.clear()  # in the first step, ranks compare what they hold as well
        rule.update(w, state, w, NUMPY)
        return sizes

    assert run_local(2, on_rank) == [[2 * 6 + 7 + 2 * 4 + 1, 2 * 5 + 2 * 6]] * 2


def test_frameworks_and_checkpoints(tmp_path: Path) -> None:
    check_frameworks(lambda rule, comm: LowRank(rule, comm, rank=2))
    check_resumes(lambda comm: LowRank(MOMENTUM, comm, rank=1), tmp_path)


def test_it_converges() -> None:
    for parameters in run_local(3, lambda comm: stepped(LowRank(MOMENTUM, comm, rank=1), 150)[0][-1]):
        assert whole_loss(parameters) < best_loss() * 1.02


@pytest.mark.parametrize("settings", [{"rank": 0}, {"rank": 1.5}, {"seed": -1}])
def test_bad_settings_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidArgument, match="lowrank with"):
        LowRank(MOMENTUM, LocalCommunicator(), **settings)
