"""``Together``: what the trainers of several ranks arrange with each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter_ns
from typing import Any

import numpy as np

from deep_bench.arrays import mapped
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.faults.watch import current, end_all
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.schemes.serving import Served
from deep_bench.distributed.training.agreement import agree, reason_of
from deep_bench.distributed.training.asked import asked
from deep_bench.distributed.training.bytes import as_bytes, broadcast, of_bytes
from deep_bench.distributed.training.draws import rows_of_draws
from deep_bench.distributed.training.drift import check_equal, mean_and_drift
from deep_bench.distributed.training.free import News, Server, Wishes
from deep_bench.distributed.training.observed import Observed
from deep_bench.distributed.training.parts import gathered, parted
from deep_bench.distributed.training.regrouping import regrouped
from deep_bench.distributed.training.same import RanksDiffer, check_same, numbered
from deep_bench.distributed.training.samplers import Sharded
from deep_bench.distributed.training.step import DistributedStep, mean_over_ranks
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.events import Callback, Moment
from deep_bench.training.callbacks import (
    CsvLines,
    Curves,
    EarlyStopping,
    EvaluateEvery,
    JsonLines,
    ProgressBar,
    TargetReached,
    WorstSamples,
)
from deep_bench.training.callbacks.stop_at_signal import StopAtSignal
from deep_bench.training.checkpoint import Checkpoints
from deep_bench.training.form import TrainingForm
from deep_bench.training.ranks import Ranks
from deep_bench.training.record import RanksRecord
from deep_bench.training.runs.facts import data_facts
from deep_bench.training.steps import Tree
from deep_bench.training.trainer import INTERRUPTED, Trainer

_ON_RANK_0 = (CsvLines, Curves, JsonLines, ProgressBar, WorstSamples)
"""Callbacks that show or write something, or look at what is evaluated."""

_OWN = "own steps"

ON_THEIR_OWN = "samples are those of all ranks, as rank 0 has heard; steps, epochs and losses are rank 0's own"

DRIFT = "drift"
"""The figure of evaluations of schemes whose ranks are apart: the largest distance of a rank from the mean."""


@contextmanager
def ending_all(comm: Communicator) -> Iterator[None]:
    """End all ranks if this one raises what others do not."""
    try:
        yield
    except RanksDiffer:
        raise
    except BaseException as error:
        end_all(comm, error)
        raise


class Together(Ranks):
    """The other ranks of a run, for a `deep_bench.training.Trainer` whose step is a `DistributedStep`.

    Before each step ranks sum five whole numbers: how many samples each has, and whether one wishes to stop or a checkpoint
    is due. So all stop after the same step, whoever was interrupted, ran out of time or found a loss that is not finite.
    Losses are put together every 256 steps, at evaluations, checkpoints and the end: each is the mean over all samples.
    A callback sees its own rank's loss (`Progress.loss`).

    Rank 0 alone shows and writes, evaluates, and tells the figures. Where a scheme promises equal parameters, that is looked
    after at each evaluation; elsewhere the mean of all ranks' parameters is evaluated, with the drift as another figure.

    A checkpoint is one file, which rank 0 writes and reads: what is common, and what each rank has of its own.

    Where a scheme lets ranks take steps each on their own (``lockstep = False``), nothing is arranged before a step. Wishes
    to stop go by rank 0, checkpoints are written at the end of a run only, and losses are each rank's own. With a server,
    that is rank 0: each update is a step of its trainer, and workers tell it their losses and running statistics. Without
    one, rank 0 evaluates its own parameters, and in the end the mean of all.

    Args:
        scheme: That of the step, over ranks that are counted (`Counting`); the log is emptied from time to time.
        local: What is known of this process: its host, device, processors.
        job: What is known of what started all of them.
        remarks: What a report should say besides.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> from deep_bench.distributed.training.train import train
        >>> def on_rank(comm):
        ...     trainer = train("digits", on="reference", over=comm, scheme="allreduce", seed=1)
        ...     return trainer.run(steps=2).samples
        >>> run_local(2, on_rank)
        [128, 128]
    """

    alone = False

    def __init__(
        self,
        scheme: DistributedOptimizer[Any, Any],
        *,
        local: Mapping[str, Any] | None = None,
        job: Mapping[str, Any] | None = None,
        remarks: Iterable[str] = (),
    ) -> None:
        if not isinstance(scheme.comm, Counting):
            raise InvalidArgument(f"a scheme over {scheme.comm.name!r}", "one over Counting(comm), which sees its messages")
        self.comm = comm = scheme.comm
        self.lockstep, self.dedicated = scheme.lockstep or comm.size == 1, scheme.dedicated and comm.size > 1
        self._survives = isinstance(scheme, Served) and scheme.survive and comm.size > 1
        if self._survives and not comm.survives:
            raise Unsupported(
                f"survive=true over {comm.inner.name!r}, as it was started: it cannot go on without a rank that is lost",
                "Open MPI with its fault tolerance",
                "mpirun --with-ft ulfm …, or leave survive out",
            )
        self._wishes: Wishes | None = None
        self._known = 0
        self._news: News | None = None
        self._server: Server | None = None
        self.remarks = list(remarks)
        self._job = dict(job or {})
        self.observed = Observed(comm, dict(local or {}))
        self._checkpoints: tuple[Checkpoints, ...] = ()
        self._facts: RanksRecord | None = None
        self._sizes: list[int] = []
        self._totals: list[int] = []
        self._sharded = False
        self._checked = self._evaluates = False
        self._common = 0

    def listening(self, callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
        """All but those that rank 0 has for all, and those that this does itself: checkpoints, and ends by signals."""
        callbacks = tuple(callbacks)
        self._checkpoints = tuple(c for c in callbacks if isinstance(c, Checkpoints))
        if not self.lockstep and any(c.steps or c.seconds for c in self._checkpoints):
            raise InvalidArgument(
                "checkpoints amid a run whose ranks take steps each on their own: no two are ever at the same place",
                "checkpoints at its end, also where a signal, a limit or a target brought it about",
                "leave out after how many steps or seconds (--checkpoint-every)",
            )
        left_out = (Checkpoints, StopAtSignal, *(_ON_RANK_0 if self.comm.rank else ()))
        if self.comm.rank and not self.lockstep:
            left_out = (*left_out, EvaluateEvery, TargetReached, EarlyStopping)
        return tuple(c for c in callbacks if not isinstance(c, left_out))

    @contextmanager
    def running(self, trainer: Trainer[Any]) -> Iterator[None]:
        """See that all ranks are about to do the same; end all of them if one fails; take signals."""
        with ExitStack() as stack:
            for checkpoints in self._checkpoints:
                stack.callback(checkpoints.release)
            if self.comm.size > 1:
                stack.enter_context(ending_all(self.comm))
            self._begin(trainer)
            stack.enter_context(asked(lambda: trainer.stop(INTERRUPTED)))
            if not self.lockstep:
                stack.enter_context(self._on_its_own(trainer))
            yield
            self._facts = self.observed.record(trainer, self.remarks_of(trainer), self._job)

    def _begin(self, trainer: Trainer[Any]) -> None:
        _step_of(trainer).after_step = self.observed.end
        if (watch := current()) is not None:
            watch.follow(lambda: trainer.progress.step, lambda: len(self.comm.log.rows), lambda: self._common)
            if self._survives:
                watch.survive()
        sampler = getattr(trainer.loader, "sampler", None)
        self._sharded = isinstance(sampler, Sharded)
        if not self._checked:
            facts = {name: str(value) for name, value in data_facts(trainer).items()}
            facts |= {"seed": str(trainer.seed), "step": str(trainer.history.steps) if self.lockstep else "each its own"}
            check_same(self.comm, {"checkpoints": str(len(self._checkpoints)), **facts})
            self._checked = True
        for checkpoints in self._checkpoints if self.comm.rank == 0 else ():
            checkpoints.due(Moment.BEFORE_RUN, trainer.progress.step, perf_counter_ns(), trainer.progress)

    @contextmanager
    def _on_its_own(self, trainer: Trainer[Any]) -> Iterator[None]:
        """Rank 0 alone evaluates; wishes can be heard."""
        evaluation = trainer.evaluation
        trainer.evaluation = None if self.comm.rank else evaluation
        self._evaluates = evaluation is not None
        self._wishes, self._known = Wishes(self.comm, survive=self._survives), 0
        self._news = News(self.comm) if self.dedicated and self.comm.rank else None
        try:
            yield
        finally:
            trainer.evaluation = evaluation

    def serves(self, trainer: Trainer[Any]) -> bool:
        """Rank 0 serves, where the scheme has a server."""
        if not self.dedicated or self.comm.rank or self._wishes is None:
            return False
        self._server = Server(self.comm, trainer, self._wishes, self._served, survive=self._survives)
        self._server.serve()
        return True

    def _served(self) -> None:
        self.observed.stepped = True

    # Steps

    def before_step(self, trainer: Trainer[Any], samples: int) -> int:
        """Agree whether there is a step, and on how many samples."""
        if self._wishes is not None:
            return self._before_own_step(trainer, samples, self._wishes)
        begun = perf_counter_ns()
        agreed = agree(self.comm, samples, trainer.wish, checkpoint=self._due(trainer))
        self._common = trainer.progress.step  # all ranks are here
        if agreed.checkpoint:
            self._write(trainer)
        if agreed.stop:
            trainer.ending = reason_of(self.comm, trainer.wish, agreed)
            return 0
        for checkpoints in self._checkpoints if self.comm.rank == 0 else ():
            checkpoints.due(Moment.BEFORE_STEP, trainer.progress.step, begun, trainer.progress)
        self.observed.begin(samples, perf_counter_ns() - begun)
        self._sizes.append(samples)
        self._totals.append(agreed.samples)
        _step_of(trainer).samples = None if agreed.alike else samples
        return agreed.samples

    def _before_own_step(self, trainer: Trainer[Any], samples: int, wishes: Wishes) -> int:
        if self._news is not None:
            self._news.tell(trainer)
        if wishes.stops(trainer.wish):
            trainer.ending = trainer.wish or "another rank asked to"
            return 0
        if self._news is not None:
            self._news.begin()
        self.observed.begin(samples, 0)
        self._sizes.append(samples)
        self._totals.append(samples)
        _step_of(trainer).samples = None
        if self.dedicated:
            return samples
        wishes.went_on(samples)
        return samples + self._of_others(wishes)

    def _of_others(self, wishes: Wishes) -> int:
        """How many samples rank 0 has heard of since it asked last; so its history has those of all ranks."""
        before, self._known = self._known, 0 if self.comm.rank else wishes.of_others
        return self._known - before

    def _after_own_steps(self, trainer: Trainer[Any], wishes: Wishes) -> None:
        """Come to an end on all ranks, after which they do everything together again."""
        if self._server is None:
            _step_of(trainer).finish()
        else:
            trainer.ending = "all workers are done"
        if self._news is not None:
            self._news.tell(trainer)
            self._news.wait()
        wishes.end()
        if not self.dedicated and trainer.history.sizes:
            trainer.history.sizes[-1] += self._of_others(wishes)
        self._wishes = self._news = self._server = None
        if self._survives:
            self._leave_out(_step_of(trainer))
        if not self.dedicated and trainer.evaluation is not None:
            trainer.evaluate()
        elif not self.dedicated and self._evaluates:
            self.evaluated(trainer, lambda *_: {})

    def _leave_out(self, step: DistributedStep[Any]) -> None:
        """Go on without the ranks that were lost, if any were."""
        rank, size = self.comm.rank, self.comm.size
        self.comm.leave_out()
        survivors = self.comm.allgather(np.array([rank])).reshape(-1).tolist()
        if len(survivors) < size and isinstance(step.optimizer, Served):
            step.hold(step.parameters, step.optimizer.without(step.state, survivors, step.device.xp))
            lost = numbered(sorted(set(range(size)) - set(survivors)))
            self.remarks.append(f"lost on the way, and gone on without: rank {lost} of {size}; the others are numbered anew")

    def after_steps(self, trainer: Trainer[Any]) -> None:
        """Agree why there is no further step, and write the last checkpoint."""
        if self._wishes is not None:
            self._after_own_steps(trainer, self._wishes)
        else:
            _step_of(trainer).finish()
        trainer.history.stopped_because = trainer.ending
        agreed = agree(self.comm, 0, trainer.wish, checkpoint=self._due(trainer, last=True))
        if agreed.stop:
            trainer.ending = reason_of(self.comm, trainer.wish, agreed)
        if agreed.checkpoint:
            self._write(trainer)

    def losses(self, own: Sequence[float]) -> list[float]:
        """The mean over all samples of each step since."""
        self.observed.fold()
        sizes, totals = np.array(self._sizes, np.float64), np.array(self._totals, np.float64)
        self._sizes, self._totals = [], []
        if self.comm.size == 1 or not self.lockstep or not len(own):
            return list(own)
        means: list[float] = (self.comm.allreduce(np.array(own) * sizes) / totals).tolist()
        return means

    def draw(self, form: TrainingForm, batch: Mapping[str, np.ndarray], seed: int, step: int) -> dict[str, np.ndarray]:
        """The rows of this rank's samples in what is drawn for the whole batch; of other samplers, draws of its own."""
        if not form.draws or self.comm.size == 1:
            return form.draw(batch, seed, step)
        if not self._sharded or not self.lockstep:
            return form.draw(batch, seed + (self.comm.rank << 32), step)
        return rows_of_draws(form, batch, seed, step, share=(self._sizes[-1], self._totals[-1]), comm=self.comm)

    def evaluated(self, trainer: Trainer[Any], evaluate: Callable[[Any, Any], dict[str, float]]) -> dict[str, float]:
        """On rank 0, for all."""
        step = _step_of(trainer)
        if self._server is not None:
            self._server.before_evaluation()
        if self._wishes is not None:
            return evaluate(step.parameters, step.statistics)
        if step.synchronise_statistics:
            step.average_statistics()
        parameters, statistics, further = step.parameters, step.statistics, {}
        if step.optimizer.promise == "equal":
            check_equal(self.comm, parameters, step.device.xp, type(step.optimizer).__name__)
        else:
            parameters, statistics, drift = self._mean(trainer)
            further = {DRIFT: drift}
        figures = {} if self.comm.rank else evaluate(parameters, statistics)
        content = as_bytes(mapped(np.float64, {**figures, **further})) if self.comm.rank == 0 else None
        return {name: float(value) for name, value in of_bytes(broadcast(self.comm, content)).items()}

    def _mean(self, trainer: Trainer[Any]) -> tuple[dict[str, Any], dict[str, Any], float]:
        """The mean of all ranks' parameters and statistics, native, and how far they are apart; all ask together."""
        step = _step_of(trainer)
        xp, device = step.device.xp, step.device
        mean, drift = mean_and_drift(self.comm, step.parameters, xp)
        averages = mean_over_ranks(self.comm, step.statistics, xp)
        parameters = {n: device.from_numpy(a.astype(xp.dtype(step.parameters[n]))) for n, a in mean.items()}
        statistics = {n: device.from_numpy(a.astype(xp.dtype(step.statistics[n]))) for n, a in averages.items()}
        return parameters, statistics, drift

    # Checkpoints

    def _due(self, trainer: Trainer[Any], *, last: bool = False) -> bool:
        """Whether rank 0 is to write one."""
        if self.comm.rank:
            return False
        progress, timestamp = trainer.progress, perf_counter_ns()
        moments = [(Moment.AFTER_STEP, progress.step - 1)] if self.observed.stepped else []
        if moments and progress.position == 0:
            moments.append((Moment.AFTER_EPOCH, progress.epoch - 1))
        moments += [(Moment.AFTER_RUN, progress.step)] if last else []
        due = [c.due(moment, index, timestamp, progress) for c in self._checkpoints for moment, index in moments]
        self.observed.stepped = False
        return any(due)

    def _write(self, trainer: Trainer[Any]) -> None:
        tree = trainer.snapshot()
        for checkpoints in self._checkpoints if self.comm.rank == 0 else ():
            checkpoints.write_tree(tree, trainer.progress)

    def gathered(self, snapshot: Tree) -> Tree:
        """See `Ranks.gathered`."""
        return dict(gathered(self.comm, {**snapshot, _OWN: self.observed.as_tree()}))

    def parted(self, trainer: Trainer[Any], snapshot: Tree | None) -> Tree:
        """This rank's, from rank 0's; made of all ranks' where their number was another."""
        tree, trees = parted(self.comm, snapshot)
        local_tree = dict(tree)
        observations = local_tree.pop(_OWN, None)
        if trees and len(trees) != self.comm.size:
            local_tree["step"] = regrouped(_step_of(trainer).optimizer, trees)
            self.remarks.append(f"went on in step {len(tree['history']['sizes'])} from a checkpoint of {len(trees)} ranks")
        elif observations is not None:
            self.observed.of_tree(observations)
        return local_tree

    def remarks_of(self, trainer: Trainer[Any]) -> list[str]:
        """What a report should say of this run."""
        free = [] if self.lockstep or self.dedicated else [ON_THEIR_OWN]
        sampler = getattr(trainer.loader, "sampler", None)
        shared = sampler.remarks() if isinstance(sampler, Sharded) else []
        return [*_step_of(trainer).remarks, *free, *shared, *self.remarks]

    def facts(self) -> RanksRecord | None:
        """What was observed on all ranks; on rank 0, after a run."""
        return self._facts


def _step_of(trainer: Trainer[Any]) -> DistributedStep[Any]:
    if not isinstance(trainer.taker, DistributedStep):
        raise InvalidArgument(f"a {type(trainer.taker).__name__} on several ranks", "a DistributedStep")
    return trainer.taker
