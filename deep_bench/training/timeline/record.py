"""The record of a timeline: all raw stamps, where they were taken and what looking cost; and its files.

Whatever is printed can be computed from it. Files are written whole or not at all, and checked when they are read.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.environment import Environment
from deep_bench.records.fields import Count, Date, RecordModel, WholeNumbers, listed, row_of
from deep_bench.records.model import ArrayFile
from deep_bench.records.store import (
    INLINE_SAMPLES,
    arrays_beside,
    digest,
    file_beside,
    fill_columns,
    read_columns,
    read_model,
    written,
)
from deep_bench.training.timeline.journal import EventBlock, ThreadLog, read_journal
from deep_bench.training.timeline.stamps import Name

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline

_IN_A_ROW, _REPEATS = 300, 10
_AFTER_WORK = 31
_WORK_BYTES = 2 * 2**20
"""What is written between two takes: about a core's own cache, so that the code that looks has to be fetched again."""


class LookingCost(RecordModel):
    """Nanoseconds, beyond an empty ``with`` block or a plain iteration; waiting for a device is not in them.

    Attributes:
        region: One region, after other work: the median. That is what a loop pays.
        step: One step of ``over`` with its region of waiting, after other work: the median.
        in_a_row: One region of many in a row: the least of several takes.
        shown: What an empty region in a row shows as its own time, at least.
    """

    region: float
    step: float
    in_a_row: float
    shown: float


def looking_cost(scratch: Timeline) -> LookingCost:
    """Measure it on a timeline that is used for nothing else; takes some hundredths of a second.

    Args:
        scratch: Neither synchronised nor saved.
    """
    in_a_row = _least(lambda: _regions(scratch, _IN_A_ROW)) - _least(lambda: _empty(_IN_A_ROW))
    region = _after_work(lambda: _regions(scratch, 1)) - _after_work(lambda: _empty(1))
    batches = [[0]] * (_AFTER_WORK + 1)
    step = _after_work(_next_of(iter(scratch.over(batches)))) - _after_work(_next_of(iter(batches)))
    spans = scratch.result().spans
    shown = spans.duration[spans.number == [name.name for name in spans.names].index("empty")]
    return LookingCost(region=region, step=step, in_a_row=in_a_row, shown=float(shown.min()))


def _least(call: Callable[[], None]) -> float:
    return min(_timed(call) for _ in range(_REPEATS)) / _IN_A_ROW


def _after_work(call: Callable[[], object]) -> float:
    work = np.zeros(_WORK_BYTES, dtype=np.uint8)
    durations = []
    for _ in range(_AFTER_WORK):
        work += 1
        durations.append(_timed(call))
    return float(np.median(durations))


def _timed(call: Callable[[], object]) -> int:
    begin = perf_counter_ns()
    call()
    return perf_counter_ns() - begin


def _regions(scratch: Timeline, n: int) -> None:
    for _ in range(n):
        with scratch.region("empty"):
            pass


def _empty(n: int) -> None:
    nothing = nullcontext()
    for _ in range(n):
        with nothing:
            pass


def _next_of(iterator: Iterator[object]) -> Callable[[], object]:
    return lambda: next(iterator)


Codes = Annotated[NDArray[np.int32], *listed(row_of(np.int32, "i", "int"), {"type": "integer"})]


class ThreadRecord(RecordModel):
    """The events of one thread, ``n`` of them, wherever they lie; see `deep_bench.training.timeline.journal.EventBlock`."""

    name: str
    ident: int
    n: Count
    codes: Codes
    values: WholeNumbers

    @classmethod
    def of(cls, log: ThreadLog, events: EventBlock) -> ThreadRecord:
        """A thread's log, as it is recorded."""
        return cls(name=log.name, ident=log.ident, n=len(events.codes), codes=events.codes, values=events.values)


class TimelineRecord(RecordModel):
    """One timeline.

    Attributes:
        names: What the codes stand for, in the order of their numbers; see `deep_bench.training.timeline.stamps.NameTable`.
        synchronize: What waited for a device at the ends of regions; None if nothing did.
        asynchronous: What works asynchronously in this process, as far as is known: framework to device.
        warm_up: How many of a phase's first steps are kept apart.
        start_ns: When it began, on the clock of the stamps.
        end_ns: When it ended; None if it did not.
        cost: What looking cost; None if it was not measured, because the run was killed.
        lost: How many events were beyond the limit.
        error: The exception that ended the loop.
        journal: The file beside the record that holds the stamps of a run that did not finish.
        complete: False while the run goes on, and for ever if it was killed.
    """

    kind: Literal["timeline"] = "timeline"
    schema_version: Literal[1] = 1
    created: Date = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    command: list[str] = Field(default_factory=list)
    environment: Environment
    names: list[Name] = Field(default_factory=list)
    threads: list[ThreadRecord] = Field(default_factory=list)
    synchronize: str | None = None
    asynchronous: dict[str, str] = Field(default_factory=dict)
    warm_up: int = Field(default=1, ge=0)
    start_ns: int
    end_ns: int | None = None
    cost: LookingCost | None = None
    steal: float | None = None
    load_after: float | None = None
    lost: int = 0
    error: str | None = None
    notes: list[str] = Field(default_factory=list)
    journal: str | None = Field(default=None, pattern=r"^[^/\\]+$")
    arrays: ArrayFile | None = None
    complete: bool = False


_COLUMNS = {"codes": np.int32, "values": np.int64}


def new_file(path: str | Path) -> Path:
    """A path for a record: the one given, or one with a new name in the folder given.

    Raises:
        InvalidArgument: The file exists, or there is no folder for it.
    """
    path = Path(path)
    if path.is_dir():
        path /= f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}_timeline_{secrets.token_hex(4)}.json"
    if path.suffix != ".json":
        raise InvalidArgument(f"{path} for a timeline", "a file that ends in .json, or a folder that exists")
    if path.exists():
        raise InvalidArgument(f"{path} exists", "a new file, or a folder", "name another, or take the old one away")
    if not path.parent.is_dir():
        raise InvalidArgument(f"no folder {str(path.parent)!r} for {path.name}", advice="create it, or name another")
    return path


def write(record: TimelineRecord, path: Path) -> Path:
    """Write a record, its events to an HDF5 file beside it where they are many; what ``path`` held is replaced at the end.

    Raises:
        InvalidArgument: The folder cannot be written.
    """
    before, record = arrays_beside(path), record.model_copy(update={"arrays": None})
    content: dict[str, Any]
    if sum(thread.n for thread in record.threads) > INLINE_SAMPLES:
        beside = path.with_name(f"{path.stem}_{secrets.token_hex(4)}.h5")
        columns = {f"{i}/{column}": getattr(t, column) for i, t in enumerate(record.threads) for column in _COLUMNS}
        written(beside, lambda temporary: fill_columns(temporary, columns))
        content = record.model_dump(mode="json", exclude={"threads": {"__all__": set(_COLUMNS)}})
        for thread in content["threads"]:
            thread |= {"codes": [], "values": []}
        content["arrays"] = ArrayFile(name=beside.name, sha256=digest(beside)).model_dump()
    else:
        content = record.model_dump(mode="json")
    text = json.dumps(content, allow_nan=False) + "\n"
    written(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    if before is not None:
        before.unlink(missing_ok=True)
    return path


def read(path: str | Path) -> TimelineRecord:
    """Read a record, with its events from the files beside it; of a run that was killed, what it had written.

    Raises:
        InvalidRecord: Not a timeline, of another schema version, truncated or too large; or a file beside it is missing or
            was altered.
    """
    path = Path(path)
    record = read_model(path, TimelineRecord, "a timeline's JSON file")
    if record.journal is not None:
        record.names, logs = read_journal(path.with_name(record.journal))
        record.threads += [ThreadRecord.of(log, EventBlock.joined(log.blocks)) for _, log in sorted(logs.items())]
    if record.arrays is not None:
        beside = file_beside(path, record.arrays, "its events' file")
        types = {f"{i}/{name}": (dtype, t.n) for i, t in enumerate(record.threads) for name, dtype in _COLUMNS.items()}
        for name, values in read_columns(beside, types, f"the events of {path.name}").items():
            number, _, column = name.partition("/")
            setattr(record.threads[int(number)], column, values)
        record.arrays = None
    _check(record, path)
    return record


def _check(record: TimelineRecord, path: Path) -> None:
    for thread in record.threads:
        if {len(thread.codes), len(thread.values)} != {thread.n}:
            raise InvalidRecord(f"{path}: thread {thread.name!r} has {len(thread.codes)} codes", f"{thread.n}")
        numbers = np.where(thread.codes < 0, ~thread.codes, thread.codes) // 4
        if len(numbers) and int(numbers.max()) >= len(record.names):
            raise InvalidRecord(f"{path}: thread {thread.name!r} has a code without a name")
