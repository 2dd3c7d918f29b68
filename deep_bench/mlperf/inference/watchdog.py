"""``Watchdog``: ends the process when the run under LoadGen cannot come to its end any more, and says why."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from deep_bench.mlperf.inference.faults import RunFailed, note
from deep_bench.mlperf.inference.ledger import Ledger
from deep_bench.mlperf.inference.system import System

EXIT_STATUS = 70
_LOOK_S = 0.1
_HELD_S = 15.0
"""After so much more than a stall, a call that never lets go of Python's lock is ended as well, by C: that prints `HELD`."""

HELD = "Timeout (0:"


class Watchdog:
    """Looks ten times a second, from a thread of its own.

    LoadGen cannot be stopped, and it crashes on exceptions: so the process is ended, after the reason is in a file.

    Args:
        folder: For the reason.
        ledger: Gives the ledger of now.
        stall: Seconds without an answer, or in one loading of samples.
    """

    def __init__(self, folder: Path, ledger: Callable[[], Ledger], stall: float) -> None:
        self._folder, self._ledger, self._stall = folder, ledger, stall
        self._system: System | None = None
        self._busy: tuple[str, float, float] | None = None
        self._over = threading.Event()
        self._ending = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begin, and take the exceptions of all threads for faults of the run."""
        threading.excepthook = lambda args: self.end(args.exc_value or RunFailed("a thread ended with an error"))
        self._thread.start()

    def watch(self, system: System | None) -> None:
        """Look after the threads of a system as well; ``None``: no more."""
        self._system = system

    def busy(self, what: str, stalls: float = 1.0) -> None:
        """Note that something begins which must not last longer than so many stalls."""
        self._busy = (what, monotonic(), stalls * self._stall)

    def free(self) -> None:
        """It ended."""
        self._busy = None

    def close(self) -> None:
        """The run came to its end."""
        self._over.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def end(self, error: BaseException) -> None:
        """Leave the reason in the folder, and end the process: does not return."""
        with self._ending:  # never let go of: the first reason counts
            note(self._folder, error)
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
            os._exit(EXIT_STATUS)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            faulthandler.dump_traceback_later(self._stall + _HELD_S, exit=True)
            if error := self._found():
                faulthandler.dump_traceback()
                self.end(error)

    def _found(self) -> BaseException | None:
        ledger = self._ledger()
        if ledger.fault is not None:
            return ledger.fault
        system = self._system
        for thread in system.threads if system else ():
            if thread.ident is not None and not thread.is_alive() and self._system is system:
                return RunFailed(f"the thread {thread.name} of the system ended", "threads that live until `stop`")
        if ledger.idle_s > self._stall:
            came = f"no answer for {self._stall:g} s, and {ledger.outstanding} of {ledger.count} samples wait for one"
            waiting = ", ".join(map(str, ledger.waiting()))
            expected = f"an answer to each (the longest wait: sample {waiting})"
            return RunFailed(
                came, expected, "an answer was lost, or the system hangs: see the stacks in the log, or --stall"
            )
        busy = self._busy
        if busy is not None and monotonic() - busy[1] > busy[2]:
            return RunFailed(f"{busy[0]} took more than {busy[2]:g} s", advice="see the stacks in the log; else --stall")
        return None
