"""Trees of arrays between ranks, and in one file; schemes as words; arrays without arithmetic."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import leaves
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.training.checkpoint import RANKS, gathered, parted
from deep_bench.distributed.training.messages import as_bytes, broadcast, gather, of_bytes, scatter
from deep_bench.distributed.training.step import HostAdapter, with_arithmetic
from deep_bench.distributed.training.train import scheme_of
from deep_bench.errors import InvalidArgument, UnknownName
from tests.training.small import data, network

TREE = {
    "steps": np.int64(3),
    "mean": {"w/1": np.arange(6, dtype=np.float32).reshape(2, 3), "half": np.ones(2, ml_dtypes.bfloat16)},
    "none": {},
    "nothing": {"empty": np.zeros((0, 3))},
}


def _same(one: Any, other: Any) -> bool:
    here, there = leaves(one), leaves(other)
    return here.keys() == there.keys() and all(
        np.asarray(here[path]).dtype == np.asarray(there[path]).dtype and np.array_equal(here[path], there[path])
        for path in here
    )


def test_a_tree_survives_as_bytes_between_ranks() -> None:
    def on_rank(comm: Any) -> Any:
        mine = as_bytes({**TREE, "rank": np.full(comm.rank, comm.rank)})
        told = broadcast(comm, mine if comm.rank == 0 else None)
        rows = gather(comm, mine)
        back = scatter(comm, rows)
        return of_bytes(told), of_bytes(back)

    for rank, (told, back) in enumerate(run_local(3, on_rank)):
        assert _same(told, {**TREE, "rank": np.zeros(0, np.int64)})
        assert _same(back, {**TREE, "rank": np.full(rank, rank)})
        assert back["none"] == {}


def _mine(rank: int) -> Any:
    """What rank 1 lacks and what it has of its own; rank 2 is as rank 0."""
    tree = {**TREE, "own": {"x": np.full(2, rank % 2), "shape": np.zeros(1 + rank % 2)}}
    if rank == 1:
        tree = {**tree, "none": {"now": np.ones(1)}, "mean": {}}
    return tree


@pytest.mark.parametrize("size", [1, 2, 3])
def test_one_file_has_what_is_common_once_and_the_rest_of_each_rank(size: int) -> None:
    def written(comm: Any) -> Any:
        return gathered(comm, _mine(comm.rank))

    whole = run_local(size, written)[0]
    if size > 1:
        assert sorted(key for path in leaves(whole[RANKS]["1"]["own"]) for key in path[-1:]) == ["now", "shape", "x"]
    if size > 2:
        assert whole[RANKS]["2"]["own"] == {}

    def read(comm: Any) -> Any:
        return parted(comm, whole if comm.rank == 0 else None)

    for rank, (tree, others) in enumerate(run_local(size, read)):
        assert _same(tree, _mine(rank))
        assert (tree["none"] == {}) == (rank != 1)
        assert others == []
    for tree, others in run_local(size + 1, read):
        assert _same(tree, _mine(0))
        assert len(others) == size
        assert all(_same(other, _mine(rank)) for rank, other in enumerate(others))
    with pytest.raises(InvalidArgument, match="no snapshot on rank 0"):
        run_local(2, lambda comm: parted(comm, None))


def test_schemes_are_read_from_words() -> None:
    rule, alone = db.optimizers["sgd"](lr=0.1), LocalCommunicator()
    assert scheme_of("decentralised:topology=torus")(rule, alone).topology == "torus"
    assert scheme_of("allreduce:bucket=1024,sum_in=float64")(rule, alone).sum_in == "float64"
    with pytest.raises(UnknownName, match="allreduce"):
        scheme_of("all-reduce")
    with pytest.raises(UnknownName, match="bucket"):
        scheme_of("allreduce:buckets=1")
    for wrong in ("allreduce:bucket", "allreduce:bucket=1,bucket=2", "allreduce:"):
        with pytest.raises(InvalidArgument):
            scheme_of(wrong)


def test_arrays_without_arithmetic_are_computed_with_in_numpy() -> None:
    pytest.importorskip("onnxruntime")
    adapter = with_arithmetic(db.frameworks["onnxruntime"]())
    assert isinstance(adapter, HostAdapter)
    assert with_arithmetic(db.frameworks["reference"]()).name == "reference"
    model = network(dropout=False, normalized=False)
    executor, reference = (one.prepare(model, mode="train") for one in (adapter, db.frameworks["reference"]()))
    batch, ready = data()[np.arange(8)], []
    outputs, gradients = executor.gradients(batch, "loss", on_ready=lambda name, g: ready.append(name))
    expected, slopes = reference.gradients(batch, "loss")
    assert sorted(ready) == sorted(gradients) == sorted(slopes)
    np.testing.assert_allclose(outputs["loss"], expected["loss"], rtol=1e-5)
    for name, slope in slopes.items():
        np.testing.assert_allclose(gradients[name], slope, rtol=1e-4, atol=1e-6)
    executor.parameters["w1"] = np.zeros_like(executor.parameters["w1"])
    assert not executor.gradients(batch, "loss")[1]["w2"].any()  # all that is before it is 0
    assert np.array_equal(executor.bind(batch)()["loss"], executor.forward(batch)["loss"])
    with pytest.raises(InvalidArgument):
        del executor.parameters["w1"]
