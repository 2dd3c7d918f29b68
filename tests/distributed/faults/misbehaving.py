"""Ranks that sum numbers, or ``deep-bench`` with some words, on one of which something goes wrong after a few steps.

``misbehaving.py WHAT RANK FOLDER [WORDS…]``
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.launch import distributed_world
from deep_bench.distributed.watch import watched

STEPS = 7


def fail() -> None:
    raise ValueError("a tooth is missing")


def loop() -> None:
    while True:
        pass


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


WAYS: dict[str, Callable[[], None]] = {"raise": fail, "loop": loop, "kill": kill, "stop": stop}


def sums(what: str, rank: int, folder: Path) -> None:
    """Sums, without an end."""
    comm, steps = Counting(distributed_world("mpi")), 0
    with watched(comm, patience_s=4.0, folder=folder, host=f"n{comm.rank}") as watch:
        assert watch is not None
        watch.follow(lambda: steps, lambda: len(comm.log.rows))
        while True:
            comm.allreduce(np.zeros(4))
            steps += 1
            if comm.rank == rank and steps == STEPS:
                if what == "wait":
                    comm.recv(np.zeros(4), source=(rank + 1) % comm.size)
                WAYS[what]()


def command(what: str, rank: int, folder: Path, words: list[str]) -> None:
    """A run from the command line."""
    from deep_bench.cli import main
    from deep_bench.cli.ranks import TrainingRanks as Joined
    from deep_bench.events import Moment

    trainer = Joined.trainer

    class Misbehaves:
        moments = (Moment.AFTER_STEP,)

        def __call__(self, moment: Moment, index: int, time_ns: int, data: object) -> None:
            if index == STEPS - 1:
                WAYS[what]()

    def with_it(self: Joined, recipe: Any, framework: str, seed: int, callbacks: Any) -> Any:
        mine = [Misbehaves()] if self.comm.rank == rank else []
        return trainer(self, recipe, framework, seed, [*callbacks, *mine])

    Joined.trainer = with_it  # type: ignore[method-assign]
    main([*words, "--output", str(folder)])


if __name__ == "__main__":
    arguments = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    if len(sys.argv) > 4:
        command(*arguments, sys.argv[4:])
    else:
        sums(*arguments)
