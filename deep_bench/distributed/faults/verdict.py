"""Which rank is at fault, from what each has told and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from deep_bench.distributed.faults.where import Place

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
class Seen:
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
    place: Place = field(default_factory=Place)
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
        >>> verdicts = Verdicts({0: Seen("n0", 10, 0.0), 1: Seen("n1", 11, 0.0)}, patience_s=60.0, every_s=0.5)
        >>> verdicts.told(0, Place(3, "allreduce", 0.2), 1.0)
        >>> verdicts.gone(1)
        >>> verdicts.fault(1.0)
        Fault(kind='lost', ranks=(1,), since_s=0.0, waiting={})
    """

    def __init__(self, ranks: Mapping[int, Seen], *, patience_s: float, every_s: float) -> None:
        self.ranks = dict(ranks)
        self._patience_s, self._every_s = patience_s, every_s
        self._looked: float | None = None

    def told(self, rank: int, place: Place, now: float) -> None:
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
        self._forgive(now)
        if failing := self._failing("raised", "memory", "interrupted"):
            return Fault(self._kind(failing[0]), tuple(failing[:1]))
        if lost := [rank for rank, status in self.ranks.items() if status.state == "lost"]:
            unexplained = [rank for rank in lost if self.ranks[rank].failure is None]
            return Fault("lost", tuple(unexplained)) if unexplained else Fault("disturbed", tuple(lost[:1]))
        disturbed = [rank for rank in self._failing("disturbed") if now - self.ranks[rank].failed >= GRACE_S]
        if disturbed:
            return Fault("disturbed", tuple(disturbed[:1]))
        return self._silent(now) or self._waiting()

    def _forgive(self, moment: float) -> None:
        late = 0.0 if self._looked is None else moment - self._looked - self._every_s
        if late > _LATE_S:
            for status in self.ranks.values():
                status.heard += late
        self._looked = moment

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
