"""Which rank is at fault when one is lost, from what each was doing, and the message and tracebacks that tell it."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, Literal, TypeAlias

from deep_bench.distributed.communicators.counting import OPERATIONS
from deep_bench.distributed.training.messages import numbered
from deep_bench.errors import shortened

_COMMUNICATORS = (
    "deep_bench.distributed.communicators.",
    "deep_bench.adapters.mpi",
    "deep_bench.adapters.torch.communicator",
    "deep_bench.adapters.torch.communicator",
)
_NAMES = frozenset((*OPERATIONS, "wait"))


@dataclass(frozen=True, slots=True)
class RankPlace:
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


class PlaceFinder:
    """Finds the place of the thread that makes it.

    Attributes:
        step: Tells how many steps were taken.
        calls: Tells how many operations were.
        common: Tells how many steps all ranks have certainly taken.

    Example:
        >>> where = PlaceFinder()
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

    def place(self) -> RankPlace:
        """The place now. A rank has got further if it has taken a step, or begun or ended an operation."""
        frame, moment = sys._current_frames().get(self._thread), monotonic()
        step = None if self.step is None else self.step()
        operation = operation_of(frame)
        state = (step, operation, None if self.calls is None else self.calls())
        if state != self._last:
            self._last, self._since = state, moment
        return RankPlace(step, operation, moment - self._since, _line(frame))

    def least(self, heard: RankPlace) -> RankPlace:
        """The place of another rank, no earlier than all are known to be: what it told may be half a second old.

        Example:
            >>> where = PlaceFinder()
            >>> where.common = lambda: 15
            >>> where.least(RankPlace(2, "allreduce")), where.least(RankPlace(15, "allreduce")).operation
            (RankPlace(step=15, operation='', since_s=0.0, line=''), 'allreduce')
        """
        common = 0 if self.common is None else self.common()
        return RankPlace(common) if common > (heard.step or 0) else heard


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


Kind: TypeAlias = Literal["lost", "silent", "hangs", "left", "deadlock", "raised", "memory", "interrupted", "disturbed"]

GRACE_S = 2.0
"""So long a failure of communication waits for the one that caused it."""


_LATE_S = 2.0
"""Who looks so much later than it meant to has slept itself, and blames nobody for it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception of a rank.

    Args:
        kind: ``"raised"``, ``"memory"``, ``"interrupted"``; ``"disturbed"``: communication failed, as it does when another
            rank is gone.
        text: What it says.
        traceback: The whole of it.
    """

    kind: Kind
    text: str
    traceback: str = ""


@dataclass
class RankStatus:
    """What is known of a rank.

    Args:
        host: Where it runs.
        pid: Its process.
        heard: When it was heard of last.
        place: Where it was then.
        state: Whether it is there, has said goodbye, or is gone without.
        failure: What it told of its own.
        failed: When.
    """

    host: str
    pid: int
    heard: float
    place: RankPlace = field(default_factory=RankPlace)
    state: Literal["here", "left", "lost"] = "here"
    failure: Failure | None = None
    failed: float = 0.0


@dataclass(frozen=True)
class Fault:
    """What ends a run.

    Args:
        kind: Of it.
        ranks: Whose fault it is.
        since_s: How long it has been so, where that matters.
        waiting: Ranks that wait for those, each with its operation.
    """

    kind: Kind
    ranks: tuple[int, ...]
    since_s: float = 0.0
    waiting: Mapping[int, str] = field(default_factory=dict)


class Verdicts:
    """What all ranks have told, and what follows.

    Args:
        ranks: Who they are.
        patience_s: So long may a rank be silent, or keep others waiting.
        every_s: How often somebody looks.

    Example:
        >>> verdicts = Verdicts({0: RankStatus("n0", 10, 0.0), 1: RankStatus("n1", 11, 0.0)}, patience_s=60.0, every_s=0.5)
        >>> verdicts.heard_from(0, RankPlace(3, "allreduce", 0.2), 1.0)
        >>> verdicts.gone(1)
        >>> verdicts.fault(1.0)
        Fault(kind='lost', ranks=(1,), since_s=0.0, waiting={})
    """

    def __init__(self, ranks: Mapping[int, RankStatus], *, patience_s: float, every_s: float) -> None:
        self.ranks = dict(ranks)
        self._patience_s, self._every_s = patience_s, every_s
        self._looked: float | None = None

    def heard_from(self, rank: int, place: RankPlace, now: float) -> None:
        """A rank has told where it is."""
        status = self.ranks[rank]
        status.heard, status.place = now, place

    def failed(self, rank: int, failure: Failure, now: float) -> None:
        """A rank has told of an exception."""
        status = self.ranks[rank]
        status.heard, status.failure, status.failed = now, failure, now

    def left(self, rank: int) -> None:
        """A rank has said goodbye."""
        self.ranks[rank].state = "left"

    def gone(self, rank: int) -> None:
        """A rank's connection has ended."""
        if self.ranks[rank].state == "here":
            self.ranks[rank].state = "lost"

    def forget(self, rank: int) -> None:
        """The others go on without a rank."""
        del self.ranks[rank]

    @property
    def here(self) -> list[int]:
        """The ranks that are there."""
        return [rank for rank, status in self.ranks.items() if status.state == "here"]

    def fault(self, now: float) -> Fault | None:
        """What is wrong now, the cause before what it causes; ``None`` if nothing is."""
        late = 0.0 if self._looked is None else now - self._looked - self._every_s
        if late > _LATE_S:
            for status in self.ranks.values():
                status.heard += late
        self._looked = now
        if failing := self._failing("raised", "memory", "interrupted"):
            return Fault(self._kind(failing[0]), tuple(failing[:1]))
        if lost := [rank for rank, status in self.ranks.items() if status.state == "lost"]:
            unexplained = [rank for rank in lost if self.ranks[rank].failure is None]
            return Fault("lost", tuple(unexplained)) if unexplained else Fault("disturbed", tuple(lost[:1]))
        disturbed = [rank for rank in self._failing("disturbed") if now - self.ranks[rank].failed >= GRACE_S]
        if disturbed:
            return Fault("disturbed", tuple(disturbed[:1]))
        return self._silent(now) or self._waiting()

    def _failing(self, *kinds: Kind) -> list[int]:
        matches = [
            rank for rank, status in self.ranks.items() if status.failure is not None and status.failure.kind in kinds
        ]
        return sorted(matches, key=lambda rank: self.ranks[rank].failed)

    def _kind(self, rank: int) -> Kind:
        failure = self.ranks[rank].failure
        assert failure is not None
        return failure.kind

    def _silent(self, moment: float) -> Fault | None:
        silent = [rank for rank in self.here if moment - self.ranks[rank].heard > self._patience_s]
        return Fault("silent", tuple(silent), max(moment - self.ranks[rank].heard for rank in silent)) if silent else None

    def _waiting(self) -> Fault | None:
        """Whether ranks have waited too long, and for whom."""
        stuck = {rank: self.ranks[rank].place for rank in self.here if self.ranks[rank].place.since_s > self._patience_s}
        waiting = {rank: place.operation for rank, place in stuck.items() if place.operation}
        absent = tuple(rank for rank, status in self.ranks.items() if status.state == "left")
        hanging = tuple(rank for rank in stuck if rank not in waiting)
        if hanging and (waiting or absent):
            since = max(stuck[rank].since_s for rank in hanging)
            return Fault("hangs", hanging, since, {**dict.fromkeys(absent, "the end of all"), **waiting})
        if not waiting or len(waiting) < len(self.here):
            return None
        since = min(stuck[rank].since_s for rank in waiting)
        if absent:
            return Fault("left", absent, since, waiting)
        return Fault("deadlock", tuple(waiting), since, waiting)


_LONGEST = 2_000
"""Characters of what an exception says."""


def fault_message(
    fault: Fault,
    ranks: Mapping[int, RankStatus],
    size: int,
    *,
    file: Path | None = None,
    resume: str = "",
    out_of_memory: bool = False,
) -> str:
    """The message: which rank, on which host, why, and what to do.

    Args:
        fault: What is wrong.
        ranks: What is known of each.
        size: How many there were.
        file: Where tracebacks are.
        resume: How to go on.
        out_of_memory: Whether the kernel has ended a process there for lack of memory meanwhile.

    Example:
        >>> from deep_bench.distributed.faults import RankPlace as Place
        >>> seen = {0: RankStatus("n0", 10, 0.0), 1: RankStatus("n1", 11, 0.0, Place(12, "allreduce", 0.2))}
        >>> print(fault_message(Fault("lost", (1,)), seen, 2))
        rank 1 of 2 on n1 was killed or crashed, last heard of after 12 steps, in allreduce: its process ended without a word
        What to do: the kernel's log (dmesg on n1) tells whether memory ran out
    """
    host = ranks[fault.ranks[0]].host
    lines = [f"{_ranks_at_fault(fault, ranks, size)} {_cause_text(fault, ranks, out_of_memory=out_of_memory)}"]
    advice = [_ADVICE[fault.kind].format(host=host)] if fault.kind in _ADVICE and not out_of_memory else []
    failure = ranks[fault.ranks[0]].failure
    if resume and fault.kind != "interrupted" and (failure is None or "What to do:" not in failure.text):
        advice.append(resume)
    if advice:
        lines.append(f"What to do: {'; '.join(advice)}")
    if file is not None and fault.kind != "interrupted":
        lines.append(f"Tracebacks of all ranks: {file}")
    return "\n".join(lines)


_ADVICE = {
    "lost": "the kernel's log (dmesg on {host}) tells whether memory ran out",
    "memory": "take smaller batches, or fewer ranks on a node",
    "silent": "look whether {host} can be reached, and what its processes do",
    "hangs": "the tracebacks tell where it is; a larger --patience if it only was slow",
    "left": "ranks must call the same operations in the same order",
    "deadlock": "ranks must call the same operations in the same order",
}


def _ranks_at_fault(fault: Fault, ranks: Mapping[int, RankStatus], size: int) -> str:
    if fault.kind == "deadlock":
        return f"the {size} ranks"
    hosts = ", ".join(dict.fromkeys(ranks[rank].host for rank in fault.ranks))
    return f"{_rank_numbers(fault.ranks)} of {size} on {hosts}"


def _cause_text(fault: Fault, ranks: Mapping[int, RankStatus], *, out_of_memory: bool) -> str:
    first = ranks[fault.ranks[0]]
    place = first.place
    steps = "before the first step" if not place.step else f"after {place.step} step{'s' * (place.step > 1)}"
    inside = place.operation or place.line if first.failure is None else ""
    where, since = (f"{steps}, in {inside}" if inside else steps), f"{fault.since_s:.0f} s"
    if fault.kind == "lost":
        killed = "was killed, it seems for lack of memory," if out_of_memory else "was killed or crashed,"
        return f"{killed} last heard of {where}: its process ended without a word"
    if fault.kind == "silent":
        return f"has not answered for {since}, last heard of {where}: it was stopped, or its node cannot be reached"
    if fault.kind == "hangs":
        return f"hangs: for {since}, {where}, while {_waiting_ranks(fault)}"
    if fault.kind == "left":
        return f"came to its end, while for {since} {_waiting_ranks(fault)}"
    if fault.kind == "deadlock":
        return f"wait for each other, for {since}: {_waiting_ranks(fault)}"
    assert first.failure is not None
    summary = shortened(first.failure.text, _LONGEST)
    verb = {"memory": "ran out of memory", "interrupted": "was interrupted", "disturbed": "lost the others"}
    return f"{verb.get(fault.kind, 'failed')}, {where}" + (f": {summary}" if summary else "")


def _waiting_ranks(fault: Fault) -> str:
    by: dict[str, list[int]] = {}
    for rank, operation in fault.waiting.items():
        by.setdefault(operation, []).append(rank)
    return " and ".join(f"{_rank_numbers(ranks)} wait{'s' * (len(ranks) == 1)} in {where}" for where, ranks in by.items())


def _rank_numbers(ranks: Iterable[int]) -> str:
    numbers = sorted(ranks)
    return f"rank{'s' * (len(numbers) > 1)} {numbered(numbers)}"


class Tracebacks:
    """The file of tracebacks, which is there as soon as it is named, and grows by what ranks tell.

    Args:
        folder: Where it is made; ``None`` for none.
    """

    def __init__(self, folder: Path | None) -> None:
        self.file = None if folder is None else folder / time.strftime(f"ranks_%Y%m%d-%H%M%S_{os.getpid()}.txt")

    def begin(self, failures: Iterable[tuple[int, RankStatus]]) -> None:
        """Write those that are known; without a file that can be written there is none."""
        if self.file is None:
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("x", encoding="utf-8") as file:
                file.write(f"tracebacks of ranks, {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        except OSError:
            self.file = None
            return
        for rank, status in failures:
            if status.failure is not None:
                self.add(rank, status.host, status.failure.traceback)

    def add(self, rank: int, host: str, text: str) -> None:
        """Write one more."""
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(f"\n--- rank {rank} on {host}\n{text}\n")


def failure_of(error: BaseException, text: str, traceback: str, *, disturbed: bool) -> Failure:
    """An exception as what other ranks are told.

    Args:
        error: It.
        text: What it says.
        traceback: The whole.
        disturbed: Whether it came out of a communicator.

    Example:
        >>> failure_of(MemoryError(), "MemoryError", "", disturbed=False).kind
        'memory'
    """
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", "", traceback)
    if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or "allocate memory" in str(error):
        return Failure("memory", text, traceback)
    return Failure("disturbed" if disturbed else "raised", text, traceback)


def killed_for_memory() -> int:
    """How many processes the kernel of this host has ended for lack of memory, where it tells."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
