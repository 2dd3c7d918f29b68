"""What ranks of one process ask of each other in collective operations, compared as they come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

import numpy as np

from deep_bench.errors import CommunicationFailed


class Calls:
    """The collective operations of some groups of ranks: the n-th of each rank must be the n-th of all.

    Example:
        >>> calls = Calls()
        >>> calls.came("world", 0, 2, "broadcast", root=0)
        >>> calls.came("world", 1, 2, "broadcast", root=1)
        Traceback (most recent call last):
        deep_bench.errors.CommunicationFailed: rank 1 calls broadcast(root=1), and rank 0 broadcast(root=0)
        Expected: the same call on all ranks of a group
    """

    def __init__(self) -> None:
        self._numbers: defaultdict[tuple[Hashable, int], int] = defaultdict(int)
        self._open: dict[tuple[Hashable, int], list[Any]] = {}

    def came(self, group: Hashable, rank: int, size: int, operation: str, **arguments: Any) -> None:
        """A rank begins an operation.

        Args:
            group: Of which ranks it is one.
            rank: Its number there.
            size: The number of ranks there.
            operation: The name.
            arguments: What must be the same on all ranks.

        Raises:
            CommunicationFailed: Another rank began something else, or otherwise.
        """
        call = f"{operation}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
        number = self._numbers[group, rank]
        self._numbers[group, rank] += 1
        first = self._open.setdefault((group, number), [call, rank, 0])
        if call != first[0]:
            raise CommunicationFailed(
                f"rank {rank} calls {call}, and rank {first[1]} {first[0]}", "the same call on all ranks of a group"
            )
        first[2] += 1
        if first[2] == size:
            del self._open[group, number]


def form(x: np.ndarray) -> str:
    """The number of elements and their type."""
    return f"{x.size} elements of {x.dtype}"
