"""1-bit SGD with error feedback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.compressed import OneBit
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.compressed import OneBit as Reference
from deep_bench.testing.schemes import check_scheme
from tests.distributed.schemes.small_problem import best_loss, check_frameworks, check_resumes, stepped, whole_loss

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)


@pytest.mark.parametrize("group", [9, 512])
def test_it_is_the_reference(group: int) -> None:
    found = check_scheme(lambda comm: OneBit(MOMENTUM, comm, group=group), Reference(MOMENTUM, group=group))
    assert found.ok, str(found)


def test_the_message_has_a_bit_for_each_element() -> None:
    def on_rank(comm: Any) -> Any:
        sizes: list[int] = []
        allgather = comm.allgather
        comm.allgather = lambda x, *others: (sizes.append(x.nbytes), allgather(x, *others))[1]
        rule, w = OneBit(db.optimizers["sgd"](lr=1.0), comm, group=100), {"w": np.zeros(250, np.float32)}
        slope = np.random.default_rng(comm.rank).standard_normal(250).astype(np.float32)
        new, state = rule.update({"w": slope}, rule.init(w, NUMPY), w, NUMPY)
        return sizes, new["w"], state["residual"]["w"], slope / 2

    (sizes, moved, kept, given), (_, same, others, more) = run_local(2, on_rank)
    assert sizes == [3 * 2 * 4 + 32]
    np.testing.assert_array_equal(moved, same)
    np.testing.assert_allclose(-moved + kept + others, given + more, atol=1e-6)  # nothing is lost


def test_what_is_not_a_number_is_told_to_all() -> None:
    def on_rank(comm: Any, bad: float) -> np.ndarray:
        rule, w = OneBit(MOMENTUM, comm, group=2), {"w": np.zeros(4)}
        return rule.update({"w": np.array([1.0, bad, 2, -3])}, rule.init(w, NUMPY), w, NUMPY)[0]["w"]

    for bad in (np.nan, np.inf, -np.inf):
        for found in run_local(2, lambda comm, bad=bad: on_rank(comm, bad)):
            assert not np.isfinite(found[1])
            assert np.isfinite(found[2:]).all()


def test_frameworks_and_checkpoints(tmp_path: Path) -> None:
    check_frameworks(lambda rule, comm: OneBit(rule, comm, group=8))
    check_resumes(lambda comm: OneBit(MOMENTUM, comm, group=8), tmp_path)


def test_it_converges() -> None:
    for parameters in run_local(3, lambda comm: stepped(OneBit(MOMENTUM, comm), 150)[0][-1]):
        assert whole_loss(parameters) < best_loss() * 1.02


@pytest.mark.parametrize("group", [0, 1.5, -3])
def test_bad_groups_are_refused(group: Any) -> None:
    with pytest.raises(InvalidArgument, match="onebit with group"):
        OneBit(MOMENTUM, LocalCommunicator(), group=group)
