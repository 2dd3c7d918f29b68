"""How a timeline is kept: while it goes on, packed in memory or in a journal; at its end, as a record.

A journal is a file that only grows, with one JSON line after the other: what a run that is killed leaves. The record has all
raw stamps, where they were taken and what looking cost; whatever is printed can be computed from it. Its files are written
whole or not at all, and checked when they are read.
"""

from __future__ import annotations

import base64
import errno
import json
import secrets
import threading
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
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
from deep_bench.training.timeline.stamps import MOST_NAMES, Name, NameTable

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline


@dataclass(frozen=True)
class EventBlock:
    """Events in a row of one thread.

    Args:
        codes: What happened; int32. See `Names`.
        values: When, as a ``perf_counter_ns`` stamp, or a counter's value; int64.
    """

    codes: NDArray[np.int32]
    values: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: list[int]) -> EventBlock | None:
        """From a list of code, value, code, value …; None if it is none, because two threads wrote it at once."""
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        if len(table) and np.abs(table[:, 0]).max() > 4 * MOST_NAMES:
            return None
        return cls(table[:, 0].astype(np.int32), np.ascontiguousarray(table[:, 1]))

    @classmethod
    def joined(cls, blocks: Iterable[EventBlock]) -> EventBlock:
        """Several blocks as one."""
        columns = [(np.empty(0, np.int32), np.empty(0, np.int64)), *((block.codes, block.values) for block in blocks)]
        return cls(*map(np.concatenate, zip(*columns, strict=True)))


@dataclass
class ThreadLog:
    """The events of one thread; only that thread appends to ``pending``."""

    name: str
    ident: int
    pending: list[int] = field(default_factory=list)
    blocks: list[EventBlock] = field(default_factory=list)

    def take(self) -> list[int]:
        """Take all complete pairs out of ``pending``.

        The thread may append at any moment between these lines: it only lengthens the list, and what is taken is its begin.
        """
        n = len(self.pending) // 2 * 2
        pairs = self.pending[:n]
        del self.pending[:n]
        return pairs


class Journal:
    """Appends blocks of events; each is handed to the operating system whole before `write` returns.

    Args:
        path: A new file.

    Raises:
        InvalidArgument: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open(path, "xb", buffering=0)  # noqa: SIM115 (open for as long as the timeline is)
        except OSError as error:
            raise InvalidArgument(
                f"cannot write {path}: {error.strerror}", "a new file in a folder that can be written"
            ) from error

    def write(self, names: Sequence[Name], thread: int, log: ThreadLog, block: EventBlock) -> None:
        """Append events of one thread, with all names known so far.

        Raises:
            OSError: They could not be written; then nothing may be written after them.
        """
        line = {
            "names": names,
            "thread": thread,
            "thread_name": log.name,
            "ident": log.ident,
            "codes": _packed(block.codes),
            "values": _packed(block.values),
        }
        data = json.dumps(line).encode() + b"\n"
        if self._file.write(data) != len(data):
            raise OSError(errno.ENOSPC, "only a part of the line could be written")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def remove(self) -> None:
        """Close the file and delete it."""
        self._file.close()
        self.path.unlink()


def read_journal(path: Path) -> tuple[list[Name], dict[int, ThreadLog]]:
    """All names, and the log of each thread by its number.

    A last line that was cut off when its process was killed does not count.

    Raises:
        InvalidRecord: The file is missing, or damaged elsewhere than at its end.
    """
    names: list[Name] = []
    logs: dict[int, ThreadLog] = {}
    try:
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                if not text.endswith("\n"):
                    break
                try:
                    line = json.loads(text)
                    names = [Name(*entry) for entry in line["names"]]
                    log = logs.setdefault(line["thread"], ThreadLog(line["thread_name"], line["ident"]))
                    block = EventBlock(_unpacked(line["codes"], np.int32), _unpacked(line["values"], np.int64))
                    if len(block.codes) != len(block.values):
                        raise ValueError(f"{len(block.codes)} codes with {len(block.values)} values")
                    log.blocks.append(block)
                except (ValueError, KeyError, TypeError, zlib.error) as error:
                    raise InvalidRecord(
                        f"{path}, line {number}, is damaged: {error}", advice="restore it from a copy"
                    ) from error
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", "the stamps of a run that did not finish") from error
    return names, logs


def _packed(array: np.ndarray) -> str:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(zlib.compress(little.tobytes(), level=1)).decode("ascii")


def _unpacked(text: str, dtype: DTypeLike) -> np.ndarray:
    array = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.dtype(dtype).newbyteorder("<"))
    return array.astype(dtype)


PERIOD_S = 1.0
MOST_PENDING = 2**15
"""A list longer than this (an event is two entries) is packed at the next turn."""


class StampKeeper:
    """Owns the logs of all threads, and a thread of its own that packs them.

    Args:
        names: All names so far.
        journal: Where packed events are written; None keeps them in memory, 12 bytes an event.
        limit: The most events that are kept in memory; what comes later is counted and lost.
    """

    def __init__(self, names: NameTable, journal: Journal | None, limit: int) -> None:
        self.lost = 0
        self.notes: list[str] = []
        self.logs: list[ThreadLog] = []
        self._names, self._journal, self._limit = names, journal, limit
        self._kept = 0
        self._full = False
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deep_bench timeline", daemon=True)
        self._thread.start()

    def log(self) -> ThreadLog:
        """A log for the calling thread."""
        thread = threading.current_thread()
        log = ThreadLog(thread.name, thread.ident or 0)
        with self._lock:
            self.logs.append(log)
        return log

    def pack(self, least: int = 0) -> None:
        """Pack all logs of more than ``least`` entries; with a journal, what they had is in the file when this returns."""
        with self._lock:
            for index, log in enumerate(self.logs):
                if len(log.pending) > least and (pairs := log.take()):
                    block = EventBlock.of(pairs)
                    if block is None:
                        self.notes.append(
                            f"{len(pairs) // 2} events of thread {log.name!r} were lost: a region was entered in another "
                            "thread than the one that asked for it"
                        )
                    else:
                        self._keep(index, log, block)

    def events(self) -> list[tuple[ThreadLog, EventBlock]]:
        """All that was stamped so far, thread by thread; reads the journal."""
        self.pack()
        with self._lock:
            earlier = read_journal(self._journal.path)[1] if self._journal is not None else {}
            return [
                (log, EventBlock.joined([*(earlier[index].blocks if index in earlier else ()), *log.blocks]))
                for index, log in enumerate(self.logs)
            ]

    def stop(self) -> None:
        """End the thread, and pack what is left."""
        self._stop.set()
        self._thread.join()
        self.pack()

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self.pack(0 if self._journal is not None else MOST_PENDING)

    def _keep(self, index: int, log: ThreadLog, block: EventBlock) -> None:
        if self._journal is not None and not self._full:
            try:
                self._journal.write(list(self._names.table), index, log, block)
                return
            except OSError as error:
                self._full = True  # for good: what is in memory follows what is in the file
                note = f"the partial record could not be written any more ({error}); the rest was kept in memory"
                self.notes.append(note)
                warnings.warn(note, RuntimeWarning, stacklevel=2)
        if self._kept + len(block.codes) > self._limit:
            self.lost += len(block.codes)
        else:
            self._kept += len(block.codes)
            log.blocks.append(block)


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
    """The events of one thread, ``n`` of them, wherever they lie; see `EventBlock`."""

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
