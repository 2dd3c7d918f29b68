"""Each system under test in a process of its own, which can be stopped while others are timed, and may die alone."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_bench.errors import DeepBenchError, InvalidArgument, WorkerDied, WorkerError
from deep_bench.measure.capped_log import CappedLog
from deep_bench.measure.death import cause, oom_kills
from deep_bench.measure.timing import Block
from deep_bench.measure.warmup import WarmUp

if TYPE_CHECKING:
    from deep_bench.measure.metric import Metric, MetricRecord

_LOG_TAIL_BYTES = 4_000
_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 0.5
"""After so long the length of a log is looked at while its process works: seldom, so as not to disturb what is timed."""
_LINES_TOLD = 3
_DUMP = "Fatal Python error"


class Worker:
    """A process that holds one system under test.

    It ignores Ctrl-C (the parent decides), and dies with the thread that started it, even while it is stopped. What
    it prints goes to a log file, of which begin and end are kept if it is long. Processes that it starts are stopped and
    ended with it.

    Args:
        factory: Import path of what makes the system, ``"package.module:attribute"``.
        arguments: Keyword arguments for it; they are pickled.
        label: What to call it in messages.
        log: The file that its standard output and error are appended to.
        environment: Environment variables to set; None removes one.
        python: The interpreter, of this or another environment that has deep_bench.
        path: Folders to put in front of its ``sys.path``; this interpreter's own path is handed down anyway.
        memory_limit: The most data it may allocate (``RLIMIT_DATA``), in bytes.
        limit_s: The most seconds a request may take, making the system included; then the process is killed. None waits.

    Raises:
        InvalidArgument: The log cannot be written, the interpreter not started, or the factory not found.
        WorkerError: The factory failed.
        WorkerDied: The process ended.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Worker("collections:Counter", {"a": 2}, log=Path(folder) / "log") as worker:
        ...         worker.call("total")
        2
    """

    def __init__(
        self,
        factory: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        log: Path,
        label: str = "",
        environment: Mapping[str, str | None] | None = None,
        python: str = sys.executable,
        path: Sequence[str | Path] = (),
        memory_limit: int | None = None,
        limit_s: float | None = None,
    ) -> None:
        self.label = label or factory
        self.log = Path(log)
        self.memory_limit = memory_limit
        self.limit_s = limit_s
        self.facts: dict[str, Any] = {}
        self._request: str | None = None
        self._closed = False
        self._oom_kills = oom_kills()
        self._process, self._connection, self._capped = self._start(python, _environment(environment or {}, python, path))
        self._pidfd = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
        try:
            self.facts = self._ask("build", factory, dict(arguments or {}))
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Run a method of the system there, and return its result.

        Raises:
            DeepBenchError: The very one that the method raised, with that process's traceback as a note.
            WorkerError: It raised anything else; ``details`` holds the traceback.
            WorkerDied: The process ended.
        """
        return self._ask(method, *args, **options)

    def prepare(self) -> dict[str, Any]:
        """See `deep_bench.measure.system.Host.prepare`."""
        return self._ask(".prepare")

    def load(self, *problem: Any) -> dict[str, Any]:
        """See `deep_bench.measure.system.Host.load`."""
        return self._ask(".load", *problem)

    def warm_up(self, name: str, **options: Any) -> WarmUp:
        """See `deep_bench.measure.warmup.warm_up`."""
        return self._ask(".warm_up", name, **options)

    def sample(self, name: str, min_ns: int = 50_000_000, min_calls: int = 10, max_ns: int | None = None) -> Block:
        """Take one block of samples there; only the result crosses. See `deep_bench.measure.system.Host.sample`."""
        return self._ask(".sample", name, min_ns, min_calls, max_ns)

    def collect(self, name: str, metrics: Sequence[str | Callable[[], Metric]], calls: int = 10) -> list[MetricRecord]:
        """Let metrics watch a call there; see `deep_bench.measure.system.Host.collect`. Functions must survive pickling."""
        return self._ask(".collect", name, list(metrics), calls)

    def process_facts(self) -> dict[str, Any]:
        """Process number, CPUs it may use, and peak memory until now."""
        return self._ask(".facts")

    def pause(self) -> None:
        """Stop the process and all it has started; returns once its every thread stands still.

        Raises:
            WorkerDied: The process ended.
        """
        self._signal(signal.SIGSTOP)
        state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if state is None or state.si_code != os.CLD_STOPPED:
            raise self._death()

    def resume(self) -> None:
        """Let the process run on.

        Raises:
            WorkerDied: The process ended.
        """
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process, and all that it has started; harmless when it has ended already."""
        if self._closed:
            return
        self._closed = True
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGCONT)
        self._connection.close()
        try:
            if self._request is None and self._process.returncode is None:
                self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            pass  # it does not end on its own: killed below
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            self._capped.close()
            if self._pidfd is not None:
                os.close(self._pidfd)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, python: str, environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], Connection, CappedLog]:
        ours, theirs = socket.socketpair()
        program = [python, "-P", "-m", "deep_bench.measure.worker"]
        numbers = [str(theirs.fileno()), str(os.getpid()), str(self.memory_limit or 0)]
        with theirs, ExitStack() as failing:
            failing.callback(ours.close)
            try:
                log = failing.enter_context(CappedLog(self.log))
                process = subprocess.Popen(
                    [*program, *numbers],
                    stdin=subprocess.DEVNULL,
                    stdout=log.file,
                    stderr=log.file,
                    pass_fds=[theirs.fileno()],
                    env=environment,
                    process_group=0,
                )
            except OSError as error:
                raise InvalidArgument(
                    f"{self.label}: cannot start a worker: {error}",
                    "a log file that can be written, and a Python interpreter",
                ) from error
            failing.pop_all()
        return process, Connection(ours.detach()), log

    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        if self._closed:
            raise WorkerError(f"{self.label}: its worker was closed", advice="start a new one")
        if self._process.returncode is not None:
            raise self._death()
        if self._request is not None:
            raise WorkerError(f"{self.label}: was interrupted during {self._request!r}", advice="start a new worker")
        message = pickle.dumps((method, args, options))
        self._request = method  # stays set when this is interrupted: the answer would be taken for another's
        try:
            self._connection.send_bytes(message)
            ready = self._wait()
            if not ready:
                raise self._overrun()
            if self._connection not in ready:
                raise EOFError
            answer = self._connection.recv_bytes()
        except (EOFError, ConnectionError) as error:
            raise self._death() from error
        self._request = None
        return self._result(method, answer)

    def _wait(self) -> list[Any]:
        """What of connection and process has news within the limit; until then the log is looked at now and then."""
        sources: list[Any] = [self._connection, *([self._pidfd] if self._pidfd is not None else [])]
        end = None if self.limit_s is None else time.monotonic() + self.limit_s
        look = _FIRST_LOOK_S
        while True:
            left = None if end is None else max(end - time.monotonic(), 0)
            ready = wait(sources, look if left is None else min(left, look))
            look = _FIRST_LOOK_S if self._capped.trim() else min(2 * look, _LAST_LOOK_S)
            if ready or left == 0:
                return ready

    def _result(self, method: str, answer: bytes) -> Any:
        kind, *content = _loads(answer) or (None,)
        if kind == "result":
            return content[0]
        if kind is None:
            raise WorkerError(f"{self.label}: the result of {method!r} cannot be read here", advice="return plain data")
        pickled, line, details, memory = content
        original = _loads(pickled) if pickled is not None else None
        if isinstance(original, DeepBenchError):
            original.add_note(f"In the process of {self.label}:\n{details}")
            raise original
        what = "ran out of memory in" if memory else "failed in"
        failure = WorkerError(f"{self.label}: {what} {method.removeprefix('.')!r}: {line}", advice=f"its log is {self.log}")
        failure.details = details
        raise failure

    def _signal(self, number: signal.Signals) -> None:
        if self._closed or self._process.returncode is not None:
            raise self._death()
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError as error:
            raise self._death() from error

    def _overrun(self) -> WorkerDied:
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        return WorkerDied(f"{self.label}: took more than {self.limit_s:g} s", advice=f"its log is {self.log}")

    def _death(self) -> WorkerDied:
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:  # it closed its socket and lives on: of no use any more
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        doing = f" during {self._request.removeprefix('.')!r}" if self._request else ""
        why = cause(self._process.returncode, self._oom_kills)
        failure = WorkerDied(f"{self.label}: its process {why}{doing}", advice=f"its log is {self.log}")
        self._capped.trim()
        failure.details = _tail(self.log)
        return failure


def told(error: DeepBenchError, label: str) -> str:
    """What an error says of a system whose label stands before it, and whose log will be gone: its last lines go along.

    Args:
        error: Of a worker, or raised in it.
        label: The system's.

    Example:
        >>> died = WorkerDied("torch: its process crashed (SIGSEGV)", advice="its log is /tmp/log")
        >>> died.details = "cannot divide by nothing"
        >>> told(died, "torch")
        'its process crashed (SIGSEGV); its log ends: cannot divide by nothing'
    """
    if not isinstance(error, WorkerError):
        return str(error)
    came = error.came.removeprefix(f"{label}: ")
    if not isinstance(error, WorkerDied):
        return came
    own = error.details.partition(_DUMP)[0]  # what the framework wrote; the rest is Python's, of its own stack
    lines = [line.strip() for line in own.splitlines() if line.strip()][-_LINES_TOLD:]
    return f"{came}; its log ends: {' | '.join(lines)}" if lines else came


def _environment(changes: Mapping[str, str | None], python: str, path: Sequence[str | Path]) -> dict[str, str]:
    handed_down = [entry or os.getcwd() for entry in sys.path] if python == sys.executable else []
    before = os.environ.get("PYTHONPATH")
    folders = [*map(str, path), *handed_down, *([before] if before else [])]
    merged = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **changes}
    return {name: value for name, value in merged.items() if value is not None and (name != "PYTHONPATH" or value)}


def _loads(pickled: bytes) -> Any:
    """What was pickled, or None when its class cannot be had here."""
    try:
        return pickle.loads(pickled)
    except Exception:  # unpickling runs other people's code, which may raise anything
        return None


def _tail(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES, 0))
            return file.read().decode(errors="replace")
    except OSError as error:
        return f"(its log cannot be read: {error})"
