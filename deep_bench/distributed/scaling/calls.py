"""What a rank says to others in a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias


class Phase(IntEnum):
    """When in a step a call begins."""

    AGREEING = 0
    """Before it: ranks agree that there is one."""
    COMPUTING = 1
    """Before its gradients are there; it is waited for afterwards."""
    UPDATING = 2
    """After its gradients."""


COLLECTIVE = ("allgather", "allreduce", "alltoall", "barrier", "broadcast", "gather", "reduce", "reduce_scatter", "scatter")
MESSAGES = ("send", "recv", "exchange")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a communicator, or several messages of one kind that follow each other.

    Args:
        operation: One of `COLLECTIVE` or `MESSAGES`. An exchange sends to some and receives from some at once.
        size: Bytes: of the array that the operation is about (`deep_bench.distributed.communicators.log.moved`); of one
            message.
        phase: When it begins.
        group: The ranks that call it together; empty for messages.
        root: The rank it goes to or comes from.
        to: The ranks that messages go to.
        sources: The ranks that messages come from.
        share: Bytes that this rank gave to an allgather; 0 elsewhere.
    """

    operation: str
    size: int
    phase: Phase
    group: tuple[int, ...] = ()
    root: int | None = None
    to: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    share: int = 0

    @property
    def sent(self) -> float:
        """Bytes that this rank sends; of collective operations the mean over its ranks, by the usual algorithms."""
        from deep_bench.distributed.communicators.log import moved

        if self.operation in MESSAGES:
            return float(self.size * len(self.to))
        return float(moved(self.operation, self.size, max(len(self.group), 1)))


Step: TypeAlias = tuple[Call, ...]


def joined(calls: Sequence[Call]) -> Step:
    """Calls with messages of one kind and size that follow each other as one.

    Example:
        >>> both = [Call("recv", 8, Phase.UPDATING, sources=(1,)), Call("recv", 8, Phase.UPDATING, sources=(2,))]
        >>> [(call.operation, call.sources) for call in joined(both)]
        [('recv', (1, 2))]
    """
    merged_calls: list[Call] = []
    for call in calls:
        last = merged_calls[-1] if merged_calls else None
        if last is not None and call.operation in ("send", "recv") and _alike(last, call):
            merged_calls[-1] = replace(last, to=last.to + call.to, sources=last.sources + call.sources)
        else:
            merged_calls.append(call)
    return tuple(merged_calls)


def _alike(first: Call, second: Call) -> bool:
    return (first.operation, first.size, first.phase) == (second.operation, second.size, second.phase)
