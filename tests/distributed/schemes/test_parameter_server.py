"""``parameter-server``: one process with the whole batch, whose state is on rank 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import run_local
from deep_bench.distributed.schemes.server import ParameterServer
from deep_bench.errors import InvalidArgument
from tests.distributed.schemes.equivalence import EVEN, PARTS, alone, check_equivalent, on_ranks

RULES: dict[str, Any] = {
    "adam": db.optimizers["adam"](lr=0.05),
    "accelegrad": db.optimizers["accelegrad"](),  # wants gradients elsewhere than at the parameters
}


@pytest.mark.parametrize("ranks", PARTS)
def test_it_is_one_process_with_the_whole_batch(ranks: int) -> None:
    for rule in RULES.values():
        check_equivalent(on_ranks(lambda comm, rule=rule: ParameterServer(rule, comm), ranks), alone(rule))
    found = on_ranks(lambda comm: ParameterServer(RULES["adam"], comm), ranks, parts=EVEN)
    check_equivalent(found, alone(RULES["adam"]))


@pytest.mark.parametrize("ranks", PARTS)
@pytest.mark.parametrize(("framework", "native"), [("tensorflow", None), ("torch", None), ("torch", "torch.adam")])
def test_it_is_with_the_arrays_and_rules_of_frameworks(framework: str, native: str | None, ranks: int) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    rule = RULES["adam"] if native is None else db.optimizers[native](lr=0.05)
    check_equivalent(on_ranks(lambda comm: ParameterServer(rule, comm), ranks, framework), alone(RULES["adam"]))


def test_only_rank_0_has_a_state_and_its_own_gradient_counts() -> None:
    def on_rank(comm: Any) -> tuple[list[str], float]:
        rule = ParameterServer(db.optimizers["momentum"](lr=1.0), comm)
        w = {"w": np.zeros(1)}
        state = rule.init(w, NUMPY)
        for _ in range(2):
            w, state = rule.update({"w": np.array([6.0 if comm.rank == 0 else 0.0])}, state, w, NUMPY)
        return sorted(rule.restored(state, w)), w["w"].item()

    mean = 6.0 / 3
    assert run_local(3, on_rank) == [(["momentum", "steps"], -mean * 2.9), ([], -mean * 2.9), ([], -mean * 2.9)]


def test_with_another_number_of_ranks_rank_0_goes_on_with_the_state() -> None:
    kept = [{"steps": np.array(3), "momentum": {"w": np.ones(1)}}, {}]

    def on_rank(comm: Any, rule: Any) -> Any:
        return ParameterServer(rule, comm).regrouped(kept)

    momentum, ahead = db.optimizers["momentum"](), RULES["accelegrad"]
    assert run_local(3, lambda comm: on_rank(comm, momentum)) == [kept[0], {}, {}]
    with pytest.raises(InvalidArgument, match="a checkpoint of 2 ranks"):
        run_local(3, lambda comm: on_rank(comm, ahead))


def test_torch_tensors_stay_the_same_objects_on_all_ranks() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    xp = db.frameworks["torch"]().xp

    def on_rank(comm: Any) -> tuple[bool, list[float]]:
        rule = ParameterServer(db.optimizers["torch.sgd"](lr=1.0), comm)
        w = {"w": torch.zeros(2)}
        new, _ = rule.update({"w": torch.full((2,), comm.rank * 2.0)}, rule.init(w, xp), w, xp)
        return new["w"] is w["w"], new["w"].tolist()

    assert run_local(2, on_rank) == [(True, [-1.0, -1.0])] * 2


def test_line_searches_are_refused() -> None:
    rule = db.optimizers["lbfgs"](line_search=True)
    with pytest.raises(InvalidArgument, match="evaluates the loss at several places"):
        run_local(2, lambda comm: ParameterServer(rule, comm))
