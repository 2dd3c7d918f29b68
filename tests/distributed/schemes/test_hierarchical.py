"""``hierarchical``: one process with the whole batch, summed within nodes and between them."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

import deep_bench as db
from deep_bench.distributed.communicators.local import run_local
from deep_bench.distributed.schemes.averaged import Hierarchical, _Legs
from deep_bench.errors import InvalidArgument
from tests.distributed.schemes.equivalence import EVEN, PARTS, alone, check_equivalent, on_ranks

ADAM = db.optimizers["adam"](lr=0.05)


@pytest.mark.parametrize("ranks", PARTS)
def test_it_is_one_process_with_the_whole_batch(ranks: int) -> None:
    for settings in ({}, {"per_node": 1}, {"per_node": 2, "bucket": 64}, {"per_node": 3, "sum_in": "float64"}):
        found = on_ranks(lambda comm, settings=settings: Hierarchical(ADAM, comm, **settings), ranks)  # type: ignore[arg-type]
        check_equivalent(found, alone(ADAM))
    check_equivalent(on_ranks(lambda comm: Hierarchical(ADAM, comm, per_node=2), ranks, parts=EVEN), alone(ADAM))


@pytest.mark.parametrize(("framework", "native"), [("tensorflow", None), ("torch", None), ("torch", "torch.adam")])
def test_it_is_with_the_arrays_and_rules_of_frameworks(framework: str, native: str | None) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    rule = ADAM if native is None else db.optimizers[native](lr=0.05)
    check_equivalent(on_ranks(lambda comm: Hierarchical(rule, comm, per_node=2), 3, framework), alone(ADAM))


def test_a_line_search_sees_the_loss_of_all_ranks() -> None:
    rule = db.optimizers["lbfgs"](lr=0.5, history=3, line_search=True)
    found = on_ranks(lambda comm: Hierarchical(rule, comm, per_node=2), 3, steps=4)
    check_equivalent(found, alone(rule, 4), (1, 4))


def test_ranks_on_hosts_of_one_name_are_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"rank 0": "b", "rank 1": "a", "rank 2": "b", "rank 3": "a"}
    monkeypatch.setattr(socket, "gethostname", lambda: names[threading.current_thread().name])

    def on_rank(comm: Any) -> tuple[int, int, int | None]:
        legs = _Legs(comm, None)
        return legs._node.size, legs._node.rank, None if legs._between is None else legs._between.size

    assert run_local(4, on_rank) == [(2, 0, 2), (2, 0, 2), (2, 1, None), (2, 1, None)]
    check_equivalent(on_ranks(lambda comm: Hierarchical(ADAM, comm), 4, steps=3), alone(ADAM), (1, 3))


def test_a_node_has_ranks() -> None:
    with pytest.raises(InvalidArgument, match="per_node=0"):
        run_local(1, lambda comm: Hierarchical(ADAM, comm, per_node=0))
