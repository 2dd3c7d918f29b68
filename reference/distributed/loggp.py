"""LogGP, message by message: programs of ranks are run, and each rank's clock is kept.

A program is a generator: it yields `Send`, `Receive` and `Combine`, gets what was received back from ``yield``, and returns
its result. So one run tells both whether an algorithm computes what it should and how long it takes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np


@dataclass(frozen=True)
class Send:
    """Hand an array to another rank."""

    to: int
    content: np.ndarray


@dataclass(frozen=True)
class Receive:
    """Wait for the next message of another rank."""

    source: int


@dataclass(frozen=True)
class Combine:
    """Spend the time it takes to add up so many bytes."""

    size: int


Program: TypeAlias = Generator[Send | Receive | Combine, Any, Any]


@dataclass(frozen=True)
class LogGPParameters:
    """Of LogGP, in any unit of time; ``gamma`` is the time to combine a byte."""

    L: float
    o: float
    g: float
    G: float
    gamma: float = 0.0


@dataclass
class _Rank:
    program: Program
    clock: float = 0.0
    may_send: float = 0.0
    may_arrive: float = 0.0
    waits_for: int | None = None
    done: bool = False
    result: Any = None


def simulate(
    program: Callable[..., Program], arguments: Sequence[Any], machine: LogGPParameters
) -> tuple[list[Any], list[float]]:
    """Run a program on several ranks.

    A send begins when the processor and the wire are free. It keeps the processor busy for o; its bytes leave after that,
    one every G, and arrive L later; the wire is free for the next message g + (k - 1) G after the begin. The receiver's wire
    takes messages in the order in which the program asks for them, with as much between them; its processor is busy for o
    when the last byte is there.

    Args:
        program: Called with the rank, the number of ranks and the rank's own argument.
        arguments: One for each rank.
        machine: What messages cost.

    Returns:
        What each rank returned, and when it came to its end.

    Raises:
        RuntimeError: All ranks that are left wait for each other; or a message is left that nobody takes.

    Source:
        Alexandrov, Ionescu, Schauser and Scheiman, *LogGP*, SPAA 1995, section 2; Hoefler, Schneider and Lumsdaine,
        *LogGOPSim: simulating large-scale applications in the LogGOPS model*, LSAP 2010, section 2.

    Example:
        >>> def there(rank, size, content):
        ...     if rank == 0:
        ...         yield Send(1, content)
        ...         return None
        ...     return (yield Receive(0))
        >>> results, ends = simulate(there, [np.zeros(11, np.int8), None], LogGPParameters(L=5, o=1, g=2, G=0.5))
        >>> ends  # o; and o + 10 G + L + o
        [1.0, 12.0]
    """
    size = len(arguments)
    ranks = [_Rank(program(rank, size, argument)) for rank, argument in enumerate(arguments)]
    under_way: defaultdict[tuple[int, int], deque[tuple[float, np.ndarray]]] = defaultdict(deque)
    able = deque(range(size))
    while able:
        number = able.popleft()
        woken = _run(ranks, number, under_way, machine)
        able.extend(peer for peer in woken if peer not in able)
    stuck = [number for number, rank in enumerate(ranks) if not rank.done]
    unread = [pair for pair, messages in under_way.items() if messages]
    if stuck or unread:
        raise RuntimeError(f"ranks {stuck} wait for messages that nobody sends; nobody takes those of {unread}")
    return [rank.result for rank in ranks], [rank.clock for rank in ranks]


def _run(ranks: list[_Rank], number: int, under_way: dict[Any, Any], machine: LogGPParameters) -> set[int]:
    """Let one rank go on until it must wait; returns the ranks that wait for what it sent."""
    rank, answer = ranks[number], None
    woken: set[int] = set()
    if rank.waits_for is not None:
        answer = _receive(rank, under_way[rank.waits_for, number], machine)
        rank.waits_for = None
    while True:
        try:
            action = rank.program.send(answer)
        except StopIteration as end:
            rank.done, rank.result = True, end.value
            return woken
        answer = None
        if isinstance(action, Combine):
            rank.clock += machine.gamma * action.size
        elif isinstance(action, Send):
            under_way[number, action.to].append(_send(rank, action.content, machine))
            if ranks[action.to].waits_for == number:
                woken.add(action.to)
        elif under_way[action.source, number]:
            answer = _receive(rank, under_way[action.source, number], machine)
        else:
            rank.waits_for = action.source
            return woken


def _send(rank: _Rank, content: np.ndarray, machine: LogGPParameters) -> tuple[float, np.ndarray]:
    """Send; returns when the first byte arrives, and the message."""
    begin = max(rank.clock, rank.may_send)
    rank.clock = begin + machine.o
    rank.may_send = begin + machine.g + _further(content) * machine.G
    return begin + machine.o + machine.L, np.array(content)


def _receive(rank: _Rank, messages: deque[tuple[float, np.ndarray]], machine: LogGPParameters) -> np.ndarray:
    """Take the next message."""
    first_byte, content = messages.popleft()
    last_byte = max(first_byte, rank.may_arrive) + _further(content) * machine.G
    rank.may_arrive = last_byte + machine.g
    rank.clock = max(rank.clock, last_byte) + machine.o
    return content


def _further(content: np.ndarray) -> int:
    """Bytes after the first."""
    return max(content.nbytes - 1, 0)
