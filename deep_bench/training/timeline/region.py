"""What runs inside the user's loop: stamps, and nothing else.

A code and a stamp are appended to a plain list, which is the fastest that Python can keep a number: appending to an
``array`` takes four times as long. The lists are packed by `deep_bench.training.timeline.keeper`.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from time import perf_counter_ns
from types import TracebackType

from deep_bench.training.timeline.codes import DEVICE_MEMORY, DONE, PEAK_MEMORY, RAISED, SAMPLES, SWITCHES, Names

Append = Callable[[int], None]
Settle = Callable[[], object]

_ASK_NS = 10_000_000
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class Region:
    """The spans of one name in one thread; one object for all of them, since it holds nothing of any.

    Args:
        append: Takes the events of this thread.
        number: The name's number in `Names`.
        settle: Waits for the device before the end is stamped; None stamps at once.
    """

    __slots__ = ("_append", "_begin", "_done", "_raised", "_settle")

    def __init__(self, append: Append, number: int, settle: Settle | None) -> None:
        self._append = append
        self._settle = settle
        self._begin = 4 * number
        self._done = ~(4 * number + DONE)
        self._raised = ~(4 * number + RAISED)

    def __enter__(self) -> None:
        append = self._append
        append(self._begin)
        append(perf_counter_ns())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._settle is not None:
            self._settle()
        timestamp = perf_counter_ns()
        append = self._append
        append(self._done if kind is None else self._raised)
        append(timestamp)

    def end(self, ending: int) -> None:
        """End a span that was begun with ``__enter__``, and say how."""
        if self._settle is not None:
            self._settle()
        timestamp = perf_counter_ns()
        self._append(~(~self._done + ending))
        self._append(timestamp)


class Step:
    """The steps of one phase in one thread: a span that notes, at its end, how many samples it had and what memory it took.

    Asking the system takes microseconds, so it is asked again only after `_ASK_NS`.

    Args:
        append: Takes the events of this thread.
        names: Where counters find their numbers.
        number: The number of the phase's steps.
        settle: See `Region`.
        device_memory: The bytes in use on a device; None notes none.
    """

    __slots__ = (
        "_append",
        "_asked",
        "_device",
        "_device_memory",
        "_number",
        "_peak",
        "_samples",
        "_settle",
        "_switches",
        "samples",
    )

    def __init__(
        self, append: Append, names: Names, number: int, settle: Settle | None, device_memory: Callable[[], int] | None
    ) -> None:
        self._append = append
        self._number = 4 * number
        self._settle = settle
        self._device_memory = device_memory
        self._samples, self._peak, self._switches, self._device = (
            4 * names.number("counter", name) for name in (SAMPLES, PEAK_MEMORY, SWITCHES, DEVICE_MEMORY)
        )
        self._asked = -_ASK_NS
        self.samples: int | None = None

    def __enter__(self) -> None:
        self._append(self._number)
        self._append(perf_counter_ns())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(DONE if kind is None else RAISED)

    def end(self, ending: int) -> None:
        """End the step and say how; the stamp comes first, the counters cost it nothing."""
        if self._settle is not None:
            self._settle()
        timestamp = perf_counter_ns()
        append = self._append
        if self.samples is not None:
            append(self._samples)
            append(self.samples)
        if timestamp - self._asked >= _ASK_NS:
            self._asked = timestamp
            usage = resource.getrusage(resource.RUSAGE_SELF)
            append(self._peak)
            append(usage.ru_maxrss * _RSS_UNIT)
            append(self._switches)
            append(usage.ru_nivcsw)
        if self._device_memory is not None:
            append(self._device)
            append(self._device_memory())
        append(~(self._number + ending))
        append(timestamp)
