"""``sharded-state``: one process with the whole batch, with each parameter's state on one rank only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY, leaves
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.sharded_state import ShardedState, dealt
from deep_bench.errors import Unsupported
from deep_bench.training.compose import accumulate, average, chain, clip_norm, clip_value, decay
from deep_bench.training.optimizer import Optimizer
from tests.distributed.schemes.equivalence import EVEN, PARTS, alone, check_equivalent, on_ranks, start

ADAM = db.optimizers["adam"](lr=0.05)


@pytest.mark.parametrize("ranks", PARTS)
def test_it_is_one_process_with_the_whole_batch(ranks: int) -> None:
    check_equivalent(on_ranks(lambda comm: ShardedState(ADAM, comm), ranks), alone(ADAM))
    check_equivalent(on_ranks(lambda comm: ShardedState(ADAM, comm), ranks, parts=EVEN), alone(ADAM))


@pytest.mark.parametrize("ranks", PARTS)
@pytest.mark.parametrize(("framework", "native"), [("tensorflow", None), ("torch", None), ("torch", "torch.adam")])
def test_it_is_with_the_arrays_and_rules_of_frameworks(framework: str, native: str | None, ranks: int) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    rule = ADAM if native is None else db.optimizers[native](lr=0.05)
    check_equivalent(on_ranks(lambda comm: ShardedState(rule, comm), ranks, framework), alone(ADAM))


@pytest.mark.parametrize("ranks", [1, 3])
def test_its_own_clipping_is_that_of_one_process(ranks: int) -> None:
    wanted = alone(chain(clip_norm(0.05), ADAM), 20)
    check_equivalent(on_ranks(lambda comm: ShardedState(ADAM, comm, clip=0.05), ranks, steps=20), wanted, (1, 20))


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_every_parameter_has_its_state_on_one_rank(ranks: int) -> None:
    def on_rank(comm: Any) -> tuple[Any, Any]:
        rule = ShardedState(chain(decay(0.1), db.optimizers["momentum"]()), comm)
        w = {**start(), "long": np.ones(100), "longer": np.ones(101)}  # of float64, beside float32
        state = rule.init(w, NUMPY)
        for _ in range(3):
            w, state = rule.update({name: x * (comm.rank + 1) for name, x in w.items()}, state, w, NUMPY)
        return rule.restored(state, w), w

    found = run_local(ranks, on_rank)
    kept = [name for state, _ in found for name in state.get("momentum", {})]
    assert sorted(kept) == sorted([*start(), "long", "longer"])
    sizes = sorted(sum(x.size for x in state.get("momentum", {}).values()) for state, _ in found)
    assert sizes[-1] <= max(101, 289 / ranks * 4 / 3)  # Graham's bound for the largest first
    for _, w in found[1:]:
        for name, x in w.items():
            np.testing.assert_array_equal(x, found[0][1][name])
            assert x.dtype == (np.float64 if "long" in name else np.float32)


def test_more_ranks_than_parameters() -> None:
    def on_rank(comm: Any) -> tuple[float, bool]:
        rule = ShardedState(ADAM, comm, clip=1.0)
        w = {"w": np.zeros(1)}
        w, state = rule.update({"w": np.ones(1)}, rule.init(w, NUMPY), w, NUMPY, samples=1)
        return w["w"].item(), bool(state)

    assert run_local(3, on_rank) == [
        (pytest.approx(-0.05), True),
        (pytest.approx(-0.05), False),
        (pytest.approx(-0.05), False),
    ]


def test_parameters_are_dealt_to_the_rank_that_has_least() -> None:
    assert dealt({"a": 1, "b": 8, "c": 7, "d": 6, "e": 2}, 3) == {"b": 0, "c": 1, "d": 2, "e": 2, "a": 1}
    assert dealt({"a": 0}, 2) == {"a": 0}


@dataclass(frozen=True)
class Own(Optimizer):
    """A rule of a user's that says nothing."""

    def init(self, parameters: Any, xp: Any) -> Any:
        return {}

    def update(self, gradients: Any, state: Any, parameters: Any, xp: Any, *, evaluate: Any = None) -> Any:
        return dict(parameters), state


@pytest.mark.parametrize("rule", [
    db.optimizers["lbfgs"](),
    db.optimizers["accelegrad"](),
    db.optimizers["muon"](others=Own()),
    chain(clip_norm(1.0), ADAM),
    chain(accumulate(2), average(), clip_norm(1.0), ADAM),
    Own(),
], ids=lambda rule: type(rule).__name__)  # fmt: skip
def test_rules_that_may_need_all_gradients_are_refused(rule: Any) -> None:
    with pytest.raises(Unsupported, match="clip=…"):
        ShardedState(rule, LocalCommunicator())


@dataclass(frozen=True)
class Ahead(Own):
    """A rule that looks ahead, parameter by parameter."""

    separable = True

    def prepare(self, parameters: Any, state: Any) -> Any:
        return {name: w + state[name] for name, w in parameters.items()}


def test_a_rule_that_looks_ahead_is_refused() -> None:
    with pytest.raises(Unsupported, match="elsewhere than at the parameters"):
        ShardedState(chain(decay(0.1), Ahead()), LocalCommunicator())


WRAPPED = {
    "accumulated": chain(accumulate(2), ADAM),
    "averaged": chain(average(0.5), ADAM),
    "clipped": chain(clip_value(0.5), decay(0.1), ADAM),
}


@pytest.mark.parametrize("name", [*(name for name in db.optimizers if "." not in name), *WRAPPED])
def test_a_rule_that_says_so_updates_each_parameter_by_itself(name: str) -> None:
    rule = WRAPPED.get(name) or db.optimizers[name]()
    together, apart = _trained(rule, start()), {}
    for parameter, w in start().items():
        apart |= _trained(rule, {parameter: w})
    alike = all(np.array_equal(together[path], apart[path]) for path in together if path[-1] in start())
    assert alike == rule.separable


@pytest.mark.parametrize("home", ["tensorflow", "torch"])
def test_so_do_the_rules_of_frameworks(home: str) -> None:
    pytest.importorskip(home, reason=f"{home} is not installed")
    rules = [db.optimizers[name]() for name in db.optimizers if name.startswith(f"{home}.")]
    assert {rule.kind for rule in rules if not rule.separable} == ({"LBFGS"} if home == "torch" else set())
    if home == "tensorflow":
        assert not db.optimizers["tensorflow.adam"](global_clipnorm=1.0).separable


def _trained(rule: Any, w: dict[str, np.ndarray]) -> dict[Any, np.ndarray]:
    """Parameters and state after some steps."""
    state, rng = rule.init(w, NUMPY), np.random.default_rng(1)
    drawn = {name: rng.standard_normal((4, *x.shape)).astype(x.dtype) for name, x in start().items()}
    for step in range(4):
        w, state = rule.update({name: drawn[name][step] for name in w}, state, w, NUMPY)
    return leaves({"parameters": w, "state": state})
