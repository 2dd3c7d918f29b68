"""``Together``: what the trainers of several ranks arrange with each other, and what each observes of itself."""

from __future__ import annotations

import signal
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.arrays import mapped
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.optimizer import DistributedOptimizer
from deep_bench.distributed.schemes.server import ServerScheme
from deep_bench.distributed.training.checkpoint import gathered, parted, regrouped
from deep_bench.distributed.training.free import ServerRank, StopWishes, WorkerNews
from deep_bench.distributed.training.messages import RanksDiffer, as_bytes, broadcast, check_same, gather, numbered, of_bytes
from deep_bench.distributed.training.samplers import Sharded, rows_of_draws
from deep_bench.distributed.training.step import DistributedStep, check_equal, mean_and_drift, mean_over_ranks
from deep_bench.distributed.watch import current, end_all
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
from deep_bench.training.callbacks.stopping import Signals, StopAtSignal
from deep_bench.training.checkpoint import Checkpoints
from deep_bench.training.form import TrainingForm
from deep_bench.training.record import RANK_COLUMNS, MessagesRecord, RankRecord, RanksRecord, data_facts
from deep_bench.training.steps import Tree
from deep_bench.training.trainer import INTERRUPTED, Ranks, Trainer

_STOP, _INTERRUPTED, _CHECKPOINT = range(2, 5)


@dataclass(frozen=True, slots=True)
class StepAgreement:
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


def agree(comm: Communicator, samples: int, wish: str, *, checkpoint: bool = False) -> StepAgreement:
    """Tell and hear; one sum of five whole numbers over all ranks.

    Args:
        comm: The ranks.
        samples: How many this one has.
        wish: Why it wants to stop; empty if it does not.
        checkpoint: Whether it wants a checkpoint.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> run_local(2, lambda comm: agree(comm, 3 - comm.rank, "enough" if comm.rank else ""))[0]
        StepAgreement(samples=5, alike=False, stop=True, interrupted=False, checkpoint=False)
    """
    message = np.array([samples, samples * samples, bool(wish), wish == INTERRUPTED, checkpoint], np.int64)
    heard = comm.allreduce(message)
    total, squares = int(heard[0]), int(heard[1])
    alike = comm.size * squares == total * total  # Cauchy and Schwarz: equal for equal numbers only
    return StepAgreement(total, alike, bool(heard[_STOP]), bool(heard[_INTERRUPTED]), bool(heard[_CHECKPOINT]))


def reason_of(comm: Communicator, wish: str, agreed: StepAgreement) -> str:
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


@contextmanager
def stop_signals(on_signal: Callable[[], object]) -> Iterator[None]:
    """Within the block, these signals are a call; see `Signals`. In the main thread only.

    SIGUSR1 is one of them: ``mpirun`` (Open MPI 5.0) kills its ranks 0.2 s after it gets Ctrl-C or SIGTERM, which is too
    soon for most steps; SIGUSR1 it passes on, and waits.

    Args:
        on_signal: Called at the first Ctrl-C or SIGTERM, and at each SIGUSR1; it should note it and no more.

    Example:
        >>> with stop_signals(lambda: print("stop, please")):
        ...     signal.raise_signal(signal.SIGUSR1)
        stop, please
    """
    signals = Signals(on_signal)
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGUSR1, lambda *_: on_signal()) if main else None
    signals.begin()
    try:
        yield
    finally:
        signals.end()
        if main:
            signal.signal(signal.SIGUSR1, before)


Times = NDArray[np.int64]

COLUMNS = tuple(name for name in RANK_COLUMNS if name != "stamps")
"""What is kept of each step besides stamps; see `RankRecord`."""


class RankObservations:
    """The steps of this rank.

    Args:
        comm: The ranks, counted; its log is emptied from time to time.
        local: Where this process runs.

    Attributes:
        stepped: Whether a step was begun since somebody set this to false.
    """

    def __init__(self, comm: Counting, local: Mapping[str, Any]) -> None:
        self._comm, self._local = comm, dict(local)
        self._columns: dict[str, array[int]] = {name: array("q") for name in COLUMNS}
        self._windows = array("q")
        self._totals: dict[str, MessagesRecord] = {}
        self._began_ns = 0
        self.stepped = False

    def begin(self, samples: int, agreeing_ns: int) -> None:
        """A step begins: all ranks have just agreed on it."""
        self._columns["samples"].append(samples)
        self._columns["agreeing"].append(agreeing_ns)
        self._began_ns = perf_counter_ns()
        self.stepped = True

    def end(self, computed_ns: int) -> None:
        """It is done.

        Args:
            computed_ns: When the gradients were there.
        """
        self._windows.extend((self._began_ns, computed_ns, perf_counter_ns()))

    def fold(self) -> None:
        """Sum up what was counted since this was called last, and forget the calls."""
        windows = np.array(self._windows, np.int64).reshape(-1, 3)
        self._windows = array("q")
        communicating, exposed = within(windows, self._comm.calls)
        self._columns["computing"].extend((windows[:, 1] - windows[:, 0]).tolist())
        self._columns["updating"].extend((windows[:, 2] - windows[:, 1]).tolist())
        self._columns["communicating"].extend(communicating.tolist())
        self._columns["exposed"].extend(exposed.tolist())
        for name, total in self._comm.totals().items():
            before = self._totals.setdefault(
                name, MessagesRecord(operation=name, calls=0, payload_bytes=0, moved_bytes=0, spent_ns=0)
            )
            before.calls += total.calls
            before.payload_bytes += total.payload
            before.moved_bytes += total.moved
            before.spent_ns += round(total.seconds * 1e9)
        self._comm.clear()

    def as_tree(self) -> Tree:
        """The steps, for a checkpoint."""
        return {name: np.array(column, np.int64) for name, column in self._columns.items()}

    def of_tree(self, tree: Tree) -> None:
        """Go on from `as_tree`."""
        self._columns = {name: array("q", np.asarray(tree[name]).tolist()) for name in COLUMNS}

    def record(self, trainer: Any, remarks: list[str], job: Mapping[str, Any]) -> RanksRecord | None:
        """All ranks' together, on rank 0; all call this."""
        self.fold()
        mine = RankRecord(
            rank=self._comm.rank,
            local=self._local,
            stamps=np.array(trainer.history.stamps, np.int64),
            messages=list(self._totals.values()),
            **{name: np.array(column, np.int64) for name, column in self._columns.items()},
        )
        inner: Communicator = self._comm.inner
        rows = gather(inner, np.frombuffer(mine.model_dump_json().encode(), np.uint8).copy())
        if rows is None:
            return None
        return RanksRecord(
            scheme=repr(trainer.taker.rule),
            promise=trainer.taker.rule.promise,
            communicator=dict(inner.describe()),
            job=dict(job),
            remarks=remarks,
            ranks=[RankRecord.model_validate_json(row.tobytes()) for row in rows],
        )


def within(windows: Times, calls: Mapping[str, Times]) -> tuple[Times, Times]:
    """The time in calls of each step, and how much of it was after its gradients.

    Args:
        windows: When each step began, had its gradients, and ended; of shape (steps, 3), in nanoseconds.
        calls: ``start_ns`` and ``inside_ns`` of calls, in the order in which they began.

    Example:
        >>> calls = {"start_ns": np.array([5, 18, 25, 40]), "inside_ns": np.array([9, 4, 2, 1])}
        >>> within(np.array([[10, 20, 30], [30, 35, 50]]), calls)
        (array([6, 1]), array([4, 1]))
    """
    communicating, exposed = np.zeros(len(windows), np.int64), np.zeros(len(windows), np.int64)
    start, inside = calls["start_ns"], calls["inside_ns"]
    first, last = (np.searchsorted(start, windows[:, column]) for column in (0, 2))
    for step, (begin, end) in enumerate(zip(first, last, strict=True)):
        computed, done = windows[step, 1:]
        window = slice(begin, end)
        ends = np.minimum(start[window] + inside[window], done)
        communicating[step] = inside[window].sum()
        exposed[step] = np.maximum(ends - np.maximum(start[window], computed), 0).sum()
    return communicating, exposed


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
        self._survives = isinstance(scheme, ServerScheme) and scheme.survive and comm.size > 1
        if self._survives and not comm.survives:
            raise Unsupported(
                f"survive=true over {comm.inner.name!r}, as it was started: it cannot go on without a rank that is lost",
                "Open MPI with its fault tolerance",
                "mpirun --with-ft ulfm …, or leave survive out",
            )
        self._wishes: StopWishes | None = None
        self._known = 0
        self._news: WorkerNews | None = None
        self._server: ServerRank | None = None
        self.remarks = list(remarks)
        self._job = dict(job or {})
        self.observed = RankObservations(comm, dict(local or {}))
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
            stack.enter_context(stop_signals(lambda: trainer.stop(INTERRUPTED)))
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
        self._wishes, self._known = StopWishes(self.comm, survive=self._survives), 0
        self._news = WorkerNews(self.comm) if self.dedicated and self.comm.rank else None
        try:
            yield
        finally:
            trainer.evaluation = evaluation

    def serves(self, trainer: Trainer[Any]) -> bool:
        """Rank 0 serves, where the scheme has a server."""
        if not self.dedicated or self.comm.rank or self._wishes is None:
            return False
        self._server = ServerRank(self.comm, trainer, self._wishes, self._served, survive=self._survives)
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

    def _before_own_step(self, trainer: Trainer[Any], samples: int, wishes: StopWishes) -> int:
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

    def _of_others(self, wishes: StopWishes) -> int:
        """How many samples rank 0 has heard of since it asked last; so its history has those of all ranks."""
        before, self._known = self._known, 0 if self.comm.rank else wishes.of_others
        return self._known - before

    def _after_own_steps(self, trainer: Trainer[Any], wishes: StopWishes) -> None:
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
        if len(survivors) < size and isinstance(step.optimizer, ServerScheme):
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
