"""Gradient push: averages over directed graphs, balanced or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.neighbours import GradientPush, Topology
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.reference.distributed.neighbours import GradientPush as Reference
from deep_bench.testing.schemes import check_scheme
from tests.distributed.schemes.small_problem import check_frameworks, check_neighbourhood, check_resumes, stepped

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)
TILTED = {1: ((),), 2: ((1,), (0,)), 3: ((1, 2), (2,), (0,)), 4: ((1, 2, 3), (2,), (3, 0), (0,))}
"""Graphs on which ranks send to more than they receive from, and the other way round."""


@pytest.mark.parametrize("tilted", [False, True])
def test_it_is_the_reference(tilted: bool) -> None:
    reference = Reference(MOMENTUM, targets=lambda rank, step, size: TILTED[size][rank]) if tilted else Reference(MOMENTUM)

    def make(comm: Any) -> Any:
        return (
            GradientPush(MOMENTUM, comm, topology=Topology(TILTED[comm.size]), one_peer=False)
            if tilted
            else (GradientPush(MOMENTUM, comm))
        )

    found = check_scheme(make, reference)
    assert found.ok, str(found)


def test_weights_take_the_tilt_out() -> None:
    """Without steps, all ranks come to the mean, not to a mean that favours those that receive most."""

    def on_rank(comm: Any) -> tuple[float, float]:
        rule = GradientPush(db.optimizers["sgd"](lr=0.0), comm, topology=Topology(TILTED[4]), one_peer=False)
        w: Any = {"w": np.array([2.0**comm.rank])}
        state = rule.init(w, NUMPY)
        for _ in range(60):
            w, state = rule.update({"w": np.ones(1)}, state, w, NUMPY)
        return float(w["w"][0]), float(state["weight"])

    found = run_local(4, on_rank)
    np.testing.assert_allclose([w for w, _ in found], 15 / 4, rtol=1e-9)
    weights = [weight for _, weight in found]
    assert max(weights) > 1.3 * min(weights)
    assert sum(weights) == pytest.approx(4)


def test_one_peer_at_a_time_goes_round_all() -> None:
    rule = run_local(8, lambda comm: GradientPush(MOMENTUM, comm))[3]
    assert [rule._peers(3, step) for step in range(4)] == [(4,), (5,), (7,), (4,)]
    assert run_local(8, lambda comm: GradientPush(MOMENTUM, comm, one_peer=False))[3]._peers(3, 0) == (4, 5, 7)


def test_frameworks_and_checkpoints(tmp_path: Path) -> None:
    check_frameworks(lambda rule, comm: GradientPush(rule, comm, topology=Topology(TILTED[comm.size]), one_peer=False))
    check_resumes(lambda comm: GradientPush(MOMENTUM, comm, topology=Topology(TILTED[4])), tmp_path, ranks=4)


def test_it_converges_to_a_neighbourhood() -> None:
    found = run_local(2, lambda comm: stepped(GradientPush(db.optimizers["sgd"](lr=0.05), comm), 300)[0][-1])
    check_neighbourhood(found, 2)


def test_bad_settings_are_refused() -> None:
    alone = LocalCommunicator()
    with pytest.raises(UnknownName, match="did you mean 'exponential'"):
        GradientPush(MOMENTUM, alone, topology="exponental")
    with pytest.raises(InvalidArgument, match="a Topology of 1 ranks"):
        GradientPush(MOMENTUM, alone, topology=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="gradientpush with one_peer=2"):
        GradientPush(MOMENTUM, alone, one_peer=2)  # type: ignore[arg-type]
