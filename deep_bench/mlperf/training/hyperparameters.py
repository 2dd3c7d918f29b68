"""The hyperparameters of a trainer, by the keys of MLPerf's logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from deep_bench.distributed.schemes.codes import width_of
from deep_bench.distributed.schemes.one_bit import OneBit
from deep_bench.distributed.schemes.quantised import Quantised
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.mlperf.training.optimizer import check_needed, of_optimizer
from deep_bench.training.optimizer import Optimizer
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

_ONE_OF_ALL = ("tensor_parallelism", "pipeline_parallelism", "context_parallelism", "expert_parallelism")
_LOWEST = tuple(f"lowest_numerical_precision_in_{where}" for where in ("linear", "attn", "comm"))

STATED = ("precision", "global_batch_size", "micro_batch_size", "gradient_accumulation_steps", *_LOWEST, *_ONE_OF_ALL)
"""What can be stated where nobody tells it; and all that begins with ``opt_``."""


def hyperparameters(trainer: Trainer[Any], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Name of each hyperparameter, as in MLPerf's logs, to its value.

    Args:
        trainer: What they are of: its optimizer with all around it, its sampler, data and network.
        given: What is known better, by the same names (and ``precision`` for all three of them): what the sampler, the
            framework or a schedule that is a function does not tell.

    Raises:
        InvalidArgument: The trainer does not tell of its batch size, precision, optimizer or learning rate, and ``given``
            does not either.
        UnknownName: ``given`` has something that is no hyperparameter.

    Example:
        >>> from deep_bench.training.workload import train
        >>> found = hyperparameters(train("digits", on="reference", seed=3))
        >>> found["opt_name"], found["opt_base_learning_rate"], found["global_batch_size"], found["train_samples"]
        ('adam', 0.002, 64, 1442)
    """
    given = dict(given or {})
    check_stated(given)
    ranks = ranks_of(trainer)
    found: dict[str, Any] = {"seed": trainer.seed, **_samples(trainer), **of_optimizer(trainer.taker.rule)}
    check_needed(found | given)
    accumulated = found.setdefault("gradient_accumulation_steps", 1)
    batch = given.get("global_batch_size") or _batch(trainer, ranks) * accumulated
    found |= {"global_batch_size": batch, "micro_batch_size": max(batch // (ranks * accumulated), 1)}
    found |= dict.fromkeys(_ONE_OF_ALL, 1)
    precision = given.pop("precision", None) or _precision(trainer)
    found |= dict(zip(_LOWEST, (precision, precision, _of_messages(trainer) or precision), strict=True))
    return found | given


def check_stated(names: Iterable[str]) -> None:
    """See that what is stated are hyperparameters.

    Raises:
        UnknownName: One is none.
    """
    for name in names:
        if name not in STATED and not name.startswith("opt_"):
            raise UnknownName("hyperparameter", name, [*STATED, "opt_…"])


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
            "state it: hyperparameters={'global_batch_size': 64}, or --hyperparameter global_batch_size=64",
        )
    return int(facts["batch_size"]) * of_each


def _of_messages(trainer: Trainer[Any]) -> str:
    """The precision of messages among ranks where the scheme compresses them; one for which MLPerf has no name as it is."""
    rule = trainer.taker.rule
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
            "state it: hyperparameters={'precision': 'fp32'}, or --hyperparameter precision=fp32",
        )
    return _PRECISIONS[told]
