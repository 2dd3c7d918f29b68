"""Keeps what was stamped: packs the threads' lists now and then, in memory or in a file."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deep_bench.training.timeline.codes import MOST_NAMES, Names
from deep_bench.training.timeline.journal import Journal

PERIOD_S = 1.0
MOST_PENDING = 2**15
"""A list longer than this (an event is two entries) is packed at the next turn."""


@dataclass(frozen=True)
class Block:
    """Events in a row of one thread.

    Args:
        codes: What happened; int32. See `Names`.
        values: When, as a ``perf_counter_ns`` stamp, or a counter's value; int64.
    """

    codes: NDArray[np.int32]
    values: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: list[int]) -> Block | None:
        """From a list of code, value, code, value …; None if it is none, because two threads wrote it at once."""
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        if len(table) and np.abs(table[:, 0]).max() > 4 * MOST_NAMES:
            return None
        return cls(table[:, 0].astype(np.int32), np.ascontiguousarray(table[:, 1]))

    @classmethod
    def joined(cls, blocks: list[Block]) -> Block:
        """Several blocks as one."""
        if not blocks:
            return cls(np.empty(0, np.int32), np.empty(0, np.int64))
        return cls(np.concatenate([b.codes for b in blocks]), np.concatenate([b.values for b in blocks]))


@dataclass
class Log:
    """The events of one thread; only that thread appends to ``pending``."""

    name: str
    ident: int
    pending: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def take(self) -> list[int]:
        """Take all complete pairs out of ``pending``.

        The thread may append at any moment between these lines: it only lengthens the list, and what is taken is its begin.
        """
        n = len(self.pending) // 2 * 2
        pairs = self.pending[:n]
        del self.pending[:n]
        return pairs


class Keeper:
    """Owns the logs of all threads, and a thread of its own that packs them.

    Args:
        names: All names so far.
        journal: Where packed events are written; None keeps them in memory, 12 bytes an event.
        limit: The most events that are kept in memory; what comes later is counted and lost.
    """

    def __init__(self, names: Names, journal: Journal | None, limit: int) -> None:
        self.lost = 0
        self.notes: list[str] = []
        self.logs: list[Log] = []
        self._names, self._journal, self._limit = names, journal, limit
        self._kept = 0
        self._full = False
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deep_bench timeline", daemon=True)
        self._thread.start()

    def log(self) -> Log:
        """A log for the calling thread."""
        thread = threading.current_thread()
        log = Log(thread.name, thread.ident or 0)
        with self._lock:
            self.logs.append(log)
        return log

    def pack(self, least: int = 0) -> None:
        """Pack all logs of more than ``least`` entries; with a journal, what they had is in the file when this returns."""
        with self._lock:
            for index, log in enumerate(self.logs):
                if len(log.pending) > least and (pairs := log.take()):
                    block = Block.of(pairs)
                    if block is None:
                        self.notes.append(
                            f"{len(pairs) // 2} events of thread {log.name!r} were lost: a region was entered in another "
                            "thread than the one that asked for it"
                        )
                    else:
                        self._keep(index, log, block)

    def events(self) -> list[tuple[Log, Block]]:
        """All that was stamped so far, thread by thread; reads the journal."""
        self.pack()
        with self._lock:
            earlier = self._journal.read().blocks if self._journal is not None else {}
            return [
                (log, Block.joined([*(Block(*b) for b in earlier.get(index, [])), *log.blocks]))
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

    def _keep(self, index: int, log: Log, block: Block) -> None:
        if self._journal is not None and not self._full:
            try:
                self._journal.write(list(self._names.table), index, log.name, log.ident, block.codes, block.values)
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
