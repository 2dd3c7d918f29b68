"""What ranks tell each other before a step, in one small message: how many samples each has, and what each wishes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.training.bytes import broadcast
from deep_bench.training.trainer import INTERRUPTED

_STOP, _INTERRUPTED, _CHECKPOINT = range(2, 5)


@dataclass(frozen=True, slots=True)
class Agreed:
    """What all ranks know after it.

    Args:
        samples: How many samples all have in the step.
        alike: Whether all have equally many.
        stop: Whether some rank wants no further step.
        interrupted: Whether some rank was interrupted.
        checkpoint: Whether a checkpoint is due.
    """

    samples: int
    alike: bool
    stop: bool
    interrupted: bool
    checkpoint: bool


def agree(comm: Communicator, samples: int, wish: str, *, checkpoint: bool = False) -> Agreed:
    """Tell and hear; one sum of five whole numbers over all ranks.

    Args:
        comm: The ranks.
        samples: How many this one has.
        wish: Why it wants to stop; empty if it does not.
        checkpoint: Whether it wants a checkpoint.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> run_local(2, lambda comm: agree(comm, 3 - comm.rank, "enough" if comm.rank else ""))[0]
        Agreed(samples=5, alike=False, stop=True, interrupted=False, checkpoint=False)
    """
    message = np.array([samples, samples * samples, bool(wish), wish == INTERRUPTED, checkpoint], np.int64)
    heard = comm.allreduce(message)
    total, squares = int(heard[0]), int(heard[1])
    alike = comm.size * squares == total * total  # Cauchy and Schwarz: equal for equal numbers only
    return Agreed(total, alike, bool(heard[_STOP]), bool(heard[_INTERRUPTED]), bool(heard[_CHECKPOINT]))


def reason_of(comm: Communicator, wish: str, agreed: Agreed) -> str:
    """Why all stop: that of the first rank which wants to; an interruption before anything else."""
    if agreed.interrupted:
        return INTERRUPTED
    firsts = comm.allreduce(np.array([comm.rank if wish else comm.size], np.int64), "min")
    first = int(firsts[0])
    if first:  # rank 0 tells all, so it must know
        text = np.frombuffer(wish.encode(), np.uint8).copy() if comm.rank == first else None
        if comm.rank == first:
            assert text is not None
            comm.send(np.array([text.size], np.int64), 0)
            comm.send(text, 0)
        if comm.rank == 0:
            size = np.empty(1, np.int64)
            comm.recv(size, first)
            text = np.empty(int(size[0]), np.uint8)
            comm.recv(text, first)
            wish = text.tobytes().decode()
    mine = np.frombuffer(wish.encode(), np.uint8).copy() if comm.rank == 0 else None
    reason = broadcast(comm, mine).tobytes().decode()
    return f"{reason} (rank {first})" if first else reason
