"""To end this process at once, wherever its other threads are."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread

FAULT, INTERRUPTED = 3, 130
"""Exit statuses of a run that a rank has ended, and of one that was interrupted."""

_FLUSHING_S = 1.0


def say(text: str) -> None:
    """Tell on the error stream, on lines of its own, in one piece."""
    begin = "\n" if sys.stderr.isatty() else ""  # a progress bar may stand there
    with suppress(OSError):
        os.write(2, f"{begin}deep-bench: {text}\n".encode())


def leave(status: int) -> None:
    """End the process, after what was printed is written out."""
    flushing = Thread(target=_flush, daemon=True)  # somebody may hold the stream for ever
    flushing.start()
    flushing.join(_FLUSHING_S)
    os._exit(status)


def kill(pids: Iterable[int]) -> None:
    """Kill processes of this host, which do not end by themselves."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
