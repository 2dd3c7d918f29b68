"""Batches read in the order of a sampler, in the calling thread, in other threads or in other processes.

The memory is a file in a folder that lies in memory where the system has one. Who reads maps the file and takes its
name away, so the arrays need no copy, and what nobody reads is gone with the folder.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import shutil
import signal
import tempfile
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidData, Unsupported, WorkerDied, WorkerError
from deep_bench.tensor import TensorSpec
from deep_bench.training.dataset import BadSample, Dataset, checked_numbers, where_is
from deep_bench.training.samplers import Sampler, natural
from deep_bench.workers.evidence import cause, oom_kills

__all__ = ["Loader"]

Batch = dict[str, np.ndarray]
Prepare = Callable[[Batch, NDArray[np.int64], int], Batch]
"""From a batch, the numbers of its samples and the number of the epoch to what is made of it."""


_BATCH = "a dict: name to a NumPy array whose rows are the samples"
_AS_A_SET = "make one of arrays: ArrayDataset({'x': …, 'label': …})"


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads the samples of these numbers and prepares them.

    Raises:
        InvalidArgument: A list of samples in place of a set.
    """

    dataset: Dataset
    preparation: Prepare | None = None

    def __post_init__(self) -> None:
        if isinstance(self.dataset, list | tuple):
            came = f"a {type(self.dataset).__name__} as a set of samples"
            raise InvalidArgument(came, "a set that gives many samples at once, by name", _AS_A_SET)

    def __call__(self, epoch: int, numbers: NDArray[np.int64]) -> Batch:
        """The batch.

        Raises:
            InvalidArgument: The sampler gave a number that no sample has.
            InvalidData: A sample that cannot be read, or a batch that is no array by name with one row for each sample.
        """
        numbers = checked_numbers(numbers, len(self.dataset), self._set)
        try:
            batch = self.dataset[numbers]
        except DeepBenchError:
            raise
        except Exception as error:
            raise self._named(numbers, error) from error
        if not isinstance(batch, Mapping):
            raise InvalidData(f"{self._set}: a {type(batch).__name__} for the samples {shown(numbers)}", _BATCH, _AS_A_SET)
        for name, array in batch.items():
            if not isinstance(array, np.ndarray):
                came = f"{self._set}: {name!r} is a {type(array).__name__} for the samples {shown(numbers)}"
                raise InvalidData(came, _BATCH, "stack the samples: np.stack(…)")
            if not array.ndim or len(array) != len(numbers):
                came = f"{self._set}: {name!r} of shape {array.shape} for the samples {shown(numbers)}"
                raise InvalidData(came, f"{len(numbers)} rows, one for each sample")
        if self.preparation is None:
            return batch
        try:
            return self.preparation(batch, numbers, epoch)
        except BadSample as error:
            place = where_is(self.dataset, error.sample)
            if place is None:
                raise
            raise InvalidData(f"{error.came} ({place})", error.expected, error.advice) from error

    def _named(self, numbers: NDArray[np.int64], error: Exception) -> DeepBenchError:
        """The error with the first sample that cannot be read alone, if there is one."""
        for number in numbers:
            try:
                self.dataset[np.array([number])]
            except DeepBenchError as failure:
                return failure
            except Exception as alone:
                return InvalidData(f"sample {number} of {self._set} cannot be read: {_worded(alone)}")
        return InvalidData(f"the samples {shown(numbers)} of {self._set} cannot be read together: {_worded(error)}")

    @property
    def _set(self) -> str:
        description: Any = getattr(self.dataset, "description", None)
        return repr(description.name) if description else f"the {type(self.dataset).__name__}"


def _worded(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def shown(numbers: NDArray[np.int64]) -> str:
    """The numbers of a batch, those in the middle left out if there are many."""
    return np.array2string(numbers, threshold=8, edgeitems=3, separator=", ")


_ALIGNMENT = 64
_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """Where an array lies in the memory; one of objects is pickled there."""

    offset: int
    size: int
    shape: tuple[int, ...]
    dtype: np.dtype


def new_folder() -> Path:
    """A folder of this process alone, in memory if possible."""
    where = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix=f"deep_bench-{os.getpid()}-", dir=where))


def write_shared(path: Path, batch: Mapping[str, np.ndarray]) -> dict[str, ArrayPlace]:
    """Put a batch into a new file.

    Raises:
        OSError: No memory is left there.
    """
    places = {}
    with path.open("xb") as file:
        for name, array in batch.items():
            content = pickle.dumps(array) if array.dtype.hasobject else np.ascontiguousarray(array)
            offset = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
            file.seek(offset)
            size = file.write(content if isinstance(content, bytes) else content.reshape(-1).view(np.uint8).data)
            places[name] = ArrayPlace(offset, size, array.shape, array.dtype)
        file.write(b"\0")  # an empty file could not be mapped
    return places


def read_shared(path: Path, places: Mapping[str, ArrayPlace]) -> dict[str, np.ndarray]:
    """Take a batch out of its file, which is gone afterwards; the arrays keep the memory."""
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    path.unlink()
    return {name: _array_at(memory, place) for name, place in places.items()}


def _array_at(memory: mmap.mmap, place: ArrayPlace) -> np.ndarray:
    if place.dtype.hasobject:
        array: Any = pickle.loads(memory[place.offset : place.offset + place.size])
        return array
    return np.ndarray(place.shape, place.dtype, memory, place.offset)


@dataclass(frozen=True, slots=True)
class ProcessJob:
    """One batch to read, and the file to put it in."""

    path: Path
    epoch: int
    numbers: NDArray[np.int64]


ProcessAnswer = dict[str, ArrayPlace] | Exception


def serve(connection: Connection, folder: Path) -> None:
    """Answer jobs in the order they come, until the other side closes. The first message is the pickled `Fetch`.

    Ctrl-C reaches every process of a terminal; it is for the caller to end this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sent = connection.recv_bytes()
        try:
            fetch = pickle.loads(sent)
        except Exception as error:
            fetch = _Broken(sendable(error))
        del sent
        while True:
            job: ProcessJob = connection.recv()
            connection.send(_answer(fetch, job))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the caller has closed its end, or is gone
        shutil.rmtree(folder, ignore_errors=True)  # others of its processes may be doing the same


def _answer(fetch: Fetch | _Broken, job: ProcessJob) -> ProcessAnswer:
    try:
        return write_shared(job.path, fetch(job.epoch, job.numbers))
    except Exception as error:
        return sendable(error)


@dataclass(frozen=True, slots=True)
class _Broken:
    """Stands for a data set that could not be made here: every job fails for that reason."""

    error: Exception

    def __call__(self, *_: object) -> dict[str, np.ndarray]:
        raise self.error


def sendable(error: Exception) -> DeepBenchError:
    """An error as it can be raised in another process: with its traceback, which would be lost.

    Example:
        >>> sendable(KeyError("x")).came
        "a reading process failed: KeyError: 'x'"
    """
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, DeepBenchError) and _travels(error):
        error.add_note(f"in a reading process:\n{trace}")
        return error
    wrapped = WorkerError(f"a reading process failed: {type(error).__name__}: {error}", advice="see `details`")
    wrapped.details = trace
    return wrapped


def _travels(error: DeepBenchError) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


_QUEUE = 2
"""Jobs that a process may hold: one that it reads, and the next. Answers are small, so neither side ever waits to write."""


_PATIENCE_S = 5


@dataclass(slots=True)
class _Reader:
    """A reading process and what it has been asked and has not answered."""

    process: SpawnProcess
    connection: connection.Connection
    jobs: deque[ProcessJob] = field(default_factory=deque)


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
        arrived: dict[Path, ProcessAnswer] = {}
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
        self, turn: int, epoch: int, batches: Iterator[NDArray[np.int64]], arrived: dict[Path, ProcessAnswer]
    ) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        ahead: deque[ProcessJob] = deque()
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
            batch = read_shared(first, answer)
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

    def _begin(self, epoch: int, batches: Iterator[NDArray[np.int64]], ahead: deque[ProcessJob]) -> None:
        while len(ahead) < self._prefetch:
            reader = min(self._readers, key=lambda reader: len(reader.jobs))
            numbers = next(batches, None) if len(reader.jobs) < _QUEUE else None
            if numbers is None:
                return
            job = ProcessJob(self._folder / str(next(self._job)), epoch, numbers)
            reader.jobs.append(job)
            ahead.append(job)
            with self._naming_the_dead(reader):
                reader.connection.send(job)

    def _receive(self, *, wait: bool) -> dict[Path, ProcessAnswer]:
        """What has been answered. A process that ends closes its pipe, which wakes us as well."""
        busy = {reader.connection: reader for reader in self._readers if reader.jobs}
        arrived = {}
        for ready in connection.wait(list(busy), None if wait else 0):
            reader = busy[cast(connection.Connection, ready)]
            with self._naming_the_dead(reader):
                answer: ProcessAnswer = reader.connection.recv()
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


def _forget(arrived: dict[Path, ProcessAnswer]) -> None:
    for path in arrived:
        path.unlink(missing_ok=True)
    arrived.clear()


THREAD_NAME = "deep_bench-loader"

ThreadAnswer = SimpleQueue[Batch | BaseException]
"""Where one batch, or what went wrong with it, is put and taken once."""


ThreadJob = tuple[NDArray[np.int64], ThreadAnswer]


def threaded(
    fetch: Fetch, epoch: int, batches: Iterator[NDArray[np.int64]], workers: int, prefetch: int
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """The batches in order, at most ``prefetch`` of them begun and not handed out.

    When the iterator ends, for whatever reason, no thread of it is left.

    Threads and caller meet only in queues that are written in C. The locks of ``ThreadPoolExecutor`` are taken in Python:
    Ctrl-C amid one of its calls leaves a lock taken for ever, and its threads, and who waits for them, with it.
    """
    jobs: SimpleQueue[ThreadJob | None] = SimpleQueue()
    ahead: deque[ThreadJob] = deque()
    threads = [
        Thread(target=_read_jobs, args=(fetch, epoch, jobs), name=f"{THREAD_NAME}_{n}", daemon=True) for n in range(workers)
    ]

    def begin(count: int) -> None:
        for numbers in islice(batches, count):
            ahead.append((numbers, SimpleQueue()))
            jobs.put(ahead[-1])

    try:
        for thread in threads:
            thread.start()
        begin(prefetch)
        while ahead:
            numbers, answer = ahead.popleft()
            batch = answer.get()
            if isinstance(batch, BaseException):
                raise batch
            begin(1)
            yield numbers, batch
            del batch, answer  # else this frame would hold a batch that the caller has done with
    finally:
        # let no further job begin, and all threads end
        try:
            while True:
                jobs.get_nowait()
        except Empty:
            for _ in range(workers):
                jobs.put(None)
        for thread in threads:
            if thread.is_alive():
                thread.join()


def _read_jobs(fetch: Fetch, epoch: int, jobs: SimpleQueue[ThreadJob | None]) -> None:
    """What a thread does."""
    while (job := jobs.get()) is not None:
        numbers, answer = job
        try:
            answer.put(fetch(epoch, numbers))
        except BaseException as error:  # it is raised where the batch is asked for
            answer.put(error)


class Loader:
    """Reads the batches of a sampler from a set, in its order, whatever number of workers.

    Where reading leaves Python's lock (memory copies, files, decoding), threads are enough; processes are for sets and
    preparations written in Python. They are started afresh, keep a copy of the set each, and hand batches over in shared
    memory.

    Args:
        dataset: The set. For processes it must be possible to pickle it.
        sampler: Which samples come in which order.
        preparation: What is done with a batch: called with the batch, the numbers of its samples and that of the epoch.
        workers: Threads or processes that read ahead; 0 reads when a batch is asked for.
        processes: Whether workers are processes.
        prefetch: The most batches that are begun and not handed out yet, which bounds the memory; by default two for each
            worker.

    Raises:
        InvalidArgument: Numbers that cannot be.

    Example:
        >>> import deep_bench as db
        >>> digits = db.datasets["digits"]("train")
        >>> loader = Loader(digits, db.samplers["shuffled"](digits, batch_size=512, seed=1), workers=1)
        >>> [len(numbers) for numbers, batch in loader.epoch(0)]
        [512, 512, 418]
    """

    def __init__(
        self,
        dataset: Dataset,
        sampler: Sampler,
        *,
        preparation: Prepare | None = None,
        workers: int = 0,
        processes: bool = False,
        prefetch: int | None = None,
    ) -> None:
        self._workers = natural("workers", workers)
        self._prefetch = 2 * workers if prefetch is None else natural("prefetch", prefetch, least=1)
        if self._prefetch < self._workers:
            raise InvalidArgument(f"prefetch {prefetch} for {workers} workers", f"at least {workers}, else some never read")
        if processes and not workers:
            raise InvalidArgument("processes without workers", "workers of at least 1")
        self.dataset = dataset
        self.sampler = sampler
        self._fetch = Fetch(dataset, preparation)
        self._processes = Processes(self._fetch, workers, self._prefetch) if processes else None
        if self._processes is not None:
            weakref.finalize(self, self._processes.close)

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample as they are handed out; reads the first sample.

        Raises:
            InvalidData: It cannot be read.
        """
        first = self._fetch(0, np.zeros(1, np.int64))
        return tuple(TensorSpec(name, array.shape[1:], array.dtype) for name, array in first.items())

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self.sampler)

    def epoch(self, number: int, start: int = 0) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """The batches of an epoch with the numbers of their samples.

        A loop may be left at any time: nothing is read any more then, and no thread is left. Processes are kept for the next
        epoch; `close` ends them.

        Args:
            number: The epoch.
            start: Batches to pass over without reading them, to resume an epoch.

        Raises:
            InvalidArgument: A negative number, or a set that cannot be pickled.
            InvalidData: A sample that cannot be read; batches before it have been handed out.
            WorkerDied: A reading process ended.
        """
        return self._read(natural("epoch", number), islice(self.sampler.epoch(number), natural("start", start), None))

    def _read(self, epoch: int, batches: Iterator[NDArray[np.int64]]) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        # A generator of its own, so that this loader, and with it its processes, outlives an epoch in progress.
        if self._processes is not None:
            yield from self._processes.epoch(epoch, batches)
        elif self._workers:
            yield from threaded(self._fetch, epoch, batches, self._workers, self._prefetch)
        else:
            for numbers in batches:
                yield numbers, self._fetch(epoch, numbers)

    def close(self) -> None:
        """End the reading processes; an epoch begun later starts them again."""
        if self._processes is not None:
            self._processes.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
