"""Every distributed optimizer of the registry against the reference of its scheme, which shares no code with it."""

from __future__ import annotations

from typing import Any

import pytest

import deep_bench as db
from deep_bench.distributed.schemes.neighbours import Gossip as FastGossip
from deep_bench.distributed.schemes.server import StaleSynchronous as FastStale
from deep_bench.reference.distributed.averaged import AllReduce, Averaging, Hierarchical, PostLocal, ShardedState
from deep_bench.reference.distributed.compressed import LowRank, OneBit, Quantised, Sparse
from deep_bench.reference.distributed.neighbours import Decentralised, Gossip, GradientPush, neighbours
from deep_bench.reference.distributed.server import Asynchronous, ParameterServer, StaleSynchronous
from deep_bench.testing.schemes import check_asynchronous, check_scheme

RULE = db.optimizers["momentum"](lr=0.1, momentum=0.5)
ADAM = db.optimizers["adam"](lr=0.1)


def around(rank: int, step: int, size: int) -> list[int]:
    """A ring on which everyone sends to both sides."""
    return neighbours("ring", rank, size)


CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("allreduce", {}, AllReduce(ADAM)),
    ("allreduce", {"bucket": 64}, AllReduce(RULE)),
    ("averaging", {}, Averaging(RULE)),
    ("averaging", {"every": 3}, Averaging(RULE, every=3)),
    ("averaging", {"every": 2, "states": True}, Averaging(ADAM, every=2, states=True)),
    ("decentralised", {}, Decentralised(RULE)),
    ("decentralised", {"topology": "torus"}, Decentralised(RULE, topology="torus")),
    ("decentralised", {"topology": "exponential"}, Decentralised(RULE, topology="exponential")),
    ("decentralised", {"topology": "complete"}, Decentralised(RULE, topology="complete")),
    ("gradient-push", {}, GradientPush(RULE)),
    ("gradient-push", {"topology": "ring", "one_peer": False}, GradientPush(RULE, targets=around)),
    ("hierarchical", {"per_node": 2}, Hierarchical(RULE, per_node=2)),
    ("low-rank", {"rank": 2}, LowRank(RULE, rank=2)),
    ("one-bit", {"group": 16}, OneBit(RULE, group=16)),
    ("parameter-server", {}, ParameterServer(ADAM)),
    ("post-local", {"until": 2, "every": 2}, PostLocal(RULE, until=2, every=2)),
    ("quantised", {"levels": 4, "group": 16, "seed": 3}, Quantised(RULE, levels=4, group=16, seed=3)),
    ("quantised", {"levels": 7, "norm": "max"}, Quantised(RULE, levels=7, norm="max")),
    ("sharded-state", {}, ShardedState(ADAM)),
    ("sparse", {"k": 0.1}, Sparse(RULE, k=0.1)),
]
ASYNCHRONOUS: list[tuple[str, dict[str, Any], Any]] = [
    ("asynchronous", {}, Asynchronous(RULE)),
    ("gossip", {}, Gossip(RULE)),
    ("stale-synchronous", {"bound": 0}, StaleSynchronous(RULE, 0)),
    ("stale-synchronous", {"bound": 1}, StaleSynchronous(RULE, 1)),
]


def test_every_scheme_has_a_reference() -> None:
    assert {name for name, _, _ in CASES + ASYNCHRONOUS} == set(db.distributed_optimizers)


@pytest.mark.long
@pytest.mark.parametrize(("name", "settings", "reference"), CASES, ids=lambda x: x if isinstance(x, str) else "")
def test_schemes_equal_their_references(name: str, settings: dict[str, Any], reference: Any) -> None:
    make, first = db.distributed_optimizers[name], next(case for case in CASES if case[0] == name)
    ranks = (1, 2, 3, 4) if first[2] is reference else (3, 4)
    found = check_scheme(lambda comm: make(reference.inner, comm, **settings), reference, ranks=ranks, steps=4)
    assert found.ok, str(found)


@pytest.mark.parametrize(("name", "settings", "reference"), ASYNCHRONOUS, ids=lambda x: x if isinstance(x, str) else "")
def test_recorded_courses_equal_their_references(name: str, settings: dict[str, Any], reference: Any) -> None:
    make = db.distributed_optimizers[name]
    found = check_asynchronous(lambda comm, log: make(reference.inner, comm, record=log, **settings), reference)
    assert found.ok, str(found)


class Ignores(FastStale):
    """Takes no notice of the bound."""

    def _may_go(self, clock: int, slowest: int) -> bool:
        return True


class Sums(FastGossip):
    """Steps from its own parameters and not from the mean."""

    def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
        new, state = super().update(gradients, state, parameters, xp)
        alone, _ = self.inner.update(gradients, state["inner"], parameters, xp)
        return (alone if self.active else new), state


class Forgets(FastStale):
    """Records nothing."""

    def serve(self, parameters, xp, *, state=None, after_update=None):
        found = super().serve(parameters, xp, state=state, after_update=after_update)
        self.record.clear()
        return found


def test_an_ignored_bound_is_caught() -> None:
    found = check_asynchronous(
        lambda comm, log: Ignores(RULE, comm, record=log, bound=0), StaleSynchronous(RULE, 0), ranks=(4,), orders=range(5)
    )
    assert "had read" in str(found)
    assert "at clock" in str(found)


@pytest.mark.parametrize(
    ("make", "reference", "said"),
    [
        (lambda comm, log: Sums(RULE, comm, record=log), Gossip(RULE), "rank 0 after its step 1: "),
        (
            lambda comm, log: Forgets(RULE, comm, record=log, bound=1),
            StaleSynchronous(RULE, 1),
            "steps recorded by rank: {}",
        ),
        (
            lambda comm, log: FastStale(RULE, comm, record=log, bound=1),
            StaleSynchronous(ADAM, 1),
            "is wrong: ",
        ),
        (
            lambda comm, log: FastStale(RULE, comm, record=log, bound=1),
            Asynchronous(RULE),
            "promises 'bounded'; the reference 'unbounded'",
        ),
    ],
    ids=["steps from elsewhere", "no record", "another rule", "another promise"],
)
def test_wrong_courses_are_caught_in_words(make: Any, reference: Any, said: str) -> None:
    assert said in str(check_asynchronous(make, reference, ranks=(3,), orders=(0,)))
