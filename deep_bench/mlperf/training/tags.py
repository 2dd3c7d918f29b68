"""The log of a run in the tags of MLPerf v0.5; the one file that imports ``mlperf_compliance``."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias
from unittest.mock import patch

import deep_bench
from deep_bench.errors import FrameworkMissing, InvalidRecord
from deep_bench.measure.storage import written
from deep_bench.mlperf.training.events import SUCCESS, Event, Log
from deep_bench.mlperf.training.submission import checked_name

Tag: TypeAlias = tuple[str, Any]

_ROOT = Path(deep_bench.__file__).parents[1]

_PLAIN: Mapping[str, str] = MappingProxyType(
    {
        "run_start": "RUN_START",
        "seed": "RUN_SET_RANDOM_SEED",
        "train_samples": "INPUT_SIZE",
        "global_batch_size": "INPUT_BATCH_SIZE",
        "opt_name": "OPT_NAME",
        "opt_base_learning_rate": "OPT_LR",
        "opt_learning_rate_warmup_steps": "OPT_LR_WARMUP_STEPS",
        "opt_momentum": "OPT_MOMENTUM",
        "opt_weight_decay": "OPT_WEIGHT_DECAY",
        "opt_adam_beta_1": "OPT_HP_ADAM_BETA1",
        "opt_adam_beta_2": "OPT_HP_ADAM_BETA2",
        "opt_adam_epsilon": "OPT_HP_ADAM_EPSILON",
        "eval_samples": "EVAL_SIZE",
        "eval_target": "EVAL_TARGET",
    }
)
"""Key of an event to the tag of the same value. Epochs count from 1 in both."""


def write_tags(log: Log, path: str | Path) -> Path:
    """Write a log in the tags of v0.5; what these have no tag for is left out.

    Args:
        log: The log of a run.
        path: The file; what is there is replaced.

    Raises:
        FrameworkMissing: ``mlperf_compliance`` is not installed.
        InvalidRecord: The log has lines that are no events.
        InvalidArgument: It names a benchmark that no line may have, or the file cannot be written.

    Source:
        ``mlperf_compliance`` 0.0.10, which has the tags and writes the lines.
    """
    if find_spec("mlperf_compliance") is None:
        raise FrameworkMissing("mlperf_compliance is not installed", advice="pip install 'deep-bench[mlperf]'")
    if log.broken:
        raise InvalidRecord(f"{log.path}: {log.broken[0]}", "a log in which each line is an event")
    text = _text(log)
    return written(Path(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))


class _Clock:
    """Stands for the module ``time`` while a line is written that tells of something that was."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now


def _text(log: Log) -> str:
    """All lines."""
    from mlperf_compliance import mlperf_log, tags

    benchmark = checked_name(log.benchmark)
    clock, out = _Clock(), io.StringIO()
    handler = logging.StreamHandler(out)
    saved_handlers = mlperf_log.LOGGER.handlers[:]  # it prints to standard output from when it is imported
    try:
        mlperf_log.LOGGER.handlers[:] = [handler]
        with patch.object(mlperf_log, "time", clock):
            for event in log.events:
                clock.now = event.time_ms / 1000
                for name, value in _tags(event):
                    mlperf_log._mlperf_print(  # those for users are each for one of MLPerf's benchmarks
                        getattr(tags, name),
                        value,
                        benchmark=benchmark,
                        tag_set=tags.ALL_USED_TAGS,
                        root_dir=re.escape(str(_ROOT)),
                    )
    finally:
        mlperf_log.LOGGER.handlers[:] = saved_handlers
    return out.getvalue()


def _tags(event: Event) -> Iterator[Tag]:
    """Name and value of the tags of an event."""
    epoch, key = event.metadata.get("epoch_num"), event.key
    if key in _PLAIN:
        yield _PLAIN[key], event.value
    elif key == "cache_clear" and event.value:
        yield "RUN_CLEAR_CACHES", None
    elif key == "epoch_start":
        if epoch == 1:
            yield "TRAIN_LOOP", None
        yield "TRAIN_EPOCH", epoch
    elif key in ("eval_start", "eval_stop"):
        yield key.upper(), epoch
    elif key == "eval_accuracy":
        yield "EVAL_ACCURACY", {"epoch": epoch, "value": event.value}
    elif key == "run_stop":
        yield "RUN_STOP", {"success": event.metadata.get("status") == SUCCESS}
        yield "RUN_FINAL", None
