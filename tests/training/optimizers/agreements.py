"""Which native optimizer each reference is to agree with, and with which settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import deep_bench as db
from deep_bench.training.conventions import like
from deep_bench.training.optimizer import Optimizer

LR = 2.0**-9
"""A rate that float32 holds exactly: Keras keeps it in float32 whatever the parameters are."""

Pair = tuple[str, Optimizer[Any, Any], Optimizer[Any, Any]]

_NATIVE = {"momentum": "sgd", "nesterov": "sgd", "amsgrad": "adam"}
_SETTINGS: dict[str, dict[str, Any]] = {
    "amsgrad": {"amsgrad": True},
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True},
}
_MORE: dict[str, list[tuple[str, str, dict[str, Any], dict[str, Any]]]] = {
    "torch": [
        ("momentum", "sgd", {"dampening": 0.3}, {"momentum": 0.9, "dampening": 0.3}),
        ("rmsprop", "rmsprop", {"momentum": 0.8, "centered": True}, {"momentum": 0.8, "centered": True}),
        ("adagrad", "adagrad", {"decay": 0.1, "initial": 0.2}, {"lr_decay": 0.1, "initial_accumulator_value": 0.2}),
        ("adam", "adam", {}, {"foreach": True}),
        ("adam", "adam", {}, {"fused": True}),
        ("adamw", "adamw", {}, {"foreach": True}),
        ("lbfgs", "lbfgs", {"history": 5}, {"max_iter": 1, "history_size": 5}),
    ],
    "keras": [("rmsprop", "rmsprop", {"momentum": 0.8, "centered": True}, {"momentum": 0.8, "centered": True})],
}


def pairs(library: str, optimizers: list[str]) -> Iterator[Pair]:
    """A label, the reference with a library's conventions, and that library's own through its wrapper."""
    home = {"keras": "tensorflow"}.get(library, library)
    for name in optimizers:
        native = db.optimizers[f"{home}.{_NATIVE.get(name, name)}"]
        yield name, _reference(library, name, {}), native(lr=LR, **_SETTINGS.get(name, {}))
    for name, kind, mine, theirs in _MORE[library]:
        label = f"{name} {' '.join(theirs)}"
        yield label, _reference(library, name, mine), db.optimizers[f"{home}.{kind}"](lr=LR, **theirs)


def _reference(library: str, name: str, settings: dict[str, Any]) -> Optimizer[Any, Any]:
    known = like(library, name) if name != "lbfgs" else {}
    return db.optimizers[name](**{**known, "lr": LR, **settings})


def problem(steps: int = 20) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """Where a curvature is to be had: a quadratic with noise, for L-BFGS."""
    rng = np.random.default_rng(5)
    start = {"w": rng.standard_normal((4, 6)), "b": rng.standard_normal(5)}
    scales = {name: rng.uniform(0.5, 2, x.shape) for name, x in start.items()}
    point, found = start, []
    for _ in range(steps):
        gradient = {name: np.float32(scales[name] * x) for name, x in point.items()}
        found.append(gradient)
        point = {name: x - 0.3 * gradient[name] for name, x in point.items()}
    return {name: np.float32(x) for name, x in start.items()}, found
