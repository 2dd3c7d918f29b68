"""``deep-bench train --distributed``: the ranks of a run, as its command line sees them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np
from click.core import ParameterSource

from deep_bench.errors import CommunicationFailed, DeepBenchError, RanksAbsent

if TYPE_CHECKING:
    from deep_bench.distributed.communicators.communicator import Communicator
    from deep_bench.distributed.launch import Launch
    from deep_bench.training.recipes import Recipe

T = TypeVar("T")


_OWN_OPTIONS = ("output", "plot_file", "as_json")
"""Options that need not be the same on all ranks: what rank 0 alone writes and shows."""

_OF_RANKS = ("over", "scaling", "samples", "patience", "synchronise_statistics", "synchronise_normalization")


class _AllFail(Exception):
    """Some rank could not prepare itself, and all know."""

    def __init__(self, failure: Exception | None) -> None:
        super().__init__("another rank could not" if failure is None else str(failure))
        self.failure = failure


@dataclass(frozen=True)
class TrainingRanks:
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
            result = prepare()
        except CommunicationFailed:
            raise  # ranks that do not reach each other cannot agree
        except (DeepBenchError, click.ClickException, OSError) as error:
            failure = error
        failed = self.comm.allgather(np.array([failure is not None])).reshape(-1)
        if failed.any():
            if failure is not None and not failed.all():
                failure = _with_place(failure, f"on {self._where()}")
            raise _AllFail(failure if self.comm.rank == int(failed.argmax()) else None)
        return result

    def check_alike(self, recipe: Recipe, frameworks: Sequence[str]) -> None:
        """Compare what decides when ranks do what: else one would wait for what another never does.

        Args:
            recipe: What is trained, with the changes of the command line; its data are compared when they are there.
            frameworks: What it is trained on.

        Raises:
            RanksDiffer: Something differs; on all ranks.
        """
        from deep_bench.distributed.training.messages import check_same

        options = {f"--{name.replace('_', '-')}": value for name, value in self.options.items() if name not in _OWN_OPTIONS}
        fields = recipe.fields.model_dump(mode="json", exclude={"data"})
        facts = {**options, "--on": " ".join(frameworks), **fields}
        check_same(self.comm, {name: _value_text(value) for name, value in facts.items()})

    def all(self, mine: Callable[[], bool]) -> bool:
        """Whether it holds on all ranks."""
        return bool(self.comm.allreduce(np.array([self.agreed(mine)], np.int64), "min")[0])

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
            agreed=self.agreed,
        )

    def resumed(self, trainer: Any, find: Callable[[], Any]) -> None:
        """Go on from what rank 0 finds; nothing, if it finds nothing.

        Args:
            trainer: This rank's.
            find: Gives the snapshot, or ``None``; called on rank 0.
        """
        tree = self.agreed(find) if self.first else self.agreed(lambda: None)
        if self.status(int(tree is not None)):
            self.agreed(lambda: trainer.restore(tree, changed=self.options["changed"]))

    def _where(self) -> str:
        return f"rank {self.comm.rank} of {self.comm.size} on {self.started.node}"


def _with_place(failure: Exception, where: str) -> Exception:
    """The same in words that begin with the place."""
    if isinstance(failure, DeepBenchError):
        return DeepBenchError(f"{where}: {failure.came}", failure.expected, failure.advice)
    if isinstance(failure, click.ClickException):
        return click.UsageError(f"{where}: {failure.format_message()}")
    assert isinstance(failure, OSError)
    return OSError(failure.errno, f"{where}: {failure.strerror or failure}")


@contextmanager
def training_ranks(options: dict[str, Any]) -> Iterator[TrainingRanks | None]:
    """Join the other ranks, if training is to be distributed; if this one fails where others do not, all end.

    Ranks but the first print nothing to standard output.
    """
    from deep_bench.distributed.launch import launch

    started = launch()
    if options["distributed"] is None:
        with _once(started):
            _check_alone(started)
        yield None
        return
    for name in ("apart", "validate"):
        if options[name]:
            raise click.UsageError(f"--{name} with --distributed: it is for one process")
    from deep_bench.distributed.launch import distributed_world
    from deep_bench.distributed.training.messages import RanksDiffer
    from deep_bench.distributed.watch import watched

    with _once(started):
        threads = _overlaps(options["distributed"])
        comm = distributed_world(options["over"], threads=threads, patience_s=options["patience"])
    if comm.size == 1:
        how = "it was started alone" if not started.started else f"{started.launcher} started it alone"
        click.echo(f"one rank, since {how}; for four: mpirun -n 4 deep-bench {' '.join(sys.argv[1:])}", err=True)
        yield TrainingRanks(comm, started, options)
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
            yield TrainingRanks(comm, started, options)
    except _AllFail as end:
        raise end.failure or click.exceptions.Exit(2) from None
    except RanksDiffer:
        if comm.rank == 0:
            raise
        raise click.exceptions.Exit(2) from None


@contextmanager
def _once(started: Launch) -> Iterator[None]:
    """What each process finds for itself, and ends for, is told by the first; that some are absent, by one of the others."""
    try:
        yield
    except RanksAbsent as absent:
        from deep_bench.distributed.watch import FAULT, say

        if absent.teller == started.rank:
            say(str(absent))
        raise click.exceptions.Exit(FAULT) from None
    except (DeepBenchError, click.ClickException):
        if started.rank == 0:
            raise
        raise click.exceptions.Exit(2) from None


def _check_alone(started: Launch) -> None:
    """See that what is started is meant to train by itself."""
    context = click.get_current_context()
    for name in _OF_RANKS:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} is of --distributed")
    if started.size > 1:
        raise click.UsageError(
            f"started on {started.size} ranks by {started.launcher}, each of which would train by itself: say --distributed "
            "SCHEME, such as --distributed allreduce, or start one"
        )


def _overlaps(scheme: str) -> bool:
    """Whether threads of a rank send at the same time; a scheme that cannot be read is refused later, by all together."""
    from deep_bench.distributed.training.train import settings_of

    try:
        return settings_of(scheme)[1].get("overlap") is True
    except DeepBenchError:
        return False


def _value_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, Mapping) else str(value)
