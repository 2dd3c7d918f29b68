"""What every communicator asks of the arguments of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deep_bench.errors import InvalidArgument

if TYPE_CHECKING:
    from deep_bench.distributed.communicators.communicator import Communicator

_ANY = -1

REDUCTIONS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
"""Name to the function of two arrays that does it."""


def check_peer(comm: Communicator, rank: int, tag: int, *, anyone: bool = False) -> None:
    """Whether a message can go to a rank, or come from it.

    Raises:
        InvalidArgument: No such rank, or a negative tag.
    """
    if not 0 <= rank < comm.size and not (anyone and rank == _ANY):
        raise InvalidArgument(f"rank {rank} of {comm.size}", f"0 to {comm.size - 1}{', or ANY' if anyone else ''}")
    if tag < 0:
        raise InvalidArgument(f"tag {tag}", "a tag of at least 0")


def check_writable(out: np.ndarray) -> None:
    """Whether something can be received into an array.

    Raises:
        InvalidArgument: It is read-only.
    """
    if not out.flags.writeable:
        raise InvalidArgument(f"out: {out.dtype}{list(out.shape)}, read-only", "an array that can be written")


def check_color(color: int | None) -> None:
    """Whether a group can be named so.

    Raises:
        InvalidArgument: It cannot.
    """
    if color is not None and color < 0:
        raise InvalidArgument(f"color {color}", "a color of at least 0, or None")


def check_reduction(op: str) -> None:
    """Whether there is such a reduction.

    Raises:
        InvalidArgument: There is not.
    """
    if op not in REDUCTIONS:
        raise InvalidArgument(f"the reduction {op!r}", f"one of {', '.join(REDUCTIONS)}")
