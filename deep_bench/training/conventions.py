"""What other libraries' optimizers do by default, as settings of the references."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from deep_bench.errors import UnknownName

_KERAS_ADAM = {"epsilon": 1e-7, "epsilon_beside": "raw"}

CONVENTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "keras": {
            "adadelta": {"lr": 0.001, "rho": 0.95, "epsilon": 1e-7},
            "adafactor": {"lr": 0.001},
            "adagrad": {"lr": 0.001, "epsilon": 1e-7, "epsilon_beside": "square", "initial": 0.1},
            "adam": _KERAS_ADAM,
            "adamax": {"lr": 0.001, "epsilon": 1e-7, "epsilon_beside": "largest"},
            "adamw": {**_KERAS_ADAM, "weight_decay": 0.004},
            "amsgrad": _KERAS_ADAM,
            "lamb": {"epsilon": 1e-7},
            "lion": {"lr": 0.001},
            "momentum": {"rate_in_velocity": True},
            "nadam": {"lr": 0.001, "epsilon": 1e-7, "momentum_decay": 1.0},
            "nesterov": {"rate_in_velocity": True},
            "rmsprop": {
                "lr": 0.001,
                "rho": 0.9,
                "epsilon": 1e-7,
                "epsilon_beside": "square",
                "rate_in_velocity": True,
            },
            "sgd": {},
        },
        "onnx": {
            "adagrad": {"epsilon": 1e-6},
            "adam": {"epsilon": 1e-6, "epsilon_beside": "raw"},
            "momentum": {},
            "nesterov": {},
        },
        "optax": {
            "adadelta": {},
            "adagrad": {"epsilon": 1e-7, "epsilon_beside": "square", "initial": 0.1},
            "adam": {},
            "adamax": {},
            "adamw": {"weight_decay": 1e-4},
            "amsgrad": {"largest_of": "corrected"},
            "lamb": {},
            "lars": {"weight_decay": 0.0, "relative_to": "decayed"},
            "lion": {"weight_decay": 0.001},
            "momentum": {},
            "nadam": {"lr": 0.001, "momentum_decay": None},
            "nesterov": {},
            "radam": {"epsilon_beside": "corrected"},
            "rmsprop": {"rho": 0.9, "epsilon_beside": "square", "rate_in_velocity": True},
            "sgd": {},
        },
        "torch": {
            "adadelta": {},
            "adafactor": {"epsilon": 2.0**-23, "epsilon_beside": "estimate"},
            "adagrad": {},
            "adam": {},
            "adamax": {},
            "adamw": {},
            "amsgrad": {},
            "momentum": {},
            "muon": {"lr": 0.001, "weight_decay": 0.1},
            "nadam": {},
            "nesterov": {},
            "radam": {},
            "rmsprop": {},
            "sgd": {},
        },
    }
)
"""Library to optimizer of ``db.optimizers`` to the settings that differ from the reference's defaults.

optax has no default rate where the reference's stays. torch's ``Adafactor`` takes the epsilon of the element type, here that
of float32.
"""


def like(library: str, optimizer: str) -> dict[str, Any]:
    """The settings with which a reference does what a library's optimizer of this name does by default.

    Args:
        library: ``"torch"``, ``"keras"``, ``"optax"`` or ``"onnx"``.
        optimizer: A name of ``db.optimizers`` without a prefix.

    Raises:
        UnknownName: No such library, or none of its optimizers.

    Example:
        >>> import deep_bench as db
        >>> db.optimizers["adam"](**{**like("keras", "adam"), "lr": 0.01})
        Adam(lr=0.01, beta1=0.9, beta2=0.999, epsilon=1e-07, epsilon_beside='raw', correct_bias=True)
    """
    if library not in CONVENTIONS:
        raise UnknownName("library", library, CONVENTIONS)
    if optimizer not in CONVENTIONS[library]:
        raise UnknownName(f"optimizer of {library}", optimizer, CONVENTIONS[library])
    return dict(CONVENTIONS[library][optimizer])
