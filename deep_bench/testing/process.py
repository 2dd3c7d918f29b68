"""An adapter in a process of its own, so that a crash costs one case only."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from deep_bench.errors import DeepBenchError, WorkerDied
from deep_bench.measure.workers import Worker
from deep_bench.testing.case import Case

R = TypeVar("R")
Progress = Callable[[int, int, str], None]
_START_S = 120.0


class CaseProcess:
    """A worker with an adapter, started when it is first needed, and anew after a crash.

    Args:
        subject: Import path of the class that holds the adapter there; it takes ``system``.
        system: The adapter with its options, as written on the command line.
        limit_s: The most seconds a call may take.
        log: The file for what the process prints.
    """

    def __init__(self, subject: str, system: str, limit_s: float, log: Path) -> None:
        self._subject, self._system, self._limit_s, self._log = subject, system, limit_s, log
        self._worker: Worker | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the subject.

        Raises:
            WorkerError: It raised.
            WorkerDied: The process ended, or took too long; the next call starts another.
        """
        if self._worker is None:
            start_s = max(self._limit_s, _START_S)
            self._worker = Worker(
                self._subject, {"system": self._system}, label=self._system, log=self._log, limit_s=start_s
            )
            self._worker.limit_s = self._limit_s
        try:
            return self._worker.call(method, *arguments)
        except WorkerDied:
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def said_by(failure: DeepBenchError) -> str:
    """What an error of a worker says, with the traceback in the worker."""
    return f"{failure.came}\n{getattr(failure, 'details', '')}".strip()


def run_cases(
    subject: str,
    system: str,
    cases: Sequence[Case],
    run: Callable[[CaseProcess, Case, Mapping[str, str]], R],
    *,
    limit_s: float,
    progress: Progress | None = None,
) -> tuple[dict[str, str], list[R], bool]:
    """Run cases one after the other, and keep what is done when interrupted.

    Args:
        subject: Import path of the class that holds the adapter; its ``describe`` gives ``facts`` and ``known`` failures.
        system: The adapter with its options, as written on the command line.
        cases: In the order to run them.
        run: Runs one, given the adapter's known failures.
        limit_s: The most seconds a call may take.
        progress: Told how many cases are done, of how many, and the next one's name.

    Returns:
        What the adapter says of itself, the results, and whether it was interrupted.
    """
    folder = Path(tempfile.mkdtemp(prefix="deep-bench-"))  # kept if the adapter cannot be made: its log is there
    process = CaseProcess(subject, system, limit_s, folder / "log")
    results: list[R] = []
    interrupted = False
    try:
        said = process.call("describe")
        for number, case in enumerate(cases):
            if progress is not None:
                progress(number, len(cases), case.name)
            results.append(run(process, case, said["known"]))
    except KeyboardInterrupt:
        if not results:
            raise
        interrupted = True
    finally:
        process.close()
    shutil.rmtree(folder)
    return said["facts"], results, interrupted
