"""Where a rank is: asked by a thread beside, so that the program itself never has to say it."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from deep_bench.distributed.communicators.log import OPERATIONS

_COMMUNICATORS = (
    "deep_bench.distributed.communicators.",
    "deep_bench.adapters.mpi.",
    "deep_bench.adapters.torch.communicator",
    "deep_bench.adapters.torch.messages",
)
_NAMES = frozenset((*OPERATIONS, "wait"))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank is.

    Args:
        step: How many steps it has taken; ``None`` before it trains.
        operation: The operation that it waits in; empty if it is in none.
        since_s: So long has it been there, and got no further.
        line: Of its program.
    """

    step: int | None = None
    operation: str = ""
    since_s: float = 0.0
    line: str = ""


class Where:
    """Finds the place of the thread that makes it.

    Attributes:
        step: Tells how many steps were taken.
        calls: Tells how many operations were.
        common: Tells how many steps all ranks have certainly taken.

    Example:
        >>> where = Where()
        >>> where.step = lambda: 7
        >>> where.place().step, where.place().operation
        (7, '')
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.step: Callable[[], int] | None = None
        self.calls: Callable[[], int] | None = None
        self.common: Callable[[], int] | None = None
        self._last: Any = None
        self._since = monotonic()

    def place(self) -> Place:
        """The place now. A rank has got further if it has taken a step, or begun or ended an operation."""
        frame, moment = sys._current_frames().get(self._thread), monotonic()
        step = None if self.step is None else self.step()
        operation = operation_of(frame)
        state = (step, operation, None if self.calls is None else self.calls())
        if state != self._last:
            self._last, self._since = state, moment
        return Place(step, operation, moment - self._since, _line(frame))

    def least(self, heard: Place) -> Place:
        """The place of another rank, no earlier than all are known to be: what it told may be half a second old.

        Example:
            >>> where = Where()
            >>> where.common = lambda: 15
            >>> where.least(Place(2, "allreduce")), where.least(Place(15, "allreduce")).operation
            (Place(step=15, operation='', since_s=0.0, line=''), 'allreduce')
        """
        common = 0 if self.common is None else self.common()
        return Place(common) if common > (heard.step or 0) else heard


def operation_of(frame: FrameType | None) -> str:
    """The operation of a communicator that a stack is in, by its outermost name; empty for none."""
    name = next((f.f_code.co_name for f in reversed(list(_frames(frame))) if _communicates(f)), "")
    return "the wait for a message" if name == "wait" else name


def of_communication(error: BaseException) -> bool:
    """Whether an exception came out of a communicator, which fails when another rank does."""
    return any(_communicates(frame) for frame, _ in traceback.walk_tb(error.__traceback__))


def stacks() -> str:
    """The stack of every thread of this process."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    sections = []
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            sections.append(f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}")
    return "\n".join(sections)


def _communicates(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return frame.f_code.co_name in _NAMES and module.startswith(_COMMUNICATORS)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _line(frame: FrameType | None) -> str:
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}, {frame.f_code.co_name}"
