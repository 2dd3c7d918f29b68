"""What a reading process does."""

from __future__ import annotations

import pickle
import shutil
import signal
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import DeepBenchError, WorkerError
from deep_bench.training.loader.fetch import Fetch
from deep_bench.training.loader.shared import Place, write


@dataclass(frozen=True, slots=True)
class Job:
    """One batch to read, and the file to put it in."""

    path: Path
    epoch: int
    numbers: NDArray[np.int64]


Answer = dict[str, Place] | Exception


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
            job: Job = connection.recv()
            connection.send(_answer(fetch, job))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the caller has closed its end, or is gone
        shutil.rmtree(folder, ignore_errors=True)  # others of its processes may be doing the same


def _answer(fetch: Fetch | _Broken, job: Job) -> Answer:
    try:
        return write(job.path, fetch(job.epoch, job.numbers))
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
