"""``deep-bench train --distributed``: the ranks of a run, as its command line sees them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from deep_bench.errors import DeepBenchError

if TYPE_CHECKING:
    from deep_bench.distributed.communicators.communicator import Communicator
    from deep_bench.distributed.launch import Launch
    from deep_bench.training.recipes import Recipe

T = TypeVar("T")


class _AllFail(Exception):
    """Some rank could not prepare itself, and all know."""

    def __init__(self, failure: Exception | None) -> None:
        super().__init__()
        self.failure = failure


@dataclass(frozen=True)
class Joined:
    """The ranks that train together.

    Args:
        comm: All of them.
        started: What started this one.
        options: Of the command line.
    """

    comm: Communicator
    started: Launch
    options: dict[str, Any]

    @property
    def first(self) -> bool:
        """Whether this is the rank that shows and writes."""
        return self.comm.rank == 0

    @property
    def lost_some(self) -> bool:
        """Whether some were lost, and these went on without them."""
        return self.comm.size < self.started.size

    def agreed(self, prepare: Callable[[], T]) -> T:
        """What this rank prepares by itself; if some rank cannot, all end with one message.

        Args:
            prepare: Anything that says nothing to other ranks.
        """
        if self.comm.size == 1:
            return prepare()
        failure: Exception | None = None
        try:
            found = prepare()
        except (DeepBenchError, click.ClickException, OSError) as error:
            failure = error
        failed = self.comm.allgather(np.array([failure is not None])).reshape(-1)
        if failed.any():
            if failure is not None and not failed.all():
                click.echo(f"deep-bench: on {self._where()}:", err=True)
            raise _AllFail(failure if self.comm.rank == int(failed.argmax()) else None)
        return found

    def status(self, mine: int) -> int:
        """Rank 0's exit status."""
        return int(self.comm.broadcast(np.array([mine], np.int64))[0])

    def trainer(self, recipe: Recipe, framework: str, seed: int, callbacks: Sequence[Any]) -> Any:
        """This rank's trainer."""
        from deep_bench.distributed.launch import bound, local_facts
        from deep_bench.distributed.training.train import train

        on = bound(framework, self.started)
        return train(
            recipe,
            on,
            over=self.comm,
            scheme=self.options["distributed"],
            scaling=self.options["scaling"],
            samples=self.options["samples"],
            synchronise_statistics=self.options["synchronise_statistics"],
            synchronise_normalization=self.options["synchronise_normalization"],
            seed=seed,
            callbacks=callbacks,
            stop_at_target=False,
            local=local_facts(self.started, on),
            job={"launcher": self.started.launcher, "job": self.started.job},
        )

    def resumed(self, trainer: Any, find: Callable[[], Any]) -> None:
        """Go on from what rank 0 finds; nothing, if it finds nothing.

        Args:
            trainer: This rank's.
            find: Gives the snapshot, or ``None``; called on rank 0.
        """
        tree = self.agreed(find) if self.first else self.agreed(lambda: None)
        if self.status(int(tree is not None)):
            trainer.restore(tree, changed=self.options["changed"])

    def _where(self) -> str:
        return f"rank {self.comm.rank} of {self.comm.size} on {self.started.node}"


@contextmanager
def joined(options: dict[str, Any]) -> Iterator[Joined | None]:
    """Join the other ranks, if training is to be distributed; if this one fails where others do not, all end.

    Ranks but the first print nothing to standard output.
    """
    if options["distributed"] is None:
        for name in ("over", "synchronise_statistics", "synchronise_normalization"):
            if options[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} is of --distributed")
        yield None
        return
    for name in ("apart", "validate"):
        if options[name]:
            raise click.UsageError(f"--{name} with --distributed: it is for one process")
    from deep_bench.distributed.faults.watch import watched
    from deep_bench.distributed.launch import distributed_world, launch
    from deep_bench.distributed.training.same import RanksDiffer

    started = launch()
    comm = distributed_world(options["over"])
    if comm.size == 1:
        how = "it was started alone" if not started.started else f"{started.launcher} started it alone"
        click.echo(f"one rank, since {how}; for four: mpirun -n 4 deep-bench {' '.join(sys.argv[1:])}", err=True)
        yield Joined(comm, started, options)
        return
    if comm.rank:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    resume = "" if options["checkpoints"] is None else "go on with the same command and --resume"
    try:
        with watched(
            comm,
            patience_s=options["patience"],
            folder=options["output"],
            resume=resume,
            host=started.node,
            but=(_AllFail, RanksDiffer),
        ):
            yield Joined(comm, started, options)
    except _AllFail as end:
        raise end.failure or click.exceptions.Exit(2) from None
    except RanksDiffer:
        if comm.rank == 0:
            raise
        raise click.exceptions.Exit(2) from None
