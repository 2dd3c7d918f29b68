"""How a timeline spells what it stamps: every event is a pair of integers, a code and a value."""

from __future__ import annotations

import threading
from typing import Literal, NamedTuple

from deep_bench.errors import InvalidArgument

Kind = Literal["epoch", "step", "region", "counter"]

DONE, RAISED, LEFT, EMPTY = range(4)
"""How a span ended: at its end; by an exception; left early (``break``); or as a step that the loader had no batch for."""

SAMPLES, PEAK_MEMORY, SWITCHES, DEVICE_MEMORY = "samples", "peak memory", "context switches", "device memory"
"""The counters that a step may note."""

MOST_NAMES = 1_000


class Name(NamedTuple):
    """What a code stands for.

    Args:
        kind: A span (``"epoch"``, ``"step"`` or ``"region"``) or a ``"counter"``.
        name: The region's or counter's name; for epochs and steps, that of their phase.
    """

    kind: Kind
    name: str


class Names:
    """All names of one timeline, each with a running number.

    The begin of a span with number i has the code 4 i, its end ``~(4 i + ending)``; a counter with number i has 4 i.

    Example:
        >>> names = Names()
        >>> names.number("region", "forward"), names.number("region", "backward"), names.number("region", "forward")
        (0, 1, 0)
    """

    def __init__(self) -> None:
        self.table: list[Name] = []
        self._numbers: dict[Name, int] = {}
        self._lock = threading.Lock()

    def number(self, kind: Kind, name: str) -> int:
        """The number of a name, which is new or known.

        Raises:
            InvalidArgument: Not a name, or too many of them.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"{kind} {name!r}", "a name: a text that is not empty")
        entry = Name(kind, name)
        with self._lock:
            if entry not in self._numbers:
                if len(self.table) >= MOST_NAMES:
                    raise InvalidArgument(
                        f"{kind} {name!r} is name {MOST_NAMES + 1} of this timeline",
                        f"at most {MOST_NAMES} names",
                        "name what is done, not which one it is: the step's number is known anyway",
                    )
                self._numbers[entry] = len(self.table)
                self.table.append(entry)
            return self._numbers[entry]
