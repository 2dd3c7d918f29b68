"""Optimizers that are wrong on purpose are caught, and what is only another order of roundings is not."""

from __future__ import annotations

from collections.abc import Mapping
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


def judged(first: Optimizer[Any, Any], others: Mapping[str, Optimizer[Any, Any]], **options: Any) -> dict[str, str]:
    steps = 8 if type(first).__name__ == "RAdam" else STEPS  # it rectifies from the sixth step on
    options = {"steps": steps, **options}
    if type(first).__name__ == "LBFGS":
        options = {**curved(STEPS), **options}
    found = compare_optimizers({"itself": first, **others}, **options)
    return {verdict.label: verdict.word for verdict in found.verdicts}


@pytest.mark.long
@pytest.mark.parametrize("name", REFERENCES)
def test_what_is_wrong_is_caught(name: str) -> None:
    """A sign, a stale state, each line with a fault, each other convention: all beside one oracle, which costs the most."""
    faults = ["sign", *["stale state"] * (name not in STATELESS)]
    wrong = {fault: Around(inner=right(name), fault=fault) for fault in faults}
    wrong |= {what: mutated(name, old, new) for of, what, old, new in LINES if of == name}
    wrong |= {f"convention: {what}": right(name, **settings) for of, what, settings in SETTINGS if of == name}
    assert judged(right(name), wrong) == {"itself": "right", **dict.fromkeys(wrong, "wrong")}


def test_each_fault_is_of_a_reference() -> None:
    assert {name for name, *_ in (*LINES, *SETTINGS)} <= set(REFERENCES)


def test_coupled_decay_is_not_decoupled() -> None:
    coupled = chain(decay(0.01), db.optimizers["adam"]())
    assert judged(db.optimizers["adamw"](), {"coupled": coupled}) == {"itself": "right", "coupled": "wrong"}


def test_an_accumulator_that_is_not_reset_is_caught() -> None:
    class NotReset(Accumulated):
        def update(self, gradients, state, parameters, xp, *, evaluate=None):
            new, after = super().update(gradients, state, parameters, xp)
            return new, {**after, "sum": {n: state["sum"][n] + g for n, g in gradients.items()}}

    sgd = db.optimizers["sgd"]()
    found = judged(chain(accumulate(2), sgd), {"not reset": NotReset(2, sgd)})
    assert found == {"itself": "right", "not reset": "wrong"}


@pytest.mark.parametrize("name", ["adam", "lion", "rmsprop"])
def test_the_order_of_roundings_is_no_fault(name: str) -> None:
    lines = {
        "adam": ("self.beta1 * m + (1 - self.beta1) * g", "m + (1 - self.beta1) * (g - m)"),
        "lion": ("w - xp.cast(r, w) * step", "w + step * -xp.cast(r, w)"),
        "rmsprop": ("(1 - self.rho) * (g * g)", "((1 - self.rho) * g) * g"),
    }
    found = judged(right(name), {"other order": mutated(name, *lines[name])}, steps=40)
    assert found == {"itself": "right", "other order": "right"}
