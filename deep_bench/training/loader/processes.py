"""Batches read ahead by other processes."""

from __future__ import annotations

import contextlib
import shutil
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidData, Unsupported, WorkerDied
from deep_bench.measure.death import cause, oom_kills
from deep_bench.training.loader.fetch import Batch, Fetch, shown
from deep_bench.training.loader.shared import new_folder, read
from deep_bench.training.loader.worker import Answer, Job, serve

_QUEUE = 2
"""Jobs that a process may hold: one that it reads, and the next. Answers are small, so neither side ever waits to write."""

_PATIENCE_S = 5


@dataclass(slots=True)
class _Reader:
    """A reading process and what it has been asked and has not answered."""

    process: SpawnProcess
    connection: connection.Connection
    jobs: deque[Job] = field(default_factory=deque)


class Processes:
    """Reading processes, started when first needed, and kept from one epoch to the next.

    They are started afresh (spawned), never forked: threads and locks of frameworks do not survive a fork.

    Args:
        fetch: What reads a batch; it is pickled.
        workers: The number of processes.
        prefetch: The most batches begun and not handed out.
    """

    def __init__(self, fetch: Fetch, workers: int, prefetch: int) -> None:
        self._fetch = fetch
        self._workers = workers
        self._prefetch = prefetch
        self._readers: list[_Reader] = []
        self._folder = Path()
        self._job = count()
        self._turn = 0
        self._oom_kills = oom_kills()

    def epoch(self, number: int, batches: Iterator[NDArray[np.int64]]) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """The batches in order.

        Raises:
            InvalidArgument: The set cannot be pickled.
            Unsupported: Another epoch was begun since.
            WorkerDied: A process ended.
        """
        self._turn += 1
        arrived: dict[Path, Answer] = {}
        try:
            self._start()
            self._settle()
            yield from self._ordered(self._turn, number, batches, arrived)
        except (GeneratorExit, InvalidData, Unsupported):
            raise  # all processes are well; what they still read is dropped before the next epoch
        except BaseException:
            self.close()
            raise
        finally:
            _forget(arrived)

    def _ordered(
        self, turn: int, epoch: int, batches: Iterator[NDArray[np.int64]], arrived: dict[Path, Answer]
    ) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        ahead: deque[Job] = deque()
        self._begin(epoch, batches, ahead)
        while ahead:
            if turn != self._turn:
                came = "the next batch of an epoch after its processes were closed, or another one was begun with them"
                raise Unsupported(came, advice="one loader for each epoch that is read at the same time")
            first = ahead[0].path
            while True:
                arrived.update(self._receive(wait=first not in arrived))
                self._begin(epoch, batches, ahead)
                if first in arrived:
                    break
            job = ahead.popleft()
            answer = arrived.pop(first)
            if isinstance(answer, Exception):
                raise answer
            batch = read(first, answer)
            self._begin(epoch, batches, ahead)
            yield job.numbers, batch
            del batch  # else this frame would hold a batch that the caller has done with

    def _start(self) -> None:
        if self._readers:
            return
        try:
            sent = cloudpickle.dumps(self._fetch)
        except Exception as error:
            came = f"the data set cannot be sent to another process: {type(error).__name__}: {error}"
            raise InvalidArgument(came, "one that can be pickled", "read in threads instead: processes=False") from error
        context = get_context("spawn")
        self._folder = new_folder()
        for _ in range(self._workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, self._folder), daemon=True, name="deep_bench-loader")
            process.start()
            theirs.close()
            self._readers.append(_Reader(process, ours))
        for reader in self._readers:
            with self._naming_the_dead(reader):
                reader.connection.send_bytes(sent)

    def _begin(self, epoch: int, batches: Iterator[NDArray[np.int64]], ahead: deque[Job]) -> None:
        while len(ahead) < self._prefetch:
            reader = min(self._readers, key=lambda reader: len(reader.jobs))
            numbers = next(batches, None) if len(reader.jobs) < _QUEUE else None
            if numbers is None:
                return
            job = Job(self._folder / str(next(self._job)), epoch, numbers)
            reader.jobs.append(job)
            ahead.append(job)
            with self._naming_the_dead(reader):
                reader.connection.send(job)

    def _receive(self, *, wait: bool) -> dict[Path, Answer]:
        """What has been answered. A process that ends closes its pipe, which wakes us as well."""
        busy = {reader.connection: reader for reader in self._readers if reader.jobs}
        arrived = {}
        for ready in connection.wait(list(busy), None if wait else 0):
            reader = busy[cast(connection.Connection, ready)]
            with self._naming_the_dead(reader):
                answer: Answer = reader.connection.recv()
            arrived[reader.jobs.popleft().path] = answer
        return arrived

    def _settle(self) -> None:
        """Drop what an epoch that was left early has still asked for."""
        while any(reader.jobs for reader in self._readers):
            _forget(self._receive(wait=True))

    @contextlib.contextmanager
    def _naming_the_dead(self, reader: _Reader) -> Iterator[None]:
        try:
            yield
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            reader.process.join(_PATIENCE_S)
            at = f" the samples {shown(reader.jobs[0].numbers)}" if reader.jobs else ""
            code = reader.process.exitcode
            end = "closed its pipe" if code is None else cause(code, self._oom_kills)
            came = f"the process that was to read{at} {end}"
            advice = "a script that reads in processes needs `if __name__ == '__main__':`; shared memory may be full"
            raise WorkerDied(came, advice=advice) from error

    def close(self) -> None:
        """End all processes and remove their shared memory; an epoch begun later starts them again."""
        self._turn += 1
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.connection.close()
            reader.process.terminate()
        for reader in readers:
            reader.process.join(_PATIENCE_S)
            if reader.process.is_alive():
                reader.process.kill()
                reader.process.join()
            reader.process.close()
        if readers:
            shutil.rmtree(self._folder, ignore_errors=True)  # a process that ended by itself may have removed it


def _forget(arrived: dict[Path, Answer]) -> None:
    for path in arrived:
        path.unlink(missing_ok=True)
    arrived.clear()
