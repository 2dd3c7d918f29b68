"""An adapter in a process of its own, so that a crash costs one case only."""

from __future__ import annotations

import difflib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from deep_bench.errors import DeepBenchError, InvalidArgument, WorkerDied
from deep_bench.measure.workers import Worker
from deep_bench.testing.case import Case

R = TypeVar("R")
Progress = Callable[[int, int, str], None]
_START_S = 120.0
_KEEP_EVERY_S = 5.0


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


def check_cases(cases: Sequence[Case], operators: Sequence[str], names: Sequence[str]) -> None:
    """Refuse operators that no case contains, and names that no case has.

    Raises:
        InvalidArgument: One of them, with the nearest that there is.
    """
    available = {"operator": {o for case in cases for o in case.operators}, "case": {case.name for case in cases}}
    for kind, requested in (("operator", operators), ("case", names)):
        for name in requested:
            if name not in available[kind]:
                near = difflib.get_close_matches(name, available[kind], n=1)
                advice = f"did you mean {near[0]!r}?" if near else "docs/coverage.md lists the operators"
                raise InvalidArgument(f"no case of these kinds has the {kind} {name!r}", f"one of their {kind}s", advice)


def run_cases(
    subject: str,
    system: str,
    cases: Sequence[Case],
    run: Callable[[CaseProcess, Case, Mapping[str, str]], R],
    *,
    limit_s: float,
    progress: Progress | None = None,
    keep: Callable[[dict[str, str], list[R]], None] | None = None,
) -> tuple[dict[str, str], list[R], bool]:
    """Run cases one after the other, and keep what is done when interrupted.

    Args:
        subject: Import path of the class that holds the adapter; its ``describe`` gives ``facts`` and ``known`` failures.
        system: The adapter with its options, as written on the command line.
        cases: In the order to run them.
        run: Runs one, given the adapter's known failures.
        limit_s: The most seconds a call may take.
        progress: Told how many cases are done, of how many, and the next one's name.
        keep: Given every few seconds what the adapter says of itself and the results until then, to be written down.

    Returns:
        What the adapter says of itself, the results, and whether it was interrupted.
    """
    folder = Path(tempfile.mkdtemp(prefix="deep-bench-"))
    process = CaseProcess(subject, system, limit_s, folder / "log")
    results: list[R] = []
    interrupted, kept_at = False, monotonic()
    try:
        description = process.call("describe")  # if the adapter cannot be made, the folder stays: its log is there
        for number, case in enumerate(cases):
            if progress is not None:
                progress(number, len(cases), case.name)
            results.append(run(process, case, description["known"]))
            if keep is not None and monotonic() - kept_at > _KEEP_EVERY_S:
                keep(description["facts"], results)
                kept_at = monotonic()
    except KeyboardInterrupt:
        interrupted = True
        if not results:
            shutil.rmtree(folder)
            raise
    finally:
        process.close()
    shutil.rmtree(folder)
    return description["facts"], results, interrupted
