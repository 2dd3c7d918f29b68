"""Ranks that take steps each on their own: who wants to stop, and what workers tell their server."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from deep_bench.arrays import mapped
from deep_bench.distributed.communicators.communicator import ANY, Communicator, Request
from deep_bench.distributed.training.samplers import Batch
from deep_bench.distributed.training.step import DistributedStep
from deep_bench.errors import CommunicationFailed
from deep_bench.training.samplers import Sampler
from deep_bench.training.trainer import Trainer

_WISH, _ORDER, _NEWS = 711, 712, 713
_DONE, _STOP, _WENT_ON = 0, 1, 2


class StopWishes:
    """Wishes to stop, by rank 0, which passes them on: nobody waits for an answer before all have come to their end.

    Each other rank tells rank 0 at most once that it wants to stop, and once that it has; rank 0 tells each other rank once:
    when somebody wants to stop, or when all have. With each, and now and then between, they tell how many samples they had.

    Args:
        comm: The ranks, which all make this together.
        survive: Whether rank 0 goes on without others that are lost.
    """

    def __init__(self, comm: Communicator, *, survive: bool = False) -> None:
        self._comm, self._survive = comm, survive
        self._heard = np.empty(2, np.int64)
        self._samples = 0
        self._under_way: tuple[Request, np.ndarray] | None = None
        self._of_others: dict[int, int] = {}
        self._open: Request | None = None
        self._going = set(range(1, comm.size)) if comm.rank == 0 else {0} if comm.rank else set()
        self._passed_on = False
        self._stop = False
        self._listen()

    def stops(self, wish: str) -> bool:
        """Whether this rank takes no further step.

        Args:
            wish: Why it wants to stop itself; empty if it does not.
        """
        while self._came():
            self._hear()
        if wish and not self._stop:
            self._stop = True
            if self._comm.rank:
                self._send(0, _WISH, _STOP)
        if self._comm.rank == 0 and self._stop:
            self._pass_on(_STOP)
        return self._stop

    def went_on(self, samples: int) -> None:
        """This rank has had some more samples: rank 0 is told as soon as it has heard what it was told before."""
        self._samples += samples
        if self._comm.rank and (self._under_way is None or self._under_way[0].test()):
            content = np.array([_WENT_ON, self._samples], np.int64)
            self._under_way = (self._comm.isend(content, 0, _WISH), content)

    @property
    def of_others(self) -> int:
        """How many samples rank 0 has heard that all others have had; all of them once they have come to their `end`."""
        return sum(self._of_others.values())

    def end(self) -> None:
        """Return when all ranks are here."""
        if self._under_way is not None:
            self._under_way[0].wait()
        if self._comm.rank:
            self._send(0, _WISH, _DONE)
        elif self._survive:
            self._forget()  # those that somebody else has noticed
        while self._open is not None:
            try:
                self._open.wait()
            except CommunicationFailed as failure:
                self._lose(failure)
            else:
                self._hear()
            if self._comm.rank == 0 and self._stop:
                self._pass_on(_STOP)
        if self._comm.rank == 0:
            self._pass_on(_DONE)

    def _listen(self) -> None:
        source, tag = (0, _ORDER) if self._comm.rank else (ANY, _WISH)
        self._open = self._comm.irecv(self._heard, source, tag) if self._going else None

    def _hear(self) -> None:
        assert self._open is not None
        received = self._open.wait()
        assert received is not None
        self._stop = self._stop or bool(self._heard[0] == _STOP)
        self._of_others[received.source] = int(self._heard[1])
        if self._comm.rank or self._heard[0] == _DONE:
            self._going.discard(received.source)
        self._listen()

    def _came(self) -> bool:
        try:
            return self._open is not None and self._open.test()
        except CommunicationFailed as failure:
            self._lose(failure)
            return False

    def _lose(self, failure: CommunicationFailed) -> None:
        """Expect no more of ranks that are lost."""
        if self._comm.rank or not self._survive or not self._comm.lost():
            raise failure
        self._forget()

    def _forget(self) -> None:
        self._going -= self._comm.lost()
        if not self._going:
            self._open = None

    def _pass_on(self, order: int) -> None:
        if not self._passed_on:
            self._passed_on = True
            for rank in range(1, self._comm.size):
                try:
                    self._send(rank, _ORDER, order)
                except CommunicationFailed as failure:
                    self._lose(failure)

    def _send(self, rank: int, tag: int, code: int) -> None:
        self._comm.send(np.array([code, self._samples], np.int64), rank, tag)


class WorkerNews:
    """What a worker tells of each step when the next one begins: its loss, and its running statistics.

    Args:
        comm: The ranks.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._under_way: tuple[Request, np.ndarray] | None = None
        self._open = False

    def begin(self) -> None:
        """A step begins, of which there will be something to tell."""
        self._open = True

    def tell(self, trainer: Trainer[Any]) -> None:
        """Tell of the last step, if nobody has yet; nobody waits for it to arrive."""
        if not self._open:
            return
        self._open = False
        self.wait()
        step = _step(trainer)
        arrays = [np.asarray(step.device.to_numpy(x), np.float64).reshape(-1) for x in step.statistics.values()]
        content = np.concatenate([[trainer.read_loss(trainer.progress.outputs)], *arrays])
        self._under_way = (self._comm.isend(content, 0, _NEWS), content)

    def wait(self) -> None:
        """Return when what was told has arrived."""
        if self._under_way is not None:
            self._under_way[0].wait()
            self._under_way = None


class ServerRank:
    """Rank 0 of a scheme with a server: it notes the workers' updates as steps of its own trainer, and evaluates.

    Args:
        comm: The ranks.
        trainer: Rank 0's.
        wishes: Who wants to stop.
        after_update: Called after each update.
        survive: Whether it goes on without workers that are lost; the loss of what they did last is not known.
    """

    def __init__(
        self, comm: Communicator, trainer: Trainer[Any], wishes: StopWishes, after_update: Any, *, survive: bool = False
    ) -> None:
        self._comm, self._trainer, self._wishes, self._notify, self._survive = comm, trainer, wishes, after_update, survive
        self._step = _step(trainer)
        clocks = np.asarray(self._step.device.to_numpy(self._step.state["clocks"]))
        self._clocks = clocks.copy()
        sampler: Any = trainer.loader.sampler
        self._batches = len(sampler)
        self._sizes = {rank: _sizes(sampler.of(rank - 1), int(clocks[rank])) for rank in range(1, comm.size)}
        self._latest: dict[int, int] = {}
        self._statistics: dict[int, dict[str, np.ndarray]] = {}

    def serve(self) -> None:
        """Until all workers have finished."""
        self._step.serve(self._after_update)
        for worker in list(self._latest):
            self._hear(worker)
        self._assign()

    def _after_update(self, parameters: Any, state: Any) -> None:
        clocks = np.asarray(self._step.device.to_numpy(state["clocks"]))
        worker = int(np.flatnonzero(clocks != self._clocks)[0])
        self._clocks = clocks.copy()
        self._step.hold(parameters, state)
        if worker in self._latest:
            self._hear(worker)
        trainer = self._trainer
        self._latest[worker] = trainer.progress.step
        self._notify()
        ends = trainer.progress.position + 1 == self._batches * (self._comm.size - 1)
        trainer.note(next(self._sizes[worker]), ends_epoch=ends)
        self._wishes.stops(trainer.wish)

    def before_evaluation(self) -> None:
        """Take the mean of the running statistics that workers told of last."""
        self._assign()

    def _hear(self, worker: int) -> None:
        """A worker's news of its last step but one: it told them before it sent the gradient of its last."""
        shapes = {name: np.shape(self._step.device.to_numpy(x)) for name, x in self._step.statistics.items()}
        content = np.empty(1 + sum(int(np.prod(shape)) for shape in shapes.values()))
        number = self._latest.pop(worker)
        try:
            self._comm.recv(content, worker, _NEWS)
        except CommunicationFailed:
            if not self._survive or worker not in self._comm.lost():
                raise
            self._trainer.history.untold.append(number)
            return
        self._trainer.history.losses[number] = float(content[0])
        parts = np.split(content[1:], np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]) if shapes else []
        self._statistics[worker] = {n: p.reshape(s) for (n, s), p in zip(shapes.items(), parts, strict=True)}

    def _assign(self) -> None:
        rows = list(self._statistics.values())
        if rows and rows[0]:
            self._step.assign_statistics(mapped(lambda *parts: np.mean(parts, axis=0), rows[0], *rows[1:]))


def _sizes(sampler: Sampler, passed: int) -> Any:
    """How many samples a worker has in each of its steps, from one on."""
    epoch, begin = divmod(passed, len(sampler))
    while True:
        batches: Any = islice(sampler.epoch(epoch), begin, None)
        for batch in batches:
            indices: Batch = batch
            yield len(indices)
        epoch, begin = epoch + 1, 0


def _step(trainer: Trainer[Any]) -> DistributedStep[Any]:
    assert isinstance(trainer.taker, DistributedStep)
    return trainer.taker
