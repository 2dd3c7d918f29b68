"""Keeps what was stamped: packs the threads' lists now and then, in memory or in a file that only grows.

The file has one JSON line after the other: what a run that is killed leaves of its timeline.
"""

from __future__ import annotations

import base64
import errno
import json
import threading
import warnings
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.training.timeline.stamps import MOST_NAMES, Name, NameTable


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
