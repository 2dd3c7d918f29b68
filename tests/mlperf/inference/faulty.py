"""Systems under test with faults that LoadGen crashes on, waits on for ever, or does not see."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

import numpy as np

from deep_bench.mlperf.inference import Library, System, Work
from deep_bench.mlperf.inference.system import Respond

FIRST = 40
"""The fault comes with this sample, after the pilot's few."""


class Right(System):
    """Answers at once with the class that the data set has."""

    def __init__(self, work: Work) -> None:
        self.labels = work.labels
        self.seen = 0

    def start(self, library: Library, respond: Respond) -> None:
        self.respond = respond

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        self.seen += 1
        self.answer(list(ids), self.labels[list(indices)], self.seen >= FIRST)

    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        self.respond(ids, rows)


class Raises(Right):
    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        if faulty:
            raise ZeroDivisionError("planted")
        super().answer(ids, rows, faulty)


class Drops(Right):
    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        if not faulty:
            super().answer(ids, rows, faulty)


class Doubles(Right):
    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        for _ in range(1 + faulty):
            super().answer(ids, rows, faulty)


class Late(Right):
    """Answers again when it is stopped."""

    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        self.last = ids, rows
        super().answer(ids, rows, faulty)

    def stop(self) -> None:
        self.respond(*self.last)


class ThreadRaises(Right):
    """Its thread ends with an exception."""

    def start(self, library: Library, respond: Respond) -> None:
        super().start(library, respond)
        self.dying = threading.Event()

        def work() -> None:
            self.dying.wait()
            raise KeyError("planted")

        self.threads = (threading.Thread(target=work, daemon=True),)
        self.threads[0].start()

    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        if faulty:
            self.dying.set()
            threading.Event().wait()
        super().answer(ids, rows, faulty)


class Hangs(Right):
    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        if faulty:
            threading.Event().wait()
        super().answer(ids, rows, faulty)


class Crashes(Right):
    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        if faulty:
            ctypes.string_at(0)
        super().answer(ids, rows, faulty)


class LoadingRaises(Right):
    """LoadGen's first loading of samples fails: the pilot's own succeeds."""

    def start(self, library: Library, respond: Respond) -> None:
        super().start(library, respond)
        library.load = self._load  # type: ignore[method-assign]

    def _load(self, indices: Sequence[int]) -> None:
        raise OSError("planted: the disk is gone")


class Wrong(Right):
    """Answers another class than the right one, once in twenty."""

    def answer(self, ids: list[int], rows: np.ndarray, faulty: bool) -> None:
        super().answer(ids, (rows + 1) % 10 if self.seen % 20 == 0 else rows, faulty)
