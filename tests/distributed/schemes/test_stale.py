"""The stale-synchronous server: asynchronous, but for workers that are too far ahead."""

from __future__ import annotations

from typing import Any

import pytest

import deep_bench as db
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.schemes.server import StaleSynchronous
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.server import StaleSynchronous as Reference
from tests.distributed.schemes.served import Served
from tests.distributed.schemes.small_problem import best_loss, whole_loss

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("bound", [0, 2])
def test_the_reference_allows_and_repeats_every_interleaving(bound: int, ranks: int) -> None:
    """Also where some workers take fewer steps than others, for whom nobody waits then."""
    for order in (None, 0, 1, 2):
        run = Served(lambda c, r: StaleSynchronous(MOMENTUM, c, bound=bound, record=r), ranks, (2, 6), order=order)
        reference = Reference(MOMENTUM, bound=bound)
        course = run.check(reference)
        assert max(course.staleness) <= reference.most_stale(max(1, ranks - 1))


def test_the_bound_is_what_holds_workers_back() -> None:
    """With a larger one, some drawn interleaving breaks it."""

    def broken(bound: int) -> list[str]:
        runs = [
            Served(lambda c, r: StaleSynchronous(MOMENTUM, c, bound=bound, record=r), 4, (12,), order=order)
            for order in range(4)
        ]
        return [Reference(MOMENTUM, bound=0).broken(run.record) for run in runs]

    assert not any(broken(0))
    assert any(broken(1))


def test_with_the_bound_0_all_read_the_same() -> None:
    run = Served(lambda c, r: StaleSynchronous(MOMENTUM, c, record=r), 4, (3,), order=3)
    assert sorted(version for _, version in run.record) == [0] * 3 + [3] * 3 + [6] * 3


def test_torch() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    run = Served(
        lambda c, r: StaleSynchronous(MOMENTUM, c, bound=1, record=r), 3, order=2, framework="torch", dtype="float32"
    )
    run.check(Reference(MOMENTUM, bound=1), 2e-5)


def test_it_converges() -> None:
    sgd = db.optimizers["sgd"](lr=0.05)
    run = Served(lambda c, r: StaleSynchronous(sgd, c, bound=1, record=r), 4, (120,), order=1)
    assert whole_loss(run.ends[0]) < best_loss() * 1.3


@pytest.mark.parametrize("bound", [-1, 0.5, True])
def test_bad_bounds_are_refused(bound: Any) -> None:
    with pytest.raises(InvalidArgument, match="a whole number of at least 0"):
        StaleSynchronous(MOMENTUM, LocalCommunicator(), bound=bound)
