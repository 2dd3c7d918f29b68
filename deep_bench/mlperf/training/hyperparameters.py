"""The hyperparameters of a trainer, by the keys of MLPerf's logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from deep_bench.distributed.schemes.codes import width_of
from deep_bench.distributed.schemes.one_bit import OneBit
from deep_bench.distributed.schemes.quantised import Quantised
from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.schedules import WarmUp
from deep_bench.training.trainer import Trainer

_PRECISIONS: Mapping[str, str] = MappingProxyType(
    {
        "float64": "fp64",
        "float32": "fp32",
        "float16": "fp16",
        "bfloat16": "bfloat16",
        "float8_e4m3fn": "fp8",
        "float8_e5m2": "fp8",
    }
)
"""Element type to its name in logs."""

_AS_THE_NETWORK = ("as the network", "the network's own")

_SHARED = {"momentum": "opt_momentum", "weight_decay": "opt_weight_decay"}
_OWN = {("adamw", "weight_decay"): "opt_adamw_weight_decay", ("lamb", "weight_decay"): "opt_lamb_weight_decay_rate"}

_ONE_OF_ALL = ("tensor_parallelism", "pipeline_parallelism", "context_parallelism", "expert_parallelism")


def hyperparameters(trainer: Trainer[Any], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Name of each hyperparameter, as in MLPerf's logs, to its value.

    Args:
        trainer: What they are of: its optimizer with all around it, its sampler, data and network.
        given: What is known better, by the same names: the order of samples of a sampler that does not tell its batch size,
            the precision of a framework that does not tell it.

    Raises:
        InvalidArgument: The trainer does not tell of its batch size or precision, and ``given`` does not either.

    Example:
        >>> from deep_bench.training.workload import train
        >>> found = hyperparameters(train("digits", on="reference", seed=3))
        >>> found["opt_name"], found["opt_base_learning_rate"], found["global_batch_size"], found["train_samples"]
        ('adam', 0.002, 64, 1442)
    """
    given = dict(given or {})
    ranks = ranks_of(trainer)
    found: dict[str, Any] = {"seed": trainer.seed, **_samples(trainer), **_optimizer(trainer)}
    accumulated = found.setdefault("gradient_accumulation_steps", 1)
    batch = given.get("global_batch_size") or _batch(trainer, ranks) * accumulated
    found |= {"global_batch_size": batch, "micro_batch_size": max(batch // (ranks * accumulated), 1)}
    found |= dict.fromkeys(_ONE_OF_ALL, 1)
    precision = given.pop("precision", None) or _precision(trainer)
    for where, value in (("linear", precision), ("attn", precision), ("comm", _of_messages(trainer) or precision)):
        found[f"lowest_numerical_precision_in_{where}"] = value
    return found | given


def ranks_of(trainer: Trainer[Any]) -> int:
    """How many ranks train together."""
    return int(getattr(getattr(trainer.ranks, "comm", None), "size", 1))


def _samples(trainer: Trainer[Any]) -> dict[str, int]:
    evaluation = trainer.evaluation
    if evaluation is None:
        raise InvalidArgument("a log of MLPerf for a trainer without an evaluation", "scores=[…] and held_out=…")
    return {"train_samples": len(trainer.loader.dataset), "eval_samples": len(evaluation.dataset)}


def _batch(trainer: Trainer[Any], ranks: int) -> int:
    """The samples of a step on all ranks together, by what the sampler tells."""
    facts: Any = getattr(trainer.loader.sampler, "facts", dict)()
    of_each = ranks if "ranks" in facts else 1
    while isinstance(facts, Mapping) and "batch_size" not in facts:
        facts = facts.get("of")
    if not isinstance(facts, Mapping):
        raise InvalidArgument(
            f"a {type(trainer.loader.sampler).__name__} that does not tell its batch size",
            "facts() with batch_size",
            "state it: hyperparameters={'global_batch_size': 64}",
        )
    return int(facts["batch_size"]) * of_each


def _optimizer(trainer: Trainer[Any]) -> dict[str, Any]:
    """The settings of the rule, and of what is around it."""
    rule = getattr(trainer.taker, "optimizer", None)
    found: dict[str, Any] = {}
    while isinstance(rule, Optimizer) and isinstance(inner := getattr(rule, "inner", None), Optimizer):
        found |= _around(rule)
        rule = inner
    if not isinstance(rule, Optimizer):
        return found
    name = type(rule).__name__.lower()
    found["opt_name"] = name
    for one in fields(rule):
        value = getattr(rule, one.name)
        if one.name == "lr":
            found |= _rate(value)
        elif isinstance(value, bool | int | float | str):
            own = one.name[:-1] + "_" + one.name[-1] if one.name in ("beta1", "beta2") else one.name
            key = _OWN.get((name, one.name)) or _SHARED.get(one.name) or f"opt_{name}_{own}"
            found[key] = value
    return found


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
    found: dict[str, Any] = {}
    if isinstance(rate, WarmUp):
        found["opt_learning_rate_warmup_steps"] = rate.steps
        rate = rate.then
    if isinstance(rate, int | float):
        return found | {"opt_base_learning_rate": rate}
    settings = {one.name: getattr(rate, one.name) for one in fields(rate)} if hasattr(rate, "__dataclass_fields__") else {}
    found["opt_learning_rate_decay_schedule"] = type(rate).__name__.lower()
    if "steps" in settings:
        found["opt_learning_rate_decay_steps"] = settings["steps"]
    if "last" in settings:
        found["opt_end_learning_rate"] = settings["last"]
    return found | ({"opt_base_learning_rate": settings["lr"]} if "lr" in settings else {})


def _of_messages(trainer: Trainer[Any]) -> str:
    """The precision of messages among ranks where the scheme compresses them; one for which MLPerf has no name as it is."""
    rule = getattr(trainer.taker, "optimizer", None)
    while isinstance(rule, Optimizer):
        if isinstance(rule, OneBit):
            return "1 bit"
        if isinstance(rule, Quantised):
            bits = width_of(2 * rule.levels)
            return f"int{bits}" if bits in (4, 8) else f"{bits} bits"
        rule = getattr(rule, "inner", None)
    return ""


def _precision(trainer: Trainer[Any]) -> str:
    """The lowest precision, as the framework tells it; where it is that of the network, that of its parameters."""
    device = trainer.taker.device
    facts: Mapping[str, Any] = device.describe() if hasattr(device, "describe") else {}
    told = str(facts.get("precision", "")).partition(";")[0].partition(",")[0].strip()
    if told in _AS_THE_NETWORK and trainer.form is not None:
        types = {array.dtype.name for array in trainer.form.source.parameters.values() if array.dtype.kind not in "iub"}
        narrow = [name for name in reversed(tuple(_PRECISIONS)) if name in types]
        told = narrow[0] if narrow and types <= set(_PRECISIONS) else ""
    if told not in _PRECISIONS:
        raise InvalidArgument(
            f"the precision {told or 'that nobody tells'} of {facts.get('version', 'a framework')}",
            f"one of {', '.join(_PRECISIONS)}",
            "state it: hyperparameters={'precision': 'fp32'}",
        )
    return _PRECISIONS[told]
