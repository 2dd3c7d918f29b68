"""To end a run between two steps when a signal comes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from deep_bench.events import Moment
from deep_bench.training.progress import Progress
from deep_bench.training.trainer import INTERRUPTED

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TOLD = b"interrupted: ends after this step; once more ends it at once\n"


class Signals:
    """Ctrl-C and SIGTERM as a call: the first of them; the next does what it did before. In the main thread only.

    Args:
        told: Called at the first; it comes between any two instructions, so it should note it and no more.

    Attributes:
        came: How many came.

    Example:
        >>> signals = Signals(lambda: print("stop, please"))
        >>> signals.begin()
        >>> signal.raise_signal(signal.SIGINT)
        stop, please
        >>> signals.end()
        >>> signals.came
        1
    """

    def __init__(self, told: Callable[[], object]) -> None:
        self.came = 0
        self._told = told
        self._before: dict[signal.Signals, Any] = {}

    def begin(self) -> None:
        """Take them from now on."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}

    def end(self) -> None:
        """Leave them to what took them before."""
        while self._before:
            signal.signal(*self._before.popitem())

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.came += 1
        if self.came > 1:
            self.end()
            signal.raise_signal(number)
            return
        os.write(2, _TOLD)  # what is buffered may be amid a write of its own
        self._told()


class StopAtSignal:
    """Ends a run after the step, or the evaluation, during which Ctrl-C or SIGTERM came; the next one ends it at once.

    A step that is broken off leaves parameters of which some are updated and others are not. A run that ends so can be
    resumed exactly, from what a `deep_bench.training.Checkpoints` before this in the callbacks then writes. Give it last:
    signals are taken from when all others have begun.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_RUN)

    def __init__(self) -> None:
        self._signals = Signals(lambda: None)

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Take the signals, or give them back."""
        if moment is Moment.BEFORE_RUN:
            self._signals = Signals(lambda: data.stop(INTERRUPTED))
            self._signals.begin()
            return
        self._signals.end()
        if self._signals.came and data.history.stopped_because != INTERRUPTED:
            raise KeyboardInterrupt  # the run came to another end meanwhile; what it is one of several of must end too
