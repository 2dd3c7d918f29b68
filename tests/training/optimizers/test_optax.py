"""Every reference agrees with optax where that has it, over some steps in float32 and float64, as far as rounding goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.training import clip_norm, clip_value, compare_optimizers, decay
from deep_bench.training.compose import chain
from deep_bench.training.optimizer import CONVENTIONS, Optimizer, like
from tests.training.optimizers.agreements import RATE, STEPS, curved

jax = pytest.importorskip("jax", reason="jax is not installed")
optax = pytest.importorskip("optax", reason="optax is not installed")


@dataclass(frozen=True)
class Optax(Optimizer[Any, Any]):
    """A transformation of optax on NumPy arrays."""

    made: Any = None

    def init(self, parameters, xp):
        return {"of optax": self.made.init({name: jax.numpy.asarray(w) for name, w in parameters.items()})}

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        with jax.enable_x64(True):
            w, g = ({n: jax.numpy.asarray(x) for n, x in tree.items()} for tree in (parameters, gradients))
            changes, after = jax.jit(self.made.update)(g, state["of optax"], w)
            return {name: np.asarray(x) for name, x in optax.apply_updates(w, changes).items()}, {"of optax": after}


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


MADE: dict[str, Any] = {
    "adadelta": lambda: optax.adadelta(RATE, rho=0.9, eps=1e-6),
    "adagrad": lambda: optax.adagrad(RATE),
    "adam": lambda: optax.adam(RATE),
    "adamax": lambda: optax.adamax(RATE),
    "adamw": lambda: optax.adamw(RATE),
    "amsgrad": lambda: optax.amsgrad(RATE),
    "lamb": lambda: optax.lamb(RATE),
    "lars": lambda: optax.lars(RATE),
    "lion": lambda: optax.lion(RATE),
    "momentum": lambda: optax.sgd(RATE, momentum=0.9),
    "nadam": lambda: optax.nadam(RATE),
    "nesterov": lambda: optax.sgd(RATE, momentum=0.9, nesterov=True),
    "radam": lambda: optax.radam(RATE),
    "rmsprop": lambda: optax.rmsprop(RATE),
    "sgd": lambda: optax.sgd(RATE),
}


def test_every_convention_of_optax_is_compared() -> None:
    assert set(MADE) == set(CONVENTIONS["optax"])


@pytest.mark.long
@pytest.mark.parametrize("dtype", STEPS)
@pytest.mark.parametrize("name", MADE)
def test_with_optax(name: str, dtype: str) -> None:
    rule = db.optimizers[name](**{**like("optax", name), "lr": RATE})
    found = compare_optimizers(rule, Optax(made=MADE[name]()), dtype=dtype, steps=STEPS[dtype])
    assert found.ok, found.table()


@pytest.mark.parametrize("dtype", STEPS)
def test_muon_with_optax(dtype: str) -> None:
    """Without Nesterov's momentum, which optax corrects for bias as NAdam does; its rows are our columns.

    It adds the epsilon to the norm.
    """
    made = optax.contrib.muon(RATE, beta=0.95, eps=1e-30, nesterov=False)
    rule = db.optimizers["muon"](lr=RATE, others=None, nesterov=False, epsilon=1e-30)
    start = {"x": np.random.default_rng(0).standard_normal((6, 6))}
    found = compare_optimizers(rule, Optax(made=made), dtype=dtype, steps=STEPS[dtype], parameters=start)
    assert found.ok, found.table()


def test_parts_of_a_chain_with_optax() -> None:
    pairs = {
        "clip_norm": (clip_norm(0.5), optax.clip_by_global_norm(0.5)),
        "clip_value": (clip_value(0.25), optax.clip(0.25)),
        "decay": (decay(0.125), optax.add_decayed_weights(0.125)),
    }
    for label, (mine, theirs) in pairs.items():
        rule = chain(mine, db.optimizers["momentum"](lr=RATE))
        other = Optax(made=optax.chain(theirs, optax.sgd(RATE, momentum=0.9)))
        found = compare_optimizers(rule, other, **curved())
        assert found.ok, (label, found.table())
