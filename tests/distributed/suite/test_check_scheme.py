"""The public suite of schemes lets right optimizers pass, and says what is wrong with those that are wrong on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.averaged import AllReduce, Averaging, ShardedState
from deep_bench.reference.distributed.compressed import Sparse
from deep_bench.reference.distributed.neighbours import Decentralised
from deep_bench.testing.schemes import check_scheme
from tests.distributed.suite.small import Careless, Largest, Ring, Sharded, Small, broadcast, no_broadcast

RULE = db.optimizers["momentum"](lr=0.1, momentum=0.5)
RIGHT = {
    "allreduce": (Small, AllReduce(RULE)),
    "careful": (Careless, AllReduce(RULE)),
    "ring": (Ring, Decentralised(RULE)),
    "top-k": (Largest, Sparse(RULE, k=0.1)),
    "sharded": (Sharded, ShardedState(RULE)),
}

WRONG = [
    (Small, AllReduce(RULE), "rank 0 dropped", "as if rank 0's gradient counted as 0"),
    (Small, AllReduce(RULE), "sum", "as if gradients were added up without a mean"),
    (Small, AllReduce(RULE), "unweighted", "as if all ranks had equally many samples"),
    (Small, AllReduce(RULE), "state reset", "as if the scheme's 'inner' were forgotten after each step"),
    (Careless, AllReduce(RULE), "gradients overwritten", "the gradients that were handed in have changed"),
    (Careless, AllReduce(RULE), "memory used again", "parameters of an earlier step have changed"),
    (Careless, AllReduce(RULE), "last bit", "not bitwise equal to rank 0's, as is promised"),
    (
        Careless,
        AllReduce(RULE),
        "float64",
        "step 1 returned 'kernel': float64[4, 3, 2]\nExpected: 'kernel': float32[4, 3, 2]; on rank 0 of 2",
    ),
    (Careless, AllReduce(RULE), "other names", "step 1 returned the parameters kernel', bias', scalar', late'"),
    (Ring, Decentralised(RULE), "gradients averaged", "as if gradients were averaged and nothing else"),
    (Ring, Decentralised(RULE), "gradients averaged for good", "steps without gradients did not halve it"),
    (Ring, Decentralised(RULE), "step from the average", "is wrong"),
    (Ring, Decentralised(RULE), "not averaged", "steps without gradients did not halve it"),
    (Small, Decentralised(RULE), "", "promises 'equal'; the reference 'contracting'"),
    (Largest, Sparse(RULE, k=0.1), "no error feedback", "as if the scheme's 'residual' were forgotten after each step"),
    (Sharded, ShardedState(RULE), "off by one", "is wrong: "),
]


@pytest.mark.parametrize("name", RIGHT)
def test_right_ones_pass(name: str) -> None:
    make, reference = RIGHT[name]
    found = check_scheme(lambda comm: make(RULE, comm), reference, steps=4, quiet=2, broadcast=broadcast)
    assert found.ok, str(found)
    assert found.bits > 20
    assert f"{make.__name__} beside {type(reference).__name__}, 1, 2, 3, 4 ranks, 4 steps each" in str(found)


@pytest.mark.parametrize(("make", "reference", "fault", "said"), WRONG, ids=[f"{m.__name__}-{f}" for m, _, f, _ in WRONG])
def test_wrong_ones_are_caught_in_words(make: Any, reference: Any, fault: str, said: str) -> None:
    found = check_scheme(lambda comm: make(RULE, comm, fault=fault), reference, ranks=(2, 3), steps=4)
    assert not found.ok
    assert said in str(found)


def test_a_missing_broadcast_is_caught() -> None:
    found = check_scheme(lambda comm: Small(RULE, comm), AllReduce(RULE), ranks=(3,), steps=1, broadcast=no_broadcast)
    assert "rank 1 of 3, before the first step: other parameters than rank 0: they were not broadcast" in str(found)


def test_a_shard_that_ends_too_early_is_named_by_its_elements() -> None:
    found = check_scheme(lambda comm: Sharded(RULE, comm, fault="off by one"), ShardedState(RULE), ranks=(3,), steps=2)
    assert "'late' is wrong: 3 of 30 elements, the first at [1, 3]" in found.findings[0].what
    assert "as if" not in found.findings[0].what


@pytest.mark.parametrize(
    ("fault", "size"), [("0.99999", "off by up to 1e-05"), ("float32", "where float64 rounds by 1e-16")]
)
def test_what_no_mistake_explains_is_told_by_its_size(fault: str, size: str) -> None:
    """A mistake that changes nothing (a state forgotten in the first step, samples that nobody tells) explains nothing."""

    class Imprecise(Small):
        def mean(self, gradients, samples):
            found = super().mean(gradients, samples)
            if fault == "float32":
                return {n: np.asarray(np.asarray(g, np.float32), g.dtype) for n, g in found.items()}
            return {n: np.asarray(g * g.dtype.type(fault)) for n, g in found.items()}

    found = check_scheme(lambda comm: Imprecise(RULE, comm), AllReduce(RULE), ranks=(2,), steps=2)
    assert size in str(found)
    assert "as if" not in str(found)


@pytest.mark.parametrize(
    ("returned", "said"),
    [(None, "returned None in step 1"), (({}, {}, {}), "3 values"), ([], "a list"), (([], {}), "a list for the new")],
)
def test_an_update_that_returns_something_else_is_told_with_scheme_and_rank(returned: Any, said: str) -> None:
    class Returns(Small):
        def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
            return returned

    found = str(check_scheme(lambda comm: Returns(RULE, comm), AllReduce(RULE), ranks=(1, 2), steps=1))
    assert found.startswith("Returns beside AllReduce, 1, 2 ranks")
    assert said in found
    assert "on rank 0 of 2" in found


def test_ranks_that_wait_for_each_other_are_told() -> None:
    class Waits(Small):
        def update(self, gradients, state, parameters, xp, *, evaluate=None, samples=None):
            self.comm.recv(np.empty(1), (self.comm.rank + 1) % self.comm.size)
            return dict(parameters), state

    found = check_scheme(lambda comm: Waits(RULE, comm), AllReduce(RULE), ranks=(2,), steps=1)
    assert "no rank can go on: rank 0 waits for a message from rank 1" in str(found)


def test_what_is_not_weighted_shows_with_even_numbers_of_ranks_as_well() -> None:
    unweighted = check_scheme(lambda comm: Small(RULE, comm, fault="unweighted"), AllReduce(RULE), ranks=(1, 2, 4), steps=2)
    assert "as if all ranks had equally many samples" in str(unweighted)


def test_nothing_to_check_is_refused_and_numbers_that_are_none_are_told() -> None:
    for wrong in ({"steps": 0}, {"steps": -1}, {"ranks": ()}, {"ranks": (0,)}):
        with pytest.raises(InvalidArgument, match="numbers of at least 1"):
            check_scheme(lambda comm: Small(RULE, comm), AllReduce(RULE), **wrong)
    nan = db.optimizers["sgd"](lr=lambda steps, xp: xp.array(np.nan))
    found = check_scheme(lambda comm: Small(nan, comm), AllReduce(RULE), ranks=(2,), steps=1)
    assert "step 1 returned 24 elements of 'kernel' that are not finite" in str(found)


def test_local_steps_are_not_those_of_averaging_every_time() -> None:
    """Averages of parameters are due when the reference says so."""

    class Local(Small):
        promise = "bounded"

    linear = db.optimizers["sgd"](lr=0.1)
    right = check_scheme(lambda comm: Local(linear, comm), Averaging(linear), ranks=(3,), steps=3)
    late = check_scheme(lambda comm: Local(linear, comm), Averaging(linear, every=2), ranks=(3,), steps=3)
    assert right.ok, str(right)
    assert "as if gradients were averaged and nothing else" in str(late)
