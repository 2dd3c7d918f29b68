"""The hyperparameters of a trainer and of its optimizer, by the keys of MLPerf's logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

from deep_bench import optimizers
from deep_bench.distributed.schemes.compressed import OneBit, Quantised, width_of
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.training.compose import chain
from deep_bench.training.optimizer import Optimizer, WarmUp
from deep_bench.training.recipes import Recipe
from deep_bench.training.recipes.recipe import CHAIN, sampler_named
from deep_bench.training.trainer import Trainer

NEEDED = ("opt_name", "opt_base_learning_rate")
"""What every log says of the optimizer."""


_SHARED = {"momentum": "opt_momentum", "weight_decay": "opt_weight_decay"}
_RULE_SPECIFIC = {
    ("adamw", "weight_decay"): "opt_adamw_weight_decay",
    ("lamb", "weight_decay"): "opt_lamb_weight_decay_rate",
}
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
    *around, rule = _layers(rule)
    for layer in around:
        entries |= _around(layer)
    if not isinstance(rule, Optimizer):
        return entries
    settings = dict(_settings(rule))
    name = str(settings.pop("kind", type(rule).__name__)) if rule.framework is not None else type(rule).__name__
    entries["opt_name"] = name = name.lower()
    entries |= _rate(settings.pop("lr")) if "lr" in settings else {"opt_base_learning_rate": None}
    for key, value in settings.items():
        entries[_RULE_SPECIFIC.get((name, key)) or _SHARED.get(key) or f"opt_{name}_{_SPELLED.get(key, key)}"] = value
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
    *around, rule = _layers(rule)
    if not all(map(_around, around)) or not isinstance(rule, Optimizer) or rule.framework is not None:
        return False
    return all(_is_told(getattr(rule, field.name)) for field in fields(rule))


def _layers(rule: Any) -> list[Any]:
    """An update rule with all around it, from the outermost to itself."""
    layers = [rule]
    while isinstance(rule, Optimizer) and isinstance(rule := getattr(rule, "inner", None), Optimizer):
        layers.append(rule)
    return layers


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
    settings = {field.name: getattr(rate, field.name) for field in fields(rate)} if is_dataclass(rate) else {}
    entries["opt_learning_rate_decay_schedule"] = type(rate).__name__.lower()
    keys = {
        "lr": "opt_base_learning_rate",
        "steps": "opt_learning_rate_decay_steps",
        "last": "opt_end_learning_rate",
    }
    return entries | {key: settings[name] for name, key in keys.items() if name in settings}


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

_ONE_OF_ALL = ("tensor_parallelism", "pipeline_parallelism", "context_parallelism", "expert_parallelism")
_LOWEST = tuple(f"lowest_numerical_precision_in_{where}" for where in ("linear", "attn", "comm"))

COUNTS = ("global_batch_size", "micro_batch_size", "gradient_accumulation_steps", *_ONE_OF_ALL)
"""Those that are whole numbers above 0."""


STATED = ("precision", *COUNTS, *_LOWEST)
"""What has a name by which it can be stated; and all that begins with ``opt_``."""


def hyperparameters(trainer: Trainer[Any], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Name of each hyperparameter, as in MLPerf's logs, to its value.

    Args:
        trainer: What they are of: its optimizer with all around it, its sampler, data and network.
        given: What nobody tells, by the same names (and ``precision`` for all three of them): what the sampler, the
            framework or a schedule that is a function keeps to itself. What is told is not changed by it.

    Raises:
        InvalidArgument: The trainer does not tell of its batch size, precision, optimizer or learning rate, and ``given``
            does not either; or ``given`` says something else than the trainer.
        UnknownName: ``given`` has something that is no hyperparameter.

    Example:
        >>> from deep_bench.training.workload import train
        >>> found = hyperparameters(train("digits", on="reference", seed=3))
        >>> found["opt_name"], found["opt_base_learning_rate"], found["global_batch_size"], found["train_samples"]
        ('adam', 0.002, 64, 1442)
    """
    given = dict(given or {})
    check_stated(given)
    ranks, device, rule = ranks_of(trainer), trainer.taker.device, trainer.taker.rule
    facts: Mapping[str, Any] = device.describe() if hasattr(device, "describe") else {}
    if trainer.evaluation is None:
        raise InvalidArgument("a log of MLPerf for a trainer without an evaluation", "scores=[…] and held_out=…")
    derived: dict[str, Any] = {"seed": trainer.seed, "train_samples": len(trainer.loader.dataset)}
    derived |= {"eval_samples": len(trainer.evaluation.dataset), **told_by_rule(rule)}
    derived |= {key: facts.get(key, 1) for key in _ONE_OF_ALL}
    check_needed(derived | given)
    assumed: dict[str, Any] = {"gradient_accumulation_steps": 1}
    accumulated = int((assumed | given | derived)["gradient_accumulation_steps"])
    batch = _batch(trainer, ranks)
    if batch is not None:
        derived["global_batch_size"] = batch * accumulated
    elif "global_batch_size" not in given:
        raise InvalidArgument(
            f"a {type(trainer.loader.sampler).__name__} that does not tell its batch size",
            "facts() with batch_size",
            "state it: hyperparameters={'global_batch_size': 64}, or --hyperparameter global_batch_size=64",
        )
    derived["micro_batch_size"] = max(int((given | derived)["global_batch_size"]) // (ranks * accumulated), 1)
    precision = _precision(trainer, facts)
    if not precision and "precision" not in given:
        raise InvalidArgument(
            f"the precision {facts.get('precision') or 'that nobody tells'} of {facts.get('version', 'a framework')}",
            f"one of {', '.join(_PRECISIONS)}",
            "state it: hyperparameters={'precision': 'fp32'}, or --hyperparameter precision=fp32",
        )
    lowest = precision or given["precision"]
    of_kinds = dict(zip(_LOWEST, (lowest, lowest, _of_messages(rule) or lowest), strict=True))
    if precision:
        derived |= {"precision": precision, **of_kinds}
    else:
        assumed |= of_kinds
    check_untold(given, derived, rule)
    settings = assumed | given | derived
    return {key: value for key, value in settings.items() if key != "precision"}


def told_by_rule(rule: Any) -> dict[str, Any]:
    """What an update rule with all around it tells: also that it accumulates nothing."""
    return {**({"gradient_accumulation_steps": 1} if isinstance(rule, Optimizer) else {}), **of_optimizer(rule)}


def told_by_recipe(recipe: Recipe) -> dict[str, Any]:
    """What a recipe tells before anything is made of it, by one process; see `hyperparameters`."""
    derived = told_by_rule(rule_of(recipe)) | dict.fromkeys(_ONE_OF_ALL, 1)
    if sampler_named(recipe.fields.sampler.name).__module__.partition(".")[0] == "deep_bench":
        derived["global_batch_size"] = recipe.fields.sampler.batch * derived.get("gradient_accumulation_steps", 1)
    return derived


def rule_of(recipe: Recipe) -> Any:
    """The optimizer of a recipe with all around it, but for its schedule."""
    part = recipe.fields.optimizer
    around = [CHAIN[link.name](**link.settings) for link in recipe.fields.chain]
    optimizer = optimizers[part.name](**part.settings)
    return chain(*around, optimizer) if around else optimizer


def check_untold(given: Mapping[str, Any], told: Mapping[str, Any], rule: Any) -> None:
    """See that nothing is stated otherwise than it is: a log says what was run.

    Args:
        given: What is stated.
        told: What is known.
        rule: The optimizer, whose settings are all told unless a framework or a function keeps some to itself.

    Raises:
        InvalidArgument: Something is.
    """
    for key, value in given.items():
        if key in told and str(value).lower() != str(told[key]).lower() and value != told[key]:
            raise InvalidArgument(
                f"the hyperparameter {key} stated as {value}, which is {told[key]}",
                "only what neither recipe nor framework tells",
                "leave it out; to train with another value, change the recipe",
            )
        if key not in told and key.startswith("opt_") and tells_all(rule):
            raise InvalidArgument(
                f"the hyperparameter {key} stated of {told['opt_name']}, which has none",
                f"only what the optimizer does not tell; it tells {', '.join(k for k in told if k.startswith('opt_'))}",
                "leave it out; to train with it, change the recipe",
            )


def check_stated(given: Mapping[str, Any]) -> None:
    """See that what is stated are hyperparameters.

    Raises:
        UnknownName: One is none.
        InvalidArgument: A count that is no whole number above 0.
    """
    for name, value in given.items():
        if name not in STATED and not name.startswith("opt_"):
            raise UnknownName("hyperparameter", name, [*STATED, "opt_…"])
        if name in COUNTS and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise InvalidArgument(f"the hyperparameter {name} stated as {value!r}", "a whole number above 0")


def ranks_of(trainer: Trainer[Any]) -> int:
    """How many ranks train together."""
    return int(getattr(getattr(trainer.ranks, "comm", None), "size", 1))


def _batch(trainer: Trainer[Any], ranks: int) -> int | None:
    """The samples of a step on all ranks together, by what the sampler tells; ``None`` if it does not."""
    facts: Any = getattr(trainer.loader.sampler, "facts", dict)()
    of_each = ranks if "ranks" in facts else 1
    while isinstance(facts, Mapping) and "batch_size" not in facts:
        facts = facts.get("of")
    if not isinstance(facts, Mapping):
        return None
    return int(facts["batch_size"]) * of_each


def _of_messages(rule: Any) -> str:
    """The precision of messages among ranks where the scheme compresses them; one for which MLPerf has no name as it is."""
    for layer in _layers(rule):
        if isinstance(layer, OneBit):
            return "1 bit"
        if isinstance(layer, Quantised):
            bits = width_of(2 * layer.levels)
            return f"int{bits}" if bits in (4, 8) else f"{bits} bits"
    return ""


def _precision(trainer: Trainer[Any], facts: Mapping[str, Any]) -> str:
    """The lowest precision, as the framework tells it; where it is that of the network, that of its parameters.

    Empty where nobody tells one that MLPerf has a name for.
    """
    precision = str(facts.get("precision", "")).partition(";")[0].partition(",")[0].strip()
    if precision in _AS_THE_NETWORK and trainer.form is not None:
        types = {array.dtype.name for array in trainer.form.source.parameters.values() if array.dtype.kind not in "iub"}
        narrow = [name for name in reversed(tuple(_PRECISIONS)) if name in types]
        precision = narrow[0] if narrow and types <= set(_PRECISIONS) else ""
    return _PRECISIONS.get(precision, "")
