"""The hyperparameters of an optimizer, by the keys of MLPerf's logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.schedules import WarmUp

NEEDED = ("opt_name", "opt_base_learning_rate")
"""What every log says of the optimizer."""

_SHARED = {"momentum": "opt_momentum", "weight_decay": "opt_weight_decay"}
_OWN = {("adamw", "weight_decay"): "opt_adamw_weight_decay", ("lamb", "weight_decay"): "opt_lamb_weight_decay_rate"}
_SPELLED: Mapping[str, str] = MappingProxyType({"beta1": "beta_1", "beta2": "beta_2", "eps": "epsilon"})
"""Setting, as deep_bench or torch has it, to how MLPerf spells it."""


def of_optimizer(rule: Any) -> dict[str, Any]:
    """Key to value of an update rule and of all around it.

    Args:
        rule: One of deep_bench, or of a framework. Where the step is one graph, it is what the graph was made from.

    Returns:
        What is known: no learning rate where the framework's own default is taken, or a schedule that does not tell it;
        ``None`` as the learning rate of a rule that has none. Nothing of what is no `Optimizer`.

    Example:
        >>> import deep_bench as db
        >>> of_optimizer(db.optimizers["momentum"](lr=0.1))["opt_base_learning_rate"]
        0.1
        >>> of_optimizer(db.optimizers["accelegrad"]())["opt_base_learning_rate"] is None
        True
    """
    entries: dict[str, Any] = {}
    while isinstance(rule, Optimizer) and isinstance(inner := getattr(rule, "inner", None), Optimizer):
        entries |= _around(rule)
        rule = inner
    if not isinstance(rule, Optimizer):
        return entries
    settings = dict(_settings(rule))
    name = str(settings.pop("kind", type(rule).__name__)) if rule.framework is not None else type(rule).__name__
    entries["opt_name"] = name = name.lower()
    entries |= _rate(settings.pop("lr")) if "lr" in settings else {"opt_base_learning_rate": None}
    for key, value in settings.items():
        entries[_OWN.get((name, key)) or _SHARED.get(key) or f"opt_{name}_{_SPELLED.get(key, key)}"] = value
    return entries


def check_needed(found: Mapping[str, Any]) -> None:
    """See that a log can say of the optimizer what it has to.

    Raises:
        InvalidArgument: It cannot.
    """
    missing = next((key for key in NEEDED if key not in found), None)
    if missing == "opt_name":
        raise InvalidArgument(
            "a training step that does not tell its optimizer",
            "a Step with its rule",
            "state it: hyperparameters={'opt_name': 'adam', 'opt_base_learning_rate': 0.001}",
        )
    if missing is not None:
        raise InvalidArgument(
            f"{found['opt_name']} with a learning rate that nobody tells: the framework's default, or a schedule's",
            "a log that has opt_base_learning_rate",
            "state it: optimizer.lr=0.001, or --hyperparameter opt_base_learning_rate=0.001",
        )


def tells_all(rule: Any) -> bool:
    """Whether `of_optimizer` knows all of a rule and of what is around it.

    It does not of what is no `Optimizer`, of a framework's, whose own defaults nobody tells, of a schedule that is a
    function, or of a part around it that has no key.

    Example:
        >>> import deep_bench as db
        >>> tells_all(db.optimizers["adam"](lr=0.1)), tells_all(db.optimizers["adam"](lr=lambda step, xp: 0.1))
        (True, False)
    """
    while isinstance(rule, Optimizer) and isinstance(inner := getattr(rule, "inner", None), Optimizer):
        if not _around(rule):
            return False
        rule = inner
    if not isinstance(rule, Optimizer) or rule.framework is not None:
        return False
    return all(_is_told(getattr(rule, field.name)) for field in fields(rule))


def _is_told(value: Any) -> bool:
    if isinstance(value, WarmUp):
        return _is_told(value.then)
    plain = value is None or isinstance(value, bool | int | float | str | Optimizer)
    return plain or "opt_base_learning_rate" in _rate(value)


def _settings(rule: Optimizer[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Name to value of each setting that a log can hold; those of a framework's rule are all in one."""
    for field in fields(rule):
        value = getattr(rule, field.name)
        for key, part in value.items() if isinstance(value, Mapping) else ((field.name, value),):
            if key == "betas":
                yield from zip(("beta1", "beta2"), part, strict=True)
            elif key == "lr" or isinstance(part, bool | int | float | str):
                yield key, part
            elif isinstance(part, Optimizer):
                yield key, repr(part)


def _around(rule: Any) -> dict[str, Any]:
    """What a part around an optimizer does; of averages and decays that have no key in MLPerf's logs, their own."""
    if type(rule).__name__ == "Accumulated":
        return {"gradient_accumulation_steps": rule.steps}
    if type(rule).__name__ == "Averaged":
        return {"model_eval_ema_factor": rule.keep}
    keys = {"_clipped_norm": "opt_gradient_clip_norm", "_clipped_value": "opt_gradient_clip_value", "_decayed": "opt_decay"}
    change = getattr(getattr(rule, "change", None), "__name__", "")
    return {keys[change]: rule.amount} if change in keys else {}


def _rate(rate: Any) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    if isinstance(rate, WarmUp):
        entries["opt_learning_rate_warmup_steps"] = rate.steps
        rate = rate.then
    if rate is None or isinstance(rate, int | float):
        return entries if rate is None else entries | {"opt_base_learning_rate": rate}
    settings = (
        {field.name: getattr(rate, field.name) for field in fields(rate)} if hasattr(rate, "__dataclass_fields__") else {}
    )
    entries["opt_learning_rate_decay_schedule"] = type(rate).__name__.lower()
    keys = {
        "lr": "opt_base_learning_rate",
        "steps": "opt_learning_rate_decay_steps",
        "last": "opt_end_learning_rate",
    }
    return entries | {key: settings[name] for name, key in keys.items() if name in settings}
