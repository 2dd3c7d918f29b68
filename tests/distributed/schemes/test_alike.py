"""Gradients that do not fit, dicts in another order, numbers of samples: what each scheme refuses, or takes all the same."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import run_local
from deep_bench.errors import InvalidArgument

SGD = db.optimizers["sgd"](lr=1.0)
SCHEMES = sorted(db.distributed_optimizers)
LOCKSTEP = [name for name in SCHEMES if db.distributed_optimizers[name].lockstep]


def step(name: str, comm: Any, parameters: Any, gradients: Any, samples: Any = None, init: Any = None) -> Any:
    """One step of a rank, or the server's run."""
    rule = db.distributed_optimizers[name](SGD, comm)
    if rule.dedicated and comm.size > 1 and comm.rank == 0:
        return rule.serve(parameters, NUMPY)[0]
    state = rule.init(parameters if init is None else init, NUMPY)
    new, state = rule.update(gradients, state, parameters, NUMPY, samples=samples)
    return rule.finish(state, new, NUMPY)[0]


def start() -> dict[str, np.ndarray]:
    return {"w": np.arange(6.0).reshape(2, 3), "v": np.arange(3.0), "u": np.arange(3.0) + 10}


@pytest.mark.parametrize("name", SCHEMES)
def test_gradients_that_do_not_fit_are_refused(name: str) -> None:
    wrong = [
        ({"w": np.ones((3, 2))}, r"'w': float64\[3, 2\]"),
        ({"w": np.ones((1, 3))}, r"'w': float64\[1, 3\]"),
        ({"v": np.ones(3, np.float32)}, "'v': float32"),
        ({"v": None}, "without 'v'"),
        ({"more": np.ones(1)}, "besides others 'more'"),
    ]
    for change, told in wrong:
        gradients = {n: g for n, g in {**start(), **change}.items() if g is not None}
        for size in (1, 2):
            with pytest.raises(InvalidArgument, match=told):
                run_local(size, lambda comm, gradients=gradients: step(name, comm, start(), gradients))
    for samples in (1.5, 0.5, -1, True):
        with pytest.raises(InvalidArgument, match="a whole number of at least 0"):
            run_local(1, lambda comm, samples=samples: step(name, comm, start(), start(), samples))


@pytest.mark.parametrize("name", SCHEMES)
def test_the_order_of_a_dict_mixes_nothing(name: str) -> None:
    """Rank 1 hands its gradients in, and its parameters after ``init``, the other way round."""

    def on_rank(comm: Any, turned: bool) -> Any:
        w, g = start(), {n: x + comm.rank for n, x in start().items()}
        back = [dict(reversed(x.items())) if turned and comm.rank == 1 else x for x in (w, g)]
        return step(name, comm, *back, init=w)

    straight, turned = (run_local(2, lambda comm, turned=turned: on_rank(comm, turned)) for turned in (False, True))
    for one, other in zip(straight, turned, strict=True):
        for n in one:
            np.testing.assert_array_equal(one[n], other[n])


@pytest.mark.parametrize("name", LOCKSTEP)
def test_ranks_that_hold_something_else_are_told(name: str) -> None:
    def reversed_on_one(comm: Any) -> Any:
        held = dict(reversed(start().items())) if comm.rank == 1 else start()
        return step(name, comm, held, held)

    with pytest.raises(InvalidArgument, match=r"other parameters|parameter 0 is 'u' .* on rank 1, and 'w'|order"):
        run_local(3, reversed_on_one)


@pytest.mark.parametrize("name", SCHEMES)
def test_ranks_with_another_network_are_refused_before_anything_is_mixed(name: str) -> None:
    others = [
        ({"v": np.ones(6)}, r"parameter 0 is 'v' float64\[6\] on rank 1, and 'w' float64\[3, 2\] on rank 0"),
        ({"w": np.ones((2, 3))}, r"parameter 0 is 'w' float64\[2, 3\] on rank 1, and 'w' float64\[3, 2\] on rank 0"),
        ({"w": np.ones((3, 2), np.float32)}, r"'w' float32\[3, 2\] on rank 1"),
    ]
    for other, told in others:
        asked: dict[int, str] = {}

        def on_rank(comm: Any, other: Any = other, asked: Any = asked) -> None:
            held = other if comm.rank == 1 else {"w": np.ones((3, 2))}
            try:
                step(name, comm, held, held)
            except InvalidArgument as error:
                asked[comm.rank] = str(error)

        run_local(2, on_rank)
        assert sorted(asked) == [0, 1]
        assert re.search(told, asked[1])


@pytest.mark.parametrize("name", SCHEMES)
def test_parameters_keep_their_element_type(name: str) -> None:
    held = {n: x.astype(ml_dtypes.bfloat16) for n, x in start().items()}
    for size in (1, 2):
        for found in run_local(size, lambda comm: step(name, comm, held, held)):
            assert {x.dtype for x in found.values()} == {np.dtype(ml_dtypes.bfloat16)}
