"""Timing on one rank: a block of repetitions, each behind a barrier; and what all ranks found, together."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.communicators.communicator import Communicator


@dataclass(frozen=True)
class RankBlock:
    """What one rank, or all ranks (then with a first axis of ranks), found in a block.

    Args:
        begin: Stamps of each sample's begin, on the rank's own clock, in nanoseconds.
        ns: How long each sample took, in nanoseconds.
        preempted: Whether the kernel took the CPU away meanwhile.
        batch: How many repetitions a sample covers.
    """

    begin: NDArray[np.int64]
    ns: NDArray[np.int64]
    preempted: NDArray[np.bool_]
    batch: int


def sampled(call: Callable[[], Any], barrier: Callable[[], Any] | None, samples: int, batch: int = 1) -> RankBlock:
    """Repeat an operation, each time behind a barrier, and keep every sample.

    Args:
        call: The operation, as this rank makes it.
        barrier: Called before each sample, outside the stamps; ``None`` where the operation keeps its ranks together itself.
        samples: How many.
        batch: Repetitions to a sample.

    Example:
        >>> sampled(lambda: None, None, samples=3).ns.shape
        (3,)
    """
    begins, durations, switches = [0] * samples, [0] * samples, [0] * samples
    scope, usage, again = resource.RUSAGE_THREAD, resource.getrusage, range(batch)
    for number in range(samples):
        if barrier is not None:
            barrier()
        previous = usage(scope).ru_nivcsw
        begin = perf_counter_ns()
        for _ in again:
            call()
        end = perf_counter_ns()
        begins[number], durations[number], switches[number] = begin, end - begin, usage(scope).ru_nivcsw - previous
    return RankBlock(np.array(begins), np.array(durations), np.array(switches) > 0, batch)


def gathered(block: RankBlock, comm: Communicator) -> RankBlock | None:
    """The blocks of all ranks on rank 0, with a first axis of ranks; ``None`` elsewhere."""
    rows = comm.gather(np.stack([block.begin, block.ns, block.preempted.astype(np.int64)]), 0)
    if rows is None:
        return None
    return RankBlock(rows[:, 0], rows[:, 1], rows[:, 2] > 0, block.batch)
