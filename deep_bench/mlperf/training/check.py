"""deep_bench's own check of the log of a run: before ``success`` is written, and of logs that come from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from math import nan

from deep_bench.mlperf.training.events import ABORTED, END, START, SUCCESS, Event, Log, is_number
from deep_bench.mlperf.training.hyperparameters import COUNTS
from deep_bench.training.history import reaches

SUBMISSION = tuple(f"submission_{what}" for what in ("benchmark", "division", "org", "platform", "status"))

ONCE = (
    *SUBMISSION,
    "init_stop",
    "run_start",
    "seed",
    "global_batch_size",
    "gradient_accumulation_steps",
    "micro_batch_size",
    "opt_name",
    "opt_base_learning_rate",
    "train_samples",
    "eval_samples",
    "eval_target",
    "config_filename",
    *(f"lowest_numerical_precision_in_{where}" for where in ("linear", "attn", "comm")),
    *(f"{what}_parallelism" for what in ("tensor", "pipeline", "context", "expert")),
)
"""Keys that come exactly once."""

_ORDER = ("cache_clear", "init_start", "init_stop", "run_start", "run_stop")
_WITHIN_RUN = ("block_start", "block_stop", "epoch_start", "epoch_stop", "eval_start", "eval_stop", "eval_accuracy")
_COUNTS = (*COUNTS, "train_samples", "eval_samples")
_SHARE = re.compile(r"((balanced|top-\d+) )?accuracy|hit rate@\d+|NDCG@\d+")
"""Scores of deep_bench that lie between 0 and 1."""

_INTERVALS = ("init", "run", "block", "epoch", "eval")


def faults(log: Log) -> list[str]:
    """What is wrong with the log of a run; nothing for one that is whole, be it a success or aborted.

    An aborted one has to say as much as a success, as far as it came: all but the evaluation if training began.
    Stricter than MLPerf's checker: it also asks that intervals are closed and not within themselves, that time does not run
    backwards, that nothing follows ``run_stop``, and that a success reached the target that the log states.

    Args:
        log: The log.

    Example:
        >>> from deep_bench.mlperf.training.events import Event
        >>> faults(Log((Event("run_stop", None, {"status": "success"}, 1),)))[0]
        'no submission_benchmark'
    """
    if not log.events:
        return list(log.broken)
    return [
        *log.broken,
        *_counts(log),
        *_order(log),
        *_intervals(log),
        *_places(log),
        *_values(log),
        *_evaluations(log),
        *_end(log),
    ]


def _counts(log: Log) -> Iterator[str]:
    aborted = log.status == ABORTED
    never_began = aborted and not log.all("block_start")
    for key in ONCE:
        count = len(log.all(key))
        if count > 1:
            yield f"{key} comes {count} times"
        elif not count and (key in SUBMISSION or not never_began):
            yield f"no {key}"
    for key in ("cache_clear", "init_start", *(() if aborted else ("eval_accuracy", "block_start"))):
        if not log.all(key):
            yield f"no {key}"


def _order(log: Log) -> Iterator[str]:
    first = {key: i for i, event in reversed(list(enumerate(log.events))) if (key := event.key) in _ORDER}
    keys = [key for key in _ORDER if key in first]
    for before, after in pairwise(keys):
        if first[before] > first[after]:
            yield f"{after} before {before}"
    for i, (current, following) in enumerate(pairwise(log.events)):
        if following.time_ms < current.time_ms:
            yield f"time runs backwards from event {i} ({current.key}) to the next ({following.key})"
    began, ended = first.get("run_start"), first.get("run_stop")
    for i, event in enumerate(log.events):
        if event.key in _WITHIN_RUN and (began is None or i < began):
            yield f"{event.key} before run_start"
        if ended is not None and i > ended:
            yield f"{event.key} after run_stop"


def _intervals(log: Log) -> Iterator[str]:
    """Each begins, ends, and only then begins anew; those that a run leaves open when it is aborted may stay so."""
    begun = dict.fromkeys(_INTERVALS, False)
    for event in log.events:
        name, _, edge = event.key.rpartition("_")
        if name not in begun or edge not in ("start", "stop"):
            continue
        if event.kind != (START if edge == "start" else END):
            yield f"{event.key} as {event.kind}"
        if begun[name] == (edge == "start"):
            yield f"{event.key} {'within' if edge == 'start' else 'without'} {name}_start"
        begun[name] = edge == "start"
    if log.status == SUCCESS:
        yield from (f"{name}_start without {name}_stop" for name, open_ in begun.items() if open_)


def _places(log: Log) -> Iterator[str]:
    for event in log.events:
        if event.key in _WITHIN_RUN and not {"epoch_num", "first_epoch_num", "samples_count"} & set(event.metadata):
            yield f"{event.key} without epoch_num or samples_count"


def _values(log: Log) -> Iterator[str]:
    """What can be no value of a key."""
    for event in log.events:
        key, value = event.key, event.value
        whole = is_number(value) and value == int(value)
        if key == "seed" and not whole:
            yield f"seed {str(value)[:40]!r}, which is no whole number"
        elif key in _COUNTS and not (whole and value >= 1):
            yield f"{key} of {str(value)[:40]!r}, which is no whole number above 0"
        elif key == "opt_base_learning_rate" and not (value is None or is_number(value)):
            yield f"opt_base_learning_rate of {str(value)[:40]!r}"
        elif key == "eval_target" and not is_number(value):
            yield f"eval_target of {str(value)[:40]!r}"


def _evaluations(log: Log) -> Iterator[str]:
    """Whether results can be, and come after ever more training; what a run that diverged ends with may be no number."""
    for event in log.all("eval_accuracy"):
        if not isinstance(event.value, int | float) or isinstance(event.value, bool):
            yield f"eval_accuracy of {str(event.value)[:40]!r}"
    for event in (*log.all("eval_target"), *log.all("eval_accuracy")):
        if _is_share(event) and is_number(event.value) and not 0 <= event.value <= 1:
            yield f"{event.key} {event.value:g} as {event.metadata['score']}, which is a share from 0 to 1"
    for unit in ("epoch_num", "samples_count"):
        trained = [event.metadata.get(unit, nan) for event in log.all("eval_accuracy")]
        numbers = [value for value in trained if is_number(value)]
        if any(value < 0 for value in numbers) or any(b < a for a, b in pairwise(numbers)):
            yield f"{unit} of evaluations that is below 0, or becomes less"


def _is_share(event: Event) -> bool:
    score = event.metadata.get("score")
    return isinstance(score, str) and _SHARE.fullmatch(score) is not None and not event.metadata.get("unit")


def _end(log: Log) -> Iterator[str]:
    stops = log.all("run_stop")
    if len(stops) != 1:
        yield "no run_stop: the run did not end, or was killed" if not stops else f"run_stop comes {len(stops)} times"
        return
    status = stops[0].metadata.get("status")
    if status not in (SUCCESS, ABORTED):
        yield f"run_stop with status {str(status)[:40]!r}"
    targets = log.all("eval_target")
    if status != SUCCESS or len(targets) != 1 or log.last is None:
        return
    target, value = targets[0].value, log.last.value
    if not is_number(target) or not is_number(value):
        yield f"a success with eval_accuracy {value} and eval_target {target}"
    elif not reaches(value, target, "lower" if targets[0].metadata.get("direction") == "lower" else "higher"):
        yield f"a success whose last eval_accuracy {value} does not reach the target {target}"
