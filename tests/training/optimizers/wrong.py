"""Optimizers that are wrong on purpose: by a changed line of the reference, a setting, or something around it."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any

import deep_bench as db
from deep_bench.training.optimizer import Optimizer

LINES: tuple[tuple[str, str, str, str], ...] = (
    ("momentum", "the velocity is not kept", "self.momentum * v + xp.cast", "0.0 * v + xp.cast"),
    ("momentum", "dampened from the start", 'xp.array(state["steps"]) > 0', 'xp.array(state["steps"]) >= 0'),
    ("nesterov", "no look ahead", "step = g + self.momentum * v", "step = v"),
    ("adagrad", "squares forgotten", "h = h + g * g", "h = g * g"),
    ("adagrad", "epsilon under the root", "xp.sqrt(h) + self.epsilon if", "xp.sqrt(h + self.epsilon) if"),
    ("rmsprop", "rho on the wrong side", 'self.rho * slots["square"]', '(1 - self.rho) * slots["square"]'),
    ("rmsprop", "epsilon under the root", "xp.sqrt(variance) + self.epsilon", "xp.sqrt(variance + self.epsilon)"),
    ("adadelta", "step's square not gathered", "d = self.rho * d + (1 - self.rho) * (step * step)", "d = d"),
    ("adadelta", "epsilon beside the root", "xp.sqrt(s + self.epsilon) * g", "(xp.sqrt(s) + self.epsilon) * g"),
    ("adam", "beta1 for beta2", "self.beta2 * s + (1 - self.beta2)", "self.beta1 * s + (1 - self.beta1)"),
    ("adam", "beta2 for beta1", "self.beta1 * m + (1 - self.beta1)", "self.beta2 * m + (1 - self.beta2)"),
    ("adam", "epsilon under the root", "xp.sqrt(s) / xp.cast(root, w) + self", "xp.sqrt(s + self.epsilon) + 0 * self"),
    ("amsgrad", "no maximum", "h = xp.maximum(h, s / xp.cast(weight, w))", "h = s"),
    ("adamw", "decay coupled", "m = self.beta1 * m", "g = g + self.weight_decay * w; m = self.beta1 * m"),
    ("adamw", "decay forgotten", "xp.cast(retention, w) * w - step", "w - step"),
    ("adamax", "beta1 for beta2", "self.beta2 * u", "self.beta1 * u"),
    ("adamax", "no bias correction", '/ (1 - xp.power(self.beta1, state["steps"] + 1))', "* 1.0"),
    ("nadam", "no bias correction", "(1 - product * ahead)", "1.0"),
    ("nadam", "product of momenta not kept", '"momenta": xp.array(product)', '"momenta": state["momenta"]'),
    ("radam", "no rectification", "xp.cast(scale * root, w)", "xp.cast(root, w)"),
    ("lars", "decay forgotten", "g + self.weight_decay * w", "g"),
    ("lars", "norms the wrong way up", "ratio(self.trust * size, step_norm, xp)", "ratio(self.trust * step_norm, size, xp)"),
    ("lamb", "no trust ratio", "ratio(norm([w], xp), norm([step], xp), xp) * step", "step"),
    ("lamb", "beta1 for beta2", "self.beta2 * s + (1 - self.beta2)", "self.beta1 * s + (1 - self.beta1)"),
    ("lion", "beta1 for beta2", "self.beta2 * m + (1 - self.beta2) * g", "self.beta1 * m + (1 - self.beta1) * g"),
    ("lion", "no sign", "xp.sign(self.beta1 * m + (1 - self.beta1) * g)", "(self.beta1 * m + (1 - self.beta1) * g)"),
    ("lbfgs", "newest pair at the wrong end", "[*old[1:], newest]", "[newest, *old[:-1]]"),
    ("lbfgs", "no scale", "xp.cast(scale, x) * x for", "x for"),
    ("muon", "no Nesterov", "if self.nesterov else v", "if False else v"),
    ("muon", "decay forgotten", "xp.cast(retention, w) * w", "w"),
    ("adafactor", "no clipping", "xp.maximum(rms(u, xp) / self.clip, 1.0)", "1.0"),
    ("adafactor", "count from 0", 'xp.cast(state["steps"] + 1, float)', 'xp.maximum(xp.cast(state["steps"], float), 1.0)'),
    ("shampoo", "fourth root for two", "order = 4 if", "order = 2 if"),
    ("shampoo", "columns not gathered", "= xp.array(right)", '= state["columns"][name]'),
    ("accelegrad", "squares forgotten", 'squares = state["squares"] + ', "squares = "),
    ("accelegrad", "no projection", "if self.project", "if False"),
)
"""Optimizer, what is wrong, a piece of its source, and what stands there instead."""

SETTINGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("adam", "no bias correction", {"correct_bias": False}),
    ("adam", "epsilon beside the raw root", {"epsilon_beside": "raw"}),
    ("adam", "Keras' epsilon", {"epsilon": 1e-7}),
    ("amsgrad", "no bias correction", {"correct_bias": False}),
    ("adamw", "decay not by the rate", {"decay_by_rate": False}),
    ("adamax", "epsilon beside the largest", {"epsilon_beside": "largest"}),
    ("radam", "the paper's threshold", {"threshold": 4.0}),
    ("radam", "epsilon beside the corrected root", {"epsilon_beside": "corrected"}),
    ("lamb", "no bias correction", {"correct_bias": False}),
    ("adafactor", "epsilon in the estimate", {"epsilon_beside": "estimate", "epsilon": 1e-12}),
    ("nadam", "constant momentum", {"momentum_decay": None}),
)
"""Optimizer, what is wrong, and the settings that make it so."""

RIGHT: dict[str, dict[str, Any]] = {
    "momentum": {"dampening": 0.2},
    "accelegrad": {"diameter": 0.01},
    "shampoo": {"turns": 8, "epsilon": 0.5},
    "lbfgs": {"history": 3},
    "muon": {"weight_decay": 0.1, "turns": 2},
    "lars": {"weight_decay": 0.01, "trust": 0.1},
    "amsgrad": {"beta2": 0.5},
    "adamax": {"beta2": 0.5},
}
"""Settings under which a fault can show, and that are quick."""


def right(name: str, **settings: Any) -> Optimizer[Any, Any]:
    """The reference."""
    return db.optimizers[name](**{**RIGHT.get(name, {}), **settings})


def mutated(name: str, old: str, new: str) -> Optimizer[Any, Any]:
    """The reference with a piece of its source exchanged."""
    kind = db.optimizers[name]
    source = inspect.getsource(kind)
    assert source.count(old) == 1, (name, old, source.count(old))
    scope = dict(vars(sys.modules[kind.__module__]))
    exec(compile(source.replace(old, new), f"<wrong {name}>", "exec"), scope)
    made: Optimizer[Any, Any] = scope[kind.__name__](**RIGHT.get(name, {}))
    return made


@dataclass(frozen=True)
class Around(Optimizer[Any, Any]):
    """An optimizer with a fault around it."""

    inner: Any = None
    fault: str = ""

    def init(self, parameters, xp):
        return self.inner.init(parameters, xp)

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        new, after = self.inner.update(gradients, state, parameters, xp)
        if self.fault == "stale state":
            return new, state
        return {name: 2 * w - new[name] for name, w in parameters.items()}, after
