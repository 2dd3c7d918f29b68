"""``Ledger``: every sample that LoadGen issued and every answer to it, so that none is lost, doubled or made up."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from time import monotonic, perf_counter_ns
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from deep_bench.mlperf.inference.faults import RunFailed

NOT_ASKED, NO_CLASS = -1, -2
"""In the place of an answer: of a sample that was not asked for, and of one that was answered with something else."""

_REMEMBERED = 65_536
_CLASS = np.dtype("<i8")


class Ledger:
    """Stands between a system under test and LoadGen, which crashes on an answer that it does not wait for.

    Args:
        send: Hands answers to LoadGen: their ids, and the rows of an array.
        samples: In the library, where they are classified: the last answer to each is kept.

    Attributes:
        fault: The first fault, once there is one: then nothing is handed over any more.
        ended: Whether LoadGen has all it waits for.

    Example:
        >>> ledger = Ledger(lambda ids, rows: None)
        >>> ledger.issued([7, 8], [0, 3])
        >>> ledger.complete([8], np.zeros((1, 2)))
        >>> ledger.outstanding, ledger.complete([8], np.zeros((1, 2)))
        Traceback (most recent call last):
        ...
        deep_bench.mlperf.inference.faults.RunFailed: the sample of id 8 was answered twice
        Expected: one answer to each sample that LoadGen issued
    """

    def __init__(self, send: Callable[[Sequence[int], NDArray[np.generic]], None], samples: int = 0) -> None:
        self.fault: BaseException | None = None
        self.ended = False
        self._send = send
        self._last = array("q", [NOT_ASKED]) * samples
        self._lock = threading.Lock()
        self._open: dict[int, int] = {}
        self._answered: deque[int] = deque(maxlen=_REMEMBERED)
        self._moved = monotonic()
        self._indices, self._queries = array("q"), array("q")
        self._issued_ns, self._done_ns = array("q"), array("q")
        self._query = 0

    @property
    def outstanding(self) -> int:
        """Samples that were issued and are not answered."""
        return len(self._open)

    @property
    def count(self) -> int:
        """Samples that were issued."""
        return len(self._indices)

    @property
    def idle_s(self) -> float:
        """Seconds since a sample was issued or answered, while some wait for an answer; else 0."""
        return monotonic() - self._moved if self._open else 0.0

    def issued(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Note the samples of a query, before the system has them.

        Args:
            ids: LoadGen's number of each.
            indices: Which sample of the library each is.
        """
        timestamp = perf_counter_ns()
        with self._lock:
            for place, number in enumerate(ids, len(self._indices)):
                self._open[number] = place
            self._indices.extend(indices)
            self._queries.extend([self._query] * len(ids))
            self._issued_ns.extend([timestamp] * len(ids))
            self._done_ns.extend([0] * len(ids))
            self._query += 1
            self._moved = monotonic()

    def complete(self, ids: Sequence[int], rows: NDArray[np.generic]) -> None:
        """Hand answers to LoadGen.

        Args:
            ids: LoadGen's number of each sample.
            rows: Their answers, one a row; contiguous. They are copied at once.

        Raises:
            RunFailed: An answer to nothing that waits for one, or there are not as many rows as ids.
        """
        if self.fault is not None:
            return
        timestamp = perf_counter_ns()
        if len(rows) != len(ids) or not rows.nbytes or rows.dtype.hasobject:
            self._fail(
                f"{len(rows)} answers of {rows.dtype} to {len(ids)} samples", "one answer, of some bytes, to each sample"
            )
        keeps_last = bool(self._last)
        with self._lock:
            for number, answer in zip(ids, _classes(rows) if keeps_last else repeat(NOT_ASKED), strict=False):
                place = self._open.pop(number, None)
                if place is None:
                    self._refuse(number)
                self._done_ns[place] = timestamp
                if keeps_last:
                    self._last[self._indices[place]] = answer
            self._answered.extend(ids)
            self._moved = monotonic()
        self._send(ids, rows)

    def failed(self, error: BaseException) -> None:
        """Note what went wrong; the first counts."""
        if self.fault is None:
            self.fault = error

    def answers(self) -> NDArray[np.int64]:
        """The class of the last answer to each sample of the library, or `NOT_ASKED`, or `NO_CLASS`."""
        with self._lock:
            return np.array(self._last, np.int64)

    def columns(self) -> dict[str, NDArray[np.int64]]:
        """What was noted of each sample, in the order of issue.

        Returns:
            ``index`` (of the library), ``query``, ``issued_ns`` and ``done_ns`` (0: never).
        """
        with self._lock:
            return {
                "index": np.array(self._indices, np.int64),
                "query": np.array(self._queries, np.int64),
                "issued_ns": np.array(self._issued_ns, np.int64),
                "done_ns": np.array(self._done_ns, np.int64),
            }

    def waiting(self, most: int = 3) -> list[int]:
        """Which samples of the library wait longest for an answer."""
        with self._lock:
            return [self._indices[place] for _, place in zip(range(most), self._open.values(), strict=False)]

    def _refuse(self, number: int) -> NoReturn:
        expected = "one answer to each sample that LoadGen issued"
        twice = number in self._answered
        if self.ended:
            self._fail(f"the sample of id {number} was answered after the end of the test", expected)
        if twice:
            self._fail(f"the sample of id {number} was answered twice", expected)
        self._fail(f"an answer to id {number}, which LoadGen never issued, or which was answered long ago", expected)

    def _fail(self, came: str, expected: str) -> NoReturn:
        error = RunFailed(came, expected)
        self.failed(error)
        raise error


def _classes(rows: NDArray[np.generic]) -> Iterable[int]:
    """Answers as the accuracy log of LoadGen would be read: 8 bytes, a whole number."""
    if rows.dtype == _CLASS and rows.ndim == 1:
        values = rows
    elif rows.nbytes == _CLASS.itemsize * len(rows):
        values = np.frombuffer(rows.tobytes(), _CLASS)
    else:
        return repeat(NO_CLASS, len(rows))
    return [answer if answer >= 0 else NO_CLASS for answer in values.tolist()]
