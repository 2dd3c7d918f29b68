"""What ranks must have alike before the first step: the same words on every rank where they have not."""

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed import Counting, run_local
from deep_bench.errors import InvalidArgument

SCHEMES = (
    "allreduce",
    "averaging:every=1",
    "decentralised",
    "hierarchical",
    "low-rank",
    "one-bit",
    "parameter-server",
    "quantised",
    "sharded-state",
    "sparse",
)


def refusal(comm, name, size, samples, *, begun):
    """What a rank is told when it takes a step."""
    scheme, _, every = name.partition(":every=")
    rule = db.distributed_optimizers[scheme](db.optimizers["sgd"](lr=0.1), comm, **({"every": int(every)} if every else {}))
    w = {"first": np.zeros(2), "w": np.zeros(size)}
    try:
        state = rule.init(w, NUMPY)
        if begun:
            rule.begin(samples)
        rule.update(w, state, w, NUMPY, samples=samples)
    except InvalidArgument as error:
        return error.came
    return None


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_samples_are_said_by_all_ranks_or_by_none(scheme, begun):
    told = run_local(3, lambda comm: refusal(comm, scheme, 2, None if comm.rank == 1 else 3, begun=begun))
    assert told == ["a number of samples on rank 0, 2, and none (samples=None) on rank 1"] * 3
    for samples in (3, None):
        assert run_local(3, lambda comm, n=samples: refusal(comm, scheme, 2, n, begun=begun)) == [None] * 3


@pytest.mark.parametrize("samples", [4, None])
def test_every_rank_names_the_parameter_that_differs(samples):
    told = run_local(4, lambda comm: refusal(comm, "allreduce", 3 if comm.rank == 2 else 2, samples, begun=False))
    assert told == ["parameter 1 is 'w' float64[3] on rank 2, and 'w' float64[2] on rank 0"] * 4


def test_all_is_compared_in_one_message():
    def on_rank(comm):
        counting = Counting(comm)
        assert refusal(counting, "decentralised", 2, None, begun=True) is None
        return counting.totals()["allreduce"].calls

    assert run_local(2, on_rank) == [1, 1]
