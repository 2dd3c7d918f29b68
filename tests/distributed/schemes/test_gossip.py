"""AD-PSGD: pairs as they happen, which the reference repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY, mapped
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.neighbours import Gossip
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.neighbours import Gossip as Reference
from tests.distributed.schemes.small_problem import check_close, check_neighbourhood, data, loss_and_gradients, start

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)


def run(
    ranks: int,
    steps: tuple[int, ...],
    *,
    order: Any = None,
    rule: Any = MOMENTUM,
    framework: str = "reference",
    dtype: str = "float64",
    seed: int = 0,
    parts: int = 2,
    choices: list[int] | None = None,
) -> tuple[list[dict[str, np.ndarray]], list[tuple[int, int]]]:
    """What each rank has in the end, and what happened; rank ``r`` takes ``steps[r % len(steps)]`` steps."""
    device, record = db.frameworks[framework](), []

    def on_rank(comm: Any) -> Any:
        scheme, xp = Gossip(rule, comm, seed=seed, record=record), device.xp
        x, y = data(comm.rank % parts, parts)
        held = mapped(device.from_numpy, start(dtype))
        state = scheme.init(held, xp)
        for _ in range(steps[comm.rank % len(steps)]):
            slopes = loss_and_gradients(mapped(device.to_numpy, scheme.prepare(held, state)), x, y)[1]
            held, state = scheme.update(mapped(device.from_numpy, slopes), state, held, xp, samples=len(x))
        return mapped(device.to_numpy, scheme.finish(state, held, xp)[0])

    return run_local(ranks, on_rank, order=order, choices=choices), record


def check(found: list[Any], record: list[tuple[int, int]], tolerance: float = 1e-12) -> tuple[int, ...]:
    """Whether the reference comes to the same by the recorded pairs."""
    held: Any = [start(str(one["w"].dtype)) for one in found]
    meetings = Reference(MOMENTUM).run(record, lambda i, p, _: loss_and_gradients(p, *data(i % 2, 2))[1], held)
    check_close(found, list(meetings.parameters[-1]), tolerance)
    return meetings.staleness


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 7])
def test_the_reference_repeats_what_happened(ranks: int) -> None:
    """With any number of ranks, and where some take fewer steps: nobody waits for ever, and all steps are there."""
    records, stale = set(), 0
    for order in (None, 0, 1, 2):
        found, record = run(ranks, (4, 1, 6), order=order)
        stale = max(stale, *check(found, record))
        records.add(tuple(record))
        assert [sum(i == rank for i, _ in record) for rank in range(ranks)] == [(4, 1, 6)[r % 3] for r in range(ranks)]
        assert all(i % 2 == 0 and j % 2 == 1 and abs(i - j) in (1, ranks - 1) for i, j in record if i != j)
        assert all(i % 2 == 1 for i, j in record if i == j and ranks > 1)
    assert len(records) > 1 or ranks < 3
    assert stale > 0 or ranks == 1


def test_a_replayed_order_is_the_same_run() -> None:
    choices: list[int] = []
    found, record = run(4, (5,), order=9, choices=choices)
    again, same = run(4, (5,), order=choices)
    assert record == same
    np.testing.assert_array_equal(found[2]["w"], again[2]["w"])


def test_partners_are_drawn_from_seed_step_and_rank() -> None:
    def partners(seed: int) -> list[int]:
        return [j for i, j in run(4, (12,), seed=seed)[1] if i == 2 and j != 2]

    assert set(partners(0)) == {1, 3}
    assert partners(0) == partners(0) != partners(1)


@pytest.mark.parametrize("rule", ["momentum", "torch.sgd"])
def test_torch(rule: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    native = db.optimizers[rule](lr=0.1, momentum=0.5)
    for dtype, tolerance in (("float32", 2e-5), ("float64", 1e-12)):
        check(*run(3, (4,), order=1, rule=native, framework="torch", dtype=dtype), tolerance)


def test_averages_pull_ranks_together_and_keep_the_mean() -> None:
    def on_rank(comm: Any) -> float:
        scheme, w = Gossip(db.optimizers["sgd"](lr=0.0), comm), {"w": np.array([2.0**comm.rank])}
        state = scheme.init(w, NUMPY)
        for _ in range(40):
            w, state = scheme.update({"w": np.ones(1)}, state, w, NUMPY)  # type: ignore[assignment]
        return float(scheme.finish(state, w, NUMPY)[0]["w"][0])

    found = run_local(4, on_rank, order=0)
    np.testing.assert_allclose(found, 15 / 4, rtol=1e-6)


def test_it_converges() -> None:
    """All ranks have the same samples: those that step on when others have ended would else pull towards their own."""
    found, _ = run(4, (120,), parts=1, order=0)
    check_neighbourhood(found, 1)


def test_bad_settings_are_refused() -> None:
    for seed in (-1, 0.5):
        with pytest.raises(InvalidArgument, match="gossip with seed="):
            Gossip(MOMENTUM, LocalCommunicator(), seed=seed)  # type: ignore[arg-type]
