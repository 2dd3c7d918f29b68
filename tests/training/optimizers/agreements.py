"""Which optimizer of each library a reference is to agree with, and with which settings.

Keras rounds its settings to float32 whatever the parameters are, so its settings are numbers that float32 holds exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

RATE = 2.0**-9
STEPS = {"float32": 8, "float64": 12}
"""RAdam rectifies from the sixth on; settings that differ show in float64 at once. The oracle's steps are what costs."""
B1, B2, EPSILON = 0.875, 1 - 2.0**-10, 3 * 2.0**-25
_BETAS = {"beta1": B1, "beta2": B2, "epsilon": EPSILON}
_KERAS = {"beta_1": B1, "beta_2": B2, "epsilon": EPSILON}

Row = tuple[str, dict[str, Any], str, dict[str, Any]]

TORCH: tuple[Row, ...] = (
    ("sgd", {}, "sgd", {}),
    ("momentum", {"momentum": 0.8, "dampening": 0.3}, "sgd", {"momentum": 0.8, "dampening": 0.3}),
    ("momentum", {}, "sgd", {"momentum": 0.9, "foreach": True}),
    ("nesterov", {}, "sgd", {"momentum": 0.9, "nesterov": True}),
    ("adagrad", {"decay": 0.1, "initial": 0.2}, "adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("adagrad", {}, "adagrad", {}),
    ("rmsprop", {}, "rmsprop", {}),
    ("rmsprop", {"momentum": 0.8, "centered": True}, "rmsprop", {"momentum": 0.8, "centered": True}),
    ("adadelta", {}, "adadelta", {}),
    ("adam", {}, "adam", {}),
    ("adam", {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-6}, "adam", {"betas": (0.8, 0.9), "eps": 1e-6, "foreach": True}),
    ("adam", {}, "adam", {"fused": True}),
    ("amsgrad", {}, "adam", {"amsgrad": True}),
    ("adamw", {}, "adamw", {}),
    ("adamax", {}, "adamax", {}),
    ("nadam", {}, "nadam", {}),
    ("radam", {}, "radam", {}),
    ("adafactor", {"epsilon": 1e-12, "epsilon_beside": "estimate"}, "adafactor", {"eps": (1e-12, 1e-3), "weight_decay": 0}),
    ("lbfgs", {"history": 3}, "lbfgs", {"max_iter": 1, "history_size": 3, "tolerance_grad": 0, "tolerance_change": 0}),
)

KERAS: tuple[Row, ...] = (
    ("sgd", {}, "sgd", {}),
    ("momentum", {"momentum": B1, "rate_in_velocity": True}, "sgd", {"momentum": B1}),
    ("nesterov", {"momentum": B1, "rate_in_velocity": True}, "sgd", {"momentum": B1, "nesterov": True}),
    (
        "adagrad",
        {"epsilon": EPSILON, "epsilon_beside": "square", "initial": 0.125},
        "adagrad",
        {"epsilon": EPSILON, "initial_accumulator_value": 0.125},
    ),
    (
        "rmsprop",
        {"rho": B1, "epsilon": EPSILON, "epsilon_beside": "square", "rate_in_velocity": True, "momentum": 0.5}
        | {"centered": True},
        "rmsprop",
        {"rho": B1, "epsilon": EPSILON, "momentum": 0.5, "centered": True},
    ),
    ("adadelta", {"rho": B1, "epsilon": EPSILON}, "adadelta", {"rho": B1, "epsilon": EPSILON}),
    ("adam", {**_BETAS, "epsilon_beside": "raw"}, "adam", _KERAS),
    ("amsgrad", {**_BETAS, "epsilon_beside": "raw"}, "adam", {**_KERAS, "amsgrad": True}),
    (
        "adamw",
        {**_BETAS, "epsilon_beside": "raw", "weight_decay": 0.125},
        "adamw",
        {**_KERAS, "weight_decay": 0.125},
    ),
    ("adamax", {**_BETAS, "epsilon_beside": "largest"}, "adamax", _KERAS),
    ("nadam", {**_BETAS, "momentum_decay": 1.0}, "nadam", _KERAS),
    ("lamb", _BETAS, "lamb", _KERAS),
    ("lion", {"beta1": B1, "beta2": B2}, "lion", {"beta_1": B1, "beta_2": B2}),
    (
        "adafactor",
        {"decay": 0.75, "epsilon": 2.0**-80, "least_scale": 2.0**-10},
        "adafactor",
        {"beta_2_decay": -0.75, "epsilon_1": 2.0**-80, "epsilon_2": 2.0**-10},
    ),
)


def curved(steps: int = 20) -> dict[str, Any]:
    """Gradients that have a curvature in them, for L-BFGS: those of a quadratic along some path."""
    rng = np.random.default_rng(5)
    start = {"w": rng.standard_normal((4, 6)), "b": rng.standard_normal(5)}
    scales = {name: rng.uniform(0.5, 2, x.shape) for name, x in start.items()}
    point, found = start, []
    for _ in range(steps):
        found.append({name: np.float32(scales[name] * x) for name, x in point.items()})
        point = {name: x - 0.3 * found[-1][name] for name, x in point.items()}
    return {"parameters": {name: np.float32(x) for name, x in start.items()}, "gradients": found}


def matrices() -> dict[str, Any]:
    """A wide and a tall matrix, for what takes no others."""
    rng = np.random.default_rng(6)
    return {"parameters": {name: rng.standard_normal(shape) for name, shape in {"wide": (4, 6), "tall": (9, 5)}.items()}}
