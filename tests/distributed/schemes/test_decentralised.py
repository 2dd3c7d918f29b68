"""D-PSGD: parameters averaged with neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.neighbours import Decentralised, Topology, ring
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.reference.distributed.neighbours import Decentralised as Reference
from deep_bench.testing.schemes import check_scheme
from tests.distributed.schemes.small_problem import check_frameworks, check_neighbourhood, check_resumes, stepped

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)


@pytest.mark.parametrize(
    ("topology", "ranks"), [("ring", (1, 2, 3, 4)), ("torus", (4,)), ("exponential", (4,)), ("complete", (4,))]
)
def test_it_is_the_reference(topology: str, ranks: tuple[int, ...]) -> None:
    reference = Reference(MOMENTUM, topology=topology)
    found = check_scheme(lambda comm: Decentralised(MOMENTUM, comm, topology=topology), reference, ranks=ranks)
    assert found.ok, str(found)


@pytest.mark.parametrize(("topology", "size"), [("torus", 6), ("exponential", 5), ("exponential", 7)])
def test_more_ranks_are_the_reference(topology: str, size: int) -> None:
    """Whom a rank hears of differs from whom it tells on these graphs."""
    gradients = [{"w": np.array([float(2**rank), 1.0])} for rank in range(size)]
    held = [{"w": np.array([float(rank), -1.0])} for rank in range(size)]
    sgd = db.optimizers["sgd"](lr=0.5)
    reference = Reference(sgd, topology=topology)
    wanted, _ = reference.step(gradients, [1] * size, reference.init(held), held)

    def on_rank(comm: Any) -> np.ndarray:
        rule, w = Decentralised(sgd, comm, topology=topology), held[comm.rank]
        return rule.update(gradients[comm.rank], rule.init(w, NUMPY), w, NUMPY)[0]["w"]

    np.testing.assert_allclose(run_local(size, on_rank), [w["w"] for w in wanted], rtol=1e-14)


def test_ranks_that_agree_step_as_if_alone() -> None:
    def on_rank(comm: Any) -> np.ndarray:
        rule, w = Decentralised(MOMENTUM, comm, topology="complete"), {"w": np.float32([0.1, 0.7])}
        return rule.update({"w": np.float32([0.3, 0.9])}, rule.init(w, NUMPY), w, NUMPY)[0]["w"]

    wanted = np.float32([0.1, 0.7]) - np.float32(0.1) * np.float32([0.3, 0.9])
    for found in run_local(4, on_rank):
        np.testing.assert_array_equal(found, wanted)  # weights of 1/4 add up to 1 exactly


def test_frameworks_and_checkpoints(tmp_path: Path) -> None:
    check_frameworks(lambda rule, comm: Decentralised(rule, comm, topology="exponential"))
    check_resumes(lambda comm: Decentralised(MOMENTUM, comm), tmp_path)


def test_it_converges_to_a_neighbourhood() -> None:
    """Each rank has a loss of its own, so that the mean of all parameters is near the best of their unweighted mean."""
    found = run_local(2, lambda comm: stepped(Decentralised(db.optimizers["sgd"](lr=0.05), comm), 300)[0][-1])
    check_neighbourhood(found, 2)


def test_bad_topologies_are_refused() -> None:
    alone = LocalCommunicator()
    with pytest.raises(UnknownName, match="did you mean 'torus'"):
        Decentralised(MOMENTUM, alone, topology="torsu")
    with pytest.raises(InvalidArgument, match="a Topology of 1 ranks"):
        Decentralised(MOMENTUM, alone, topology=ring(3))
    with pytest.raises(InvalidArgument, match="a balanced one"):
        run_local(3, lambda comm: Decentralised(MOMENTUM, comm, topology=Topology(((1, 2), (0,), (0,)[:0]))))
    with pytest.raises(InvalidArgument, match="an optimizer of one rank"):
        Decentralised(Decentralised(MOMENTUM, alone), alone)
