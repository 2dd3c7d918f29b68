"""Logs of MLPerf training: the events that lines of ``:::MLLOG`` hold, read from a file that may come from anyone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from deep_bench.errors import InvalidRecord

TOKEN = ":::MLLOG "

POINT, START, END = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"
"""The kinds of events."""

SUCCESS: Final = "success"
ABORTED: Final = "aborted"
"""How a run ended, by its ``run_stop``."""

_LARGEST_BYTES = 64 * 2**20
_LONGEST_LINE = 2**20

Status: TypeAlias = Literal["success", "aborted", "not ended"]


@dataclass(frozen=True)
class Event:
    """One event.

    Args:
        key: What happened.
        value: Of any kind that JSON has.
        metadata: What belongs to it.
        time_ms: Since 1970.
        kind: One of ``POINT_IN_TIME``, ``INTERVAL_START`` and ``INTERVAL_END``.
    """

    key: str
    value: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    time_ms: float = 0
    kind: str = POINT


@dataclass(frozen=True, eq=False)
class Log:
    """The log of one run.

    Args:
        events: In their order.
        path: The file.
        broken: What is wrong with lines that are no events.
    """

    events: tuple[Event, ...]
    path: Path | None = None
    broken: tuple[str, ...] = ()

    def all(self, key: str) -> list[Event]:
        """The events of a key."""
        return [event for event in self.events if event.key == key]

    def value(self, key: str) -> Any:
        """The value of a key's first event; ``None`` without one."""
        return next((event.value for event in self.events if event.key == key), None)

    @property
    def benchmark(self) -> str:
        """What it says that it is a run of; empty if it does not say."""
        value = self.value("submission_benchmark")
        return value if isinstance(value, str) else ""

    @property
    def status(self) -> Status:
        """How the run ended. One that was killed did not end; what is neither success nor abortion is none."""
        stops = self.all("run_stop")
        if not stops:
            return "not ended"
        return SUCCESS if len(stops) == 1 and stops[0].metadata.get("status") == SUCCESS else ABORTED

    @property
    def reason(self) -> str:
        """Why it was aborted, if the log says so."""
        return next((str(event.metadata.get("reason", "")) for event in self.all("run_stop")), "")

    @property
    def seconds(self) -> float | None:
        """From ``run_start`` to ``run_stop``; ``None`` where one of them is missing."""
        starts, stops = self.all("run_start"), self.all("run_stop")
        return (stops[0].time_ms - starts[0].time_ms) / 1000 if starts and stops else None

    @cached_property
    def last(self) -> Event | None:
        """The last ``eval_accuracy``."""
        evaluations = self.all("eval_accuracy")
        return evaluations[-1] if evaluations else None

    def converged_at(self, unit: Literal["epoch_num", "samples_count"]) -> float | None:
        """How much training the last evaluation came after, if the run was a success."""
        if self.status != SUCCESS or self.last is None:
            return None
        value = self.last.metadata.get(unit)
        return float(value) if is_number(value) else None


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of JSON is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_log(path: str | Path) -> Log:
    """Read the log of a run.

    Args:
        path: The file.

    Raises:
        InvalidRecord: It cannot be read, is too large, or holds not a single event.
    """
    log = read_run(path)
    if not log.events:
        raise InvalidRecord(f"{path} has {log.broken[0]}", "the log of a run, such as result_0.txt")
    return log


def read_run(path: str | Path) -> Log:
    """Read the log of a run that may have failed before it wrote anything: one without an event says so in ``broken``.

    Args:
        path: The file.

    Raises:
        InvalidRecord: It cannot be read, or is too large.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file() or size > _LARGEST_BYTES:
            raise InvalidRecord(f"{path}: no file, or one of {size} bytes", f"a log of at most {_LARGEST_BYTES}")
        with open(path, encoding="utf-8", errors="replace") as file:
            log = log_of(file, path)
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", "the log of a run, such as result_0.txt") from error
    return log if log.events else Log((), path, (f"no line of {TOKEN.strip()} that is an event",))


def log_of(lines: Iterable[str], path: Path | None = None) -> Log:
    """The log that lines hold; those without ``:::MLLOG`` are passed over.

    Example:
        >>> log = log_of(['noise', ':::MLLOG {"time_ms": 5, "key": "seed", "value": 1, "metadata": {}}', ':::MLLOG {'])
        >>> log.value("seed"), log.status, log.broken
        (1, 'not ended', ('line 3 is no event: it is no JSON, or cut off',))
    """
    events: list[Event] = []
    broken: list[str] = []
    for number, line in enumerate(lines, 1):
        if TOKEN not in line:
            continue
        entry = _event(line.rpartition(TOKEN)[2])
        if isinstance(entry, str):
            broken.append(f"line {number} is no event: {entry}")
        else:
            events.append(entry)
    return Log(tuple(events), path, tuple(broken))


def _event(text: str) -> Event | str:
    if len(text) > _LONGEST_LINE:
        return f"it has {len(text)} characters, at most {_LONGEST_LINE} may be"
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return "it is no JSON, or cut off"
    if not isinstance(content, dict) or not {"time_ms", "key", "value", "metadata"} <= set(content):
        return "it lacks one of time_ms, key, value and metadata"
    key, metadata, kind = content["key"], content["metadata"], content.get("event_type", POINT)
    if not is_number(content["time_ms"]) or not isinstance(key, str) or not isinstance(metadata, dict):
        return "its time_ms is no number, its key no text, or its metadata no object"
    return Event(key, content["value"], metadata, content["time_ms"], kind if isinstance(kind, str) else POINT)
