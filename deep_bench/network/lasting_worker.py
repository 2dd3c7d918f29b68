"""A worker process that is started when it is needed, and anew when something has ended it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deep_bench.errors import WorkerDied, WorkerError
from deep_bench.measure.workers import Worker, told


class LastingWorker:
    """Holds one system in a worker process, and lets it go where that crashes, runs out of memory or takes too long.

    Use it in a ``with`` statement, which ends the process.

    Args:
        factory: Import path of what makes the system, ``"package.module:attribute"``.
        arguments: Keyword arguments for it.
        label: What to call it in messages.
        limit: The most seconds a request may take; then the process is ended. None waits.

    Attributes:
        label: As given.
        deaths: How many times a process ended.
        folder: A folder of its own, which is removed with it.

    Example:
        >>> with LastingWorker("collections:Counter", {"a": 2}, "letters") as worker:
        ...     worker.call("total")
        2
    """

    def __init__(self, factory: str, arguments: Mapping[str, Any], label: str, *, limit: float | None = None) -> None:
        self.label, self.deaths = label, 0
        self._factory, self._arguments, self._limit = factory, dict(arguments), limit
        self._temporary = tempfile.TemporaryDirectory(prefix="deep_bench_", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self._worker: Worker | None = None
        self._closed = False

    @property
    def worker(self) -> Worker:
        """The process; started if there is none. Another one is another object."""
        if self._closed:
            raise WorkerError(f"{self.label}: its worker was closed", advice="ask inside of the `with` statement")
        if self._worker is None:
            log = self.folder / "log"
            self._worker = Worker(self._factory, self._arguments, log=log, label=self.label, limit_s=self._limit)
        return self._worker

    def start(self) -> None:
        """Start the process, if there is none.

        Raises:
            DeepBenchError, WorkerError: The system cannot be made.
            WorkerDied: The process ended.
        """
        with self._mortal():
            _ = self.worker

    def call(self, method: str, *arguments: Any) -> Any:
        """Run a method of the system there.

        Raises:
            DeepBenchError: What it raised of this kind.
            WorkerError: It raised anything else.
            WorkerDied: The process ended, with what its log says; the next call starts another.
        """
        with self._mortal():
            return self.worker.call(method, *arguments)

    def pause(self) -> None:
        """Let it stand still, if there is a process.

        Raises:
            WorkerDied: The process has ended meanwhile.
        """
        if self._worker is not None:
            with self._mortal():
                self._worker.pause()

    def resume(self) -> None:
        """Let it run on; start it if there is no process.

        Raises:
            WorkerDied: The process has ended meanwhile.
        """
        with self._mortal():
            self.worker.resume()

    @contextmanager
    def _mortal(self) -> Iterator[None]:
        try:
            yield
        except WorkerDied as error:
            self.deaths += 1
            self._end()
            raise with_details(WorkerDied(f"{self.label}: {told(error, self.label)}"), error) from error
        except KeyboardInterrupt:
            self._end()  # the answer to come would be taken for another's
            raise

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        """End the process, for good."""
        self._closed = True
        self._end()
        self._temporary.cleanup()

    def __enter__(self) -> LastingWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def with_details(error: WorkerError, earlier: WorkerError) -> WorkerError:
    """An error with the details of the one that it stands for."""
    error.details = earlier.details
    return error
