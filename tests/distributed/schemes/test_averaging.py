"""Model averaging, every step and now and then; and with steps together before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.averaged import Averaging, PostLocal
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.averaged import Averaging as AveragingReference
from deep_bench.reference.distributed.averaged import PostLocal as PostLocalReference
from deep_bench.testing.schemes import check_scheme
from tests.distributed.schemes.small_problem import best_loss, check_frameworks, check_resumes, stepped, whole_loss

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)
ADAM = db.optimizers["adam"](lr=0.01)


@pytest.mark.parametrize(("rule", "every"), [(MOMENTUM, 1), (MOMENTUM, 2), (ADAM, 3)])
def test_averaging_is_the_reference(rule: Any, every: int) -> None:
    found = check_scheme(lambda comm: Averaging(rule, comm, every=every), AveragingReference(rule, every=every))
    assert found.ok, str(found)


@pytest.mark.parametrize(("until", "every"), [(0, 2), (3, 2)])
def test_post_local_is_the_reference(until: int, every: int) -> None:
    reference = PostLocalReference(MOMENTUM, until=until, every=every)
    found = check_scheme(lambda comm: PostLocal(MOMENTUM, comm, until=until, every=every), reference)
    assert found.ok, str(found)


def test_frameworks_and_checkpoints(tmp_path: Path) -> None:
    check_frameworks(lambda rule, comm: Averaging(rule, comm, every=2, states=True))
    check_frameworks(lambda rule, comm: PostLocal(rule, comm, until=2, every=2))
    check_resumes(lambda comm: PostLocal(ADAM, comm, until=2, every=3, states=True), tmp_path)
    check_resumes(lambda comm: Averaging(MOMENTUM, comm, every=2), tmp_path, steps=10)


def test_states_are_averaged_where_that_is_asked_for() -> None:
    def on_rank(comm: Any, states: bool) -> tuple[float, int]:
        rule, w = Averaging(MOMENTUM, comm, states=states), {"w": np.zeros(2)}
        _, state = rule.update({"w": np.full(2, comm.rank * 4.0)}, rule.init(w, NUMPY), w, NUMPY, samples=1 + 2 * comm.rank)
        return float(state["inner"]["momentum"]["w"][0]), int(state["inner"]["steps"])

    assert run_local(2, lambda comm: on_rank(comm, False)) == [(0.0, 1), (4.0, 1)]
    assert run_local(2, lambda comm: on_rank(comm, True)) == [(3.0, 1), (3.0, 1)]


def test_another_number_of_ranks_goes_on_from_the_mean() -> None:
    for make in (lambda c: Averaging(MOMENTUM, c, every=4), lambda c: PostLocal(MOMENTUM, c, until=1, every=4)):
        states = [state for _, state in run_local(3, lambda comm, make=make: stepped(make(comm), 2))]
        (found,) = run_local(1, lambda comm, make=make, states=states: make(comm).regrouped(states))
        mean = sum(state["inner"]["momentum"]["w"] for state in states) / 3
        np.testing.assert_allclose(found["inner"]["momentum"]["w"], mean, rtol=1e-14)
        assert (int(found["steps"]), int(found["samples"]), int(found["inner"]["steps"])) == (2, 0, 2)


def test_nothing_is_said_between_averages() -> None:
    def on_rank(comm: Any) -> list[int]:
        counted: list[int] = []
        rule = Averaging(MOMENTUM, comm, every=3)
        allreduce = comm.allreduce

        def told(*arguments: Any, **named: Any) -> np.ndarray:
            counted.append(len(found))
            return allreduce(*arguments, **named)

        comm.allreduce, found = told, []
        w: Any = {"w": np.zeros(2)}
        state = rule.init(w, NUMPY)
        for step in range(6):
            w, state = rule.update({"w": np.ones(2)}, state, w, NUMPY)
            found.append(step)
        return counted

    assert run_local(2, on_rank) == [[0, 2, 5]] * 2  # in the first step, ranks compare what they hold


@pytest.mark.parametrize(
    "make", [lambda c: Averaging(MOMENTUM, c, every=4), lambda c: PostLocal(MOMENTUM, c, until=20, every=4)]
)
def test_it_converges(make: Any) -> None:
    for parameters in run_local(3, lambda comm: stepped(make(comm), 120)[0][-1]):
        assert whole_loss(parameters) < best_loss() * 1.02


@pytest.mark.parametrize("settings", [{"every": 0}, {"every": 1.5}, {"states": 1}])
def test_bad_settings_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidArgument, match="averaging with"):
        Averaging(MOMENTUM, LocalCommunicator(), **settings)
    with pytest.raises(InvalidArgument, match="postlocal with until=-1"):
        PostLocal(MOMENTUM, LocalCommunicator(), until=-1)


def test_ranks_without_samples_are_refused() -> None:
    rule, w = MOMENTUM, {"w": np.zeros(1)}
    state = Averaging(rule, LocalCommunicator()).init(w, NUMPY)
    with pytest.raises(InvalidArgument, match="no rank has samples"):
        run_local(2, lambda comm: Averaging(rule, comm).update(w, state, w, NUMPY, samples=0))
