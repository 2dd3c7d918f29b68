"""A rank that fails ends all others, which would wait for it for ever."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import DeepBenchError


@contextmanager
def guarded(comm: Communicator) -> Iterator[None]:
    """End all ranks if this one raises within the block, or leaves the program with a status that is not 0.

    Args:
        comm: Whose ranks.

    Example:
        >>> from deep_bench.distributed.communicators.local import LocalCommunicator
        >>> with guarded(LocalCommunicator()):
        ...     raise DeepBenchError("a step of 0")
        Traceback (most recent call last):
        deep_bench.errors.CommunicationFailed: rank 0 ended the run: DeepBenchError: a step of 0
    """
    try:
        yield
    except SystemExit as error:
        if error.code not in (None, 0):
            comm.abort(f"SystemExit: {error.code}")
        raise
    except BaseException as error:
        comm.abort(cause(error))
        raise


def end_all_on_exception(comm: Communicator) -> None:
    """End all ranks if this one ends with an exception that nobody catches: `guarded` for the rest of the program.

    Args:
        comm: Whose ranks.
    """

    def hook(_: type[BaseException], error: BaseException, __: TracebackType | None) -> None:
        comm.abort(cause(error))

    sys.excepthook = hook


def cause(error: BaseException) -> str:
    """What failed, in a line or a few; with the traceback if it is none of deep_bench's own errors."""
    message = f"{type(error).__name__}: {error}"
    return message if isinstance(error, DeepBenchError) else "".join(traceback.format_exception(error)).rstrip()


def end_process(who: str, reason: str, end: Callable[[int], object] = os._exit) -> None:
    """Tell on the error stream why a process ends its run, and end it.

    Args:
        who: Which rank.
        reason: Why.
        end: Ends it, with a status.
    """
    sys.stdout.flush()
    print(f"{who} on {platform.node()} ended the run: {reason}", file=sys.stderr, flush=True)
    end(1)
