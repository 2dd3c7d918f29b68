"""Top-k with error feedback, and the sum of pairs that it is sent by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.compressed import Pairs, Sparse, index_type, largest, sum_of_pairs
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.compressed import Sparse as Reference
from deep_bench.testing.schemes import check_scheme
from deep_bench.training.compose import chain, clip_norm
from tests.distributed.schemes.small_problem import (
    SAMPLES,
    best_loss,
    check_close,
    check_frameworks,
    check_resumes,
    data,
    loss_and_gradients,
    start,
    stepped,
    whole_loss,
)

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)


@pytest.mark.parametrize("k", [0.1, 1.0])
def test_it_is_the_reference(k: float) -> None:
    found = check_scheme(lambda comm: Sparse(MOMENTUM, comm, k=k), Reference(MOMENTUM, k=k))
    assert found.ok, str(found)


def test_buckets_choose_each_for_themselves() -> None:
    """With a bucket for each parameter it is the reference on each parameter alone, as the inner rule sees each alone."""
    found = run_local(3, lambda comm: stepped(Sparse(MOMENTUM, comm, k=0.3, bucket=1), 5)[0])
    reference = Reference(MOMENTUM, k=0.3)
    held: list[dict[str, Any]] = [start() for _ in range(3)]
    states = {name: reference.init([{name: p[name]} for p in held]) for name in start()}
    for step in range(5):
        slopes = [loss_and_gradients(p, *data(rank, 3))[1] for rank, p in enumerate(held)]
        new: list[dict[str, Any]] = [{} for _ in held]
        for name in start():
            given, own = [{name: g[name]} for g in slopes], [{name: p[name]} for p in held]
            moved, states[name] = reference.step(given, SAMPLES[3], states[name], own)
            for all_of, one in zip(new, moved, strict=True):
                all_of.update(one)
        held = new
        check_close([found[rank][step] for rank in range(3)], held)


def test_what_is_kept_back_is_in_the_state() -> None:
    """All that was given and all that is kept back is all there was."""

    def on_rank(comm: Any) -> Any:
        rule, held = Sparse(db.optimizers["sgd"](lr=1.0), comm, k=0.2), {"w": np.zeros(10)}
        state, rng = rule.init(held, NUMPY), np.random.default_rng(comm.rank)
        slopes = [rng.standard_normal(10) for _ in range(4)]
        for slope in slopes:
            held, state = rule.update({"w": slope}, state, held, NUMPY)
        return held["w"], state["residual"]["w"], sum(slopes) / comm.size

    moved, kept, slopes = (np.array(part) for part in zip(*run_local(3, on_rank), strict=True))
    np.testing.assert_array_equal(moved[0], moved[2])
    np.testing.assert_allclose(-moved[0] + kept.sum(axis=0), slopes.sum(axis=0), rtol=1e-12)


def test_another_number_of_ranks_goes_on_with_all_that_was_kept_back() -> None:
    rule = db.optimizers["adam"](lr=0.01)
    states = [state for _, state in run_local(4, lambda comm: stepped(Sparse(rule, comm, k=0.2), 3))]
    found = run_local(3, lambda comm: Sparse(rule, comm, k=0.2).regrouped(states))
    for name in start():
        kept = sum(state["residual"][name] for state in states)
        np.testing.assert_allclose(sum(state["residual"][name] for state in found), kept, atol=1e-14)
        np.testing.assert_array_equal(found[0]["inner"]["mean"][name], states[3]["inner"]["mean"][name])
    assert int(found[2]["steps"]) == 3


def test_frameworks_and_checkpoints(tmp_path: Path) -> None:
    check_frameworks(lambda rule, comm: Sparse(rule, comm, k=0.3))
    check_resumes(lambda comm: Sparse(MOMENTUM, comm, k=0.2, bucket=40), tmp_path)


def test_it_converges() -> None:
    for parameters in run_local(3, lambda comm: stepped(Sparse(MOMENTUM, comm, k=0.1), 150)[0][-1]):
        assert whole_loss(parameters) < best_loss() * 1.02


def test_narrow_gradients_are_remembered_in_float32() -> None:
    """Of float16, errors smaller than it can hold beside large ones are not lost."""

    def on_rank(comm: Any) -> Any:
        rule, held = Sparse(db.optimizers["sgd"](lr=1.0), comm, k=0.5), {"w": np.zeros(2, np.float16)}
        state = rule.init(held, NUMPY)
        for _ in range(3):
            held, state = rule.update({"w": np.float16([1, 0.001])}, state, held, NUMPY)
        return held["w"].dtype, state["residual"]["w"]

    for dtype, kept in run_local(3, on_rank):
        assert dtype == np.float16
        assert kept.dtype == np.float32
        np.testing.assert_allclose(kept, [0, 3 * np.float16(0.001) / 3], rtol=1e-6)


@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 2**16), st.sampled_from(["float32", "float64"]))
@settings(max_examples=30, deadline=None)
def test_pairs_add_up_to_what_all_elements_do(ranks: int, size: int, seed: int, dtype: str) -> None:
    """For any number of ranks, whether pairs or all elements are sent at last; whole numbers, so that no order matters."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(-9, 9, (ranks, size)).astype(dtype)
    dense[rng.random((ranks, size)) > rng.random()] = 0

    def on_rank(comm: Any) -> np.ndarray:
        indices = np.flatnonzero(dense[comm.rank])
        mine = Pairs(size, indices.astype(index_type(size)), dense[comm.rank][indices])
        return sum_of_pairs(comm, mine).dense()

    for found in run_local(ranks, on_rank):
        np.testing.assert_array_equal(found, dense.sum(axis=0, dtype=dtype))
        assert found.dtype == dtype


def test_all_ranks_have_the_same_bits_and_pairs_become_dense() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((5, 60)).astype(np.float32)

    def on_rank(comm: Any, count: int) -> tuple[bool, bytes, int]:
        sent: list[int] = []
        isend = comm.isend

        def counted(x: np.ndarray, to: int, tag: int = 0) -> Any:
            sent.append(x.nbytes)
            return isend(x, to, tag)

        comm.isend = counted
        chosen = largest(values[comm.rank], count)
        total = sum_of_pairs(comm, Pairs(60, chosen.astype(np.uint32), values[comm.rank][chosen]))
        return total.indices is None, total.dense().tobytes(), max(sent)

    for count, dense in ((2, False), (20, True)):
        found = run_local(5, lambda comm, count=count: on_rank(comm, count))
        assert len({bits for _, bits, _ in found}) == 1
        assert {is_dense for is_dense, _, _ in found} == {dense}
        assert max(most for _, _, most in found) <= 8 + 4 * 60
        kept = np.zeros((5, 60), np.float64)
        for rank, x in enumerate(values):
            kept[rank, largest(x, count)] = x[largest(x, count)]
        np.testing.assert_allclose(np.frombuffer(found[0][1], np.float32), kept.sum(axis=0), rtol=1e-5, atol=1e-6)


def test_the_largest_are_those_of_a_stable_sort() -> None:
    rng = np.random.default_rng(2)
    for size in (1, 2, 17):
        for count in range(1, size + 1):
            x = rng.integers(-3, 4, size).astype(np.float32)
            wanted = np.sort(np.argsort(-np.abs(x), kind="stable")[:count])
            np.testing.assert_array_equal(largest(x, count), wanted)
    assert largest(np.float32([1, np.nan, -np.inf, 2]), 2).tolist() == [1, 2]


@pytest.mark.parametrize("settings", [{"k": 0}, {"k": 1.01}, {"k": float("nan")}, {"k": True}, {"k": -0.1}, {"bucket": 0}])
def test_bad_settings_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidArgument, match="sparse with"):
        Sparse(MOMENTUM, LocalCommunicator(), **settings)


def test_rules_that_look_around_are_refused() -> None:
    searching = db.optimizers["lbfgs"](line_search=True)
    for rule in (searching, chain(clip_norm(1.0), searching)):
        with pytest.raises(InvalidArgument, match="evaluates the loss at several places"):
            Sparse(rule, LocalCommunicator())
    Sparse(db.optimizers["lbfgs"](), LocalCommunicator())
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(InvalidArgument, match="evaluates the loss at several places"):
        Sparse(db.optimizers["torch.lbfgs"](), LocalCommunicator())
    Sparse(db.optimizers["torch.lbfgs"](max_iter=1), LocalCommunicator())
