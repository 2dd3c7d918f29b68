"""Optimizers that are wrong on purpose are caught, and what is only another order of roundings is not."""

from __future__ import annotations

from typing import Any

import pytest

import deep_bench as db
from deep_bench.training import accumulate, chain, compare_optimizers, decay
from deep_bench.training.compose import Accumulated
from deep_bench.training.optimizer import Optimizer
from tests.training.optimizers.agreements import curved
from tests.training.optimizers.wrong import LINES, SETTINGS, Around, mutated, right

REFERENCES = tuple(name for name in db.optimizers if "." not in name)
STATELESS = ("sgd",)
STEPS = 5


def judged(first: Optimizer[Any, Any], *others: Optimizer[Any, Any], **options: Any) -> list[str]:
    steps = 8 if type(first).__name__ == "RAdam" else STEPS  # it rectifies from the sixth step on
    options = {"steps": steps, **options}
    if type(first).__name__ == "LBFGS":
        options = {**curved(STEPS), **options}
    found = compare_optimizers(first, *others, **options)
    return [verdict.word for verdict in found.verdicts]


@pytest.mark.parametrize("name", REFERENCES)
def test_a_sign_and_a_stale_state_are_caught(name: str) -> None:
    rule = right(name)
    faults = ["sign", *["stale state"] * (name not in STATELESS)]
    assert judged(rule, *(Around(inner=rule, fault=fault) for fault in faults)) == ["right", *["wrong"] * len(faults)]


@pytest.mark.parametrize(("name", "what", "old", "new"), LINES, ids=[f"{n}: {w}" for n, w, _, _ in LINES])
def test_a_wrong_line_is_caught(name: str, what: str, old: str, new: str) -> None:
    assert judged(right(name), mutated(name, old, new)) == ["right", "wrong"]


@pytest.mark.parametrize(("name", "what", "settings"), SETTINGS, ids=[f"{n}: {w}" for n, w, _ in SETTINGS])
def test_another_convention_is_caught(name: str, what: str, settings: dict[str, Any]) -> None:
    assert judged(right(name), right(name, **settings)) == ["right", "wrong"]


def test_coupled_decay_is_not_decoupled() -> None:
    coupled = chain(decay(0.01), db.optimizers["adam"]())
    assert judged(db.optimizers["adamw"](), coupled) == ["right", "wrong"]


def test_an_accumulator_that_is_not_reset_is_caught() -> None:
    class NotReset(Accumulated):
        def update(self, gradients, state, parameters, xp, *, evaluate=None):
            new, after = super().update(gradients, state, parameters, xp)
            return new, {**after, "sum": {n: state["sum"][n] + g for n, g in gradients.items()}}

    sgd = db.optimizers["sgd"]()
    assert judged(chain(accumulate(2), sgd), NotReset(2, sgd)) == ["right", "wrong"]


@pytest.mark.parametrize("name", ["adam", "lion", "rmsprop"])
def test_the_order_of_roundings_is_no_fault(name: str) -> None:
    lines = {
        "adam": ("self.beta1 * m + (1 - self.beta1) * g", "m + (1 - self.beta1) * (g - m)"),
        "lion": ("w - xp.cast(r, w) * step", "w + step * -xp.cast(r, w)"),
        "rmsprop": ("(1 - self.rho) * (g * g)", "((1 - self.rho) * g) * g"),
    }
    assert judged(right(name), mutated(name, *lines[name]), steps=40) == ["right", "right"]
