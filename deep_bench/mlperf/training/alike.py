"""Whether the logs of a folder are those of different runs of one and the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from deep_bench.errors import shortened
from deep_bench.mlperf.training.check import ONCE
from deep_bench.mlperf.training.events import Log, is_number

_OWN = ("init_stop", "run_start", "seed")
_SAME = frozenset(ONCE) - frozenset(_OWN)
_LONGEST = 60


def unlike(logs: Sequence[Log]) -> list[tuple[str, ...]]:
    """What is wrong with each log of a folder beside the others.

    A result is of several runs that differ in nothing but their seeds: a copy is no run, and a run with another batch size,
    optimizer, target or system is one of something else. What most of them say is taken for what it should be.

    Args:
        logs: Those of one benchmark on one system.

    Returns:
        For each log what is wrong; nothing where all is as it should be.

    Example:
        >>> from deep_bench.mlperf.training.events import Event
        >>> sizes = enumerate((64, 64, 32))
        >>> logs = [Log((Event("seed", i), Event("global_batch_size", size, time_ms=i))) for i, size in sizes]
        >>> unlike(logs)
        [(), (), ('global_batch_size is 32, and 64 in other runs',)]
        >>> unlike([logs[0], logs[0]])
        [(), ('it is a copy of another log of this folder, with the same times: a run counts once',)]
    """
    declarations = [_stated(log) for log in logs]
    keys = sorted({key for declaration in declarations for key in declaration})
    usual = {
        key: Counter(declaration[key] for declaration in declarations if key in declaration).most_common(1)[0][0]
        for key in keys
    }
    return [
        (*_repeated(log, logs[:number]), *_deviations(declaration, usual))
        for number, (log, declaration) in enumerate(zip(logs, declarations, strict=True))
    ]


def _repeated(log: Log, before: Sequence[Log]) -> tuple[str, ...]:
    """Whether it is one of the logs before it again, or a run with the seed of one."""
    for previous in before:
        name = previous.path.name if previous.path is not None else "another log of this folder"
        if log.events and _times(log) == _times(previous):
            return (f"it is a copy of {name}, with the same times: a run counts once",)
        if log.all("seed") and previous.all("seed") and _text(log.value("seed")) == _text(previous.value("seed")):
            return (f"seed {_text(log.value('seed'))} as in {name}: each run has a seed of its own",)
    return ()


def _times(log: Log) -> list[float]:
    return [event.time_ms for event in log.events]


def _deviations(declaration: Mapping[str, str], usual: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{key} is {value}, and {usual[key]} in other runs" for key, value in declaration.items() if value != usual[key]
    )


def _stated(log: Log) -> dict[str, str]:
    """What a log says that all have to say alike; of one that ended before it came to it, not that."""
    declaration: dict[str, str] = {}
    for event in log.events:
        if event.key in _SAME or event.key.startswith("opt_"):
            declaration.setdefault(event.key, _text(event.value))
    for event in log.all("eval_target")[:1]:
        declaration |= {f"the {field} of eval_target": _text(event.metadata.get(field)) for field in ("score", "direction")}
    for event in log.all("eval_accuracy")[:1]:
        declaration["samples_count of the first evaluation"] = _text(event.metadata.get("samples_count"))
    if log.all("block_start"):
        declaration["the list of optimizer settings"] = ", ".join(
            sorted(key for key in declaration if key.startswith("opt_"))
        )
    return declaration


def _text(value: Any) -> str:
    return f"{float(value):.17g}" if is_number(value) else shortened(repr(value), _LONGEST)
