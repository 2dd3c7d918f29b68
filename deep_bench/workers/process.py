"""Each system under test in a process of its own, which can be stopped while others are timed, and may die alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_bench.errors import DeepBenchError, InvalidArgument, WorkerDied, WorkerError
from deep_bench.measure.timing import Block, WarmUp
from deep_bench.workers.evidence import CappedLog, cause, oom_kills
from deep_bench.workers.remote import Place, greeted
from deep_bench.workers.wire import Channel, Pickles, Wire

if TYPE_CHECKING:
    from deep_bench.measure.metrics import Metric, MetricRecord

_LOG_TAIL_BYTES = 4_000
_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 0.5
"""After so long the length of a log is looked at while its process works: seldom, so as not to disturb what is timed."""


_LOG_LINES_SHOWN = 3
_DUMP = "Fatal Python error"
_LONGEST_GREETING_S = 120.0
Translate = Callable[[str, tuple[Any, ...]], tuple[Any, ...]]
"""What becomes of a request's arguments before it is sent, by the name of its method."""


class SystemHandle:
    """A started system: `Worker`, or `deep_bench.workers.fleet.Local` in this process."""

    label: str

    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        """Let the host do something, if the method starts with a dot, else the system; see the worker's `perform`."""
        raise NotImplementedError

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Run a method of the system there, and return its result.

        Raises:
            DeepBenchError: The very one that the method raised, with that process's traceback as a note.
            WorkerError: It raised anything else; ``details`` holds the traceback.
            WorkerDied: The process ended.
        """
        return self._ask(method, *args, **options)

    def prepare(self) -> dict[str, Any]:
        """See `deep_bench.workers.host.Host.prepare`."""
        return self._ask(".prepare")

    def load(self, *problem: Any) -> dict[str, Any]:
        """See `deep_bench.workers.host.Host.load`."""
        return self._ask(".load", *problem)

    def warm_up(self, name: str, **options: Any) -> WarmUp:
        """See `deep_bench.measure.timing.warm_up`."""
        return self._ask(".warm_up", name, **options)

    def sample(self, name: str, min_ns: int = 50_000_000, min_calls: int = 10, max_ns: int | None = None) -> Block:
        """Take one block of samples there; only the result crosses. See `deep_bench.workers.host.Host.sample`."""
        return self._ask(".sample", name, min_ns, min_calls, max_ns)

    def collect(self, name: str, metrics: Sequence[str | Callable[[], Metric]], calls: int = 10) -> list[MetricRecord]:
        """Let metrics watch a call there; see `deep_bench.workers.host.Host.collect`. Functions must survive pickling."""
        return self._ask(".collect", name, list(metrics), calls)

    def process_facts(self) -> dict[str, Any]:
        """Process number, CPUs it may use, and peak memory until now."""
        return self._ask(".facts")

    def pause(self) -> None:
        """Stop its process, if it has one."""

    def resume(self) -> None:
        """Let its process run on."""

    def close(self) -> None:
        """End its process."""


class Worker(SystemHandle):
    """A process that holds one system under test.

    It ignores Ctrl-C (the parent decides), and dies with the thread that started it, even while it is stopped. What
    it prints goes to a log file, of which begin and end are kept if it is long. Processes that it starts are stopped and
    ended with it. A lasting one is started when it is first needed, and anew when something has ended it: a crash, a
    request that takes too long, Ctrl-C.

    Args:
        factory: Import path of what makes the system, ``"package.module:attribute"``.
        arguments: Keyword arguments for it; they are pickled, but for another environment, where they are plain data.
        label: What to call it in messages.
        log: The file that its standard output and error are appended to; by default one in a folder of its own, which is
            removed with the worker, so that the error of a lasting one says how the log ends.
        environment: Environment variables to set; None removes one.
        place: The environment that it runs in; by default this one.
        path: Folders to put in front of its ``sys.path``; in this environment its own path is handed down anyway.
        memory_limit: The most data it may allocate (``RLIMIT_DATA``), in bytes.
        limit_s: The most seconds a request may take; then the process is killed. None waits.
        start_limit_s: The most that making the system may take; by default ``limit_s``.
        translate: What arguments are turned into before they are sent.
        lasting: Whether it is started when needed, and anew.

    Attributes:
        folder: Where its log is.
        starts: How many times a process was started.
        deaths: How many times one ended on its own.

    Raises:
        InvalidArgument: The log cannot be written, the interpreter not started, or the factory not found; or the other
            environment lacks something (`deep_bench.workers.remote.Place.agreed`).
        Unsupported: The other environment speaks another version of the protocol.
        WorkerError: The factory failed.
        WorkerDied: The process ended.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Worker("collections:Counter", {"a": 2}, log=Path(folder) / "log") as worker:
        ...         worker.call("total")
        2
        >>> with Worker("collections:Counter", {"a": 2}, lasting=True) as worker:
        ...     worker.call("total"), worker.starts, worker.deaths
        (2, 1, 0)
    """

    def __init__(
        self,
        factory: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        log: Path | None = None,
        label: str = "",
        environment: Mapping[str, str | None] | None = None,
        place: Place | None = None,
        path: Sequence[str | Path] = (),
        memory_limit: int | None = None,
        limit_s: float | None = None,
        start_limit_s: float | None = None,
        translate: Translate | None = None,
        lasting: bool = False,
    ) -> None:
        self.label = label or factory
        own_folder = tempfile.TemporaryDirectory(prefix="deep_bench_", ignore_cleanup_errors=True) if log is None else None
        self.log = Path(own_folder.name) / "log" if own_folder is not None else Path(log or "")
        self.folder, self._own_folder = self.log.parent, own_folder
        self.memory_limit, self.limit_s, self.start_limit_s = memory_limit, limit_s, start_limit_s
        self.lasting, self.starts, self.deaths = lasting, 0, 0
        self.facts: dict[str, Any] = {}
        self.place_facts: dict[str, Any] = {}
        self._factory, self._arguments = factory, dict(arguments or {})
        self._variables, self._place, self._path, self._translate = dict(environment or {}), place, path, translate
        self._request: str | None = None
        self._closed = self._running = False
        if not lasting:
            self.start()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def start(self) -> None:
        """Start the process of a lasting worker, if there is none.

        Raises:
            DeepBenchError, WorkerError: The system cannot be made.
            WorkerDied: The process ended.
        """
        if self._closed:
            advice = "ask inside of the `with` statement" if self.lasting else "start a new one"
            raise WorkerError(f"{self.label}: its worker was closed", advice=advice)
        if self._running:
            return
        with self._lasts():
            self._request = None
            self._oom_kills = oom_kills()
            self._process, end, self._capped = self._spawned(_environment(self._variables, self._place, self._path))
            self._channel: Channel = Pickles(Connection(end.detach())) if self._place is None else Wire(end)
            self._pidfd = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
            self._running = True
            self.starts += 1
            limit, self.limit_s = self.limit_s, self.start_limit_s or self.limit_s
            try:
                if self._place is not None:
                    self._request = "starting"
                    try:
                        report = greeted(end, self.label, self.limit_s or _LONGEST_GREETING_S)
                    except TimeoutError as error:
                        raise self._overrun() from error
                    except (EOFError, ConnectionError) as error:
                        raise self._death() from error
                    self._request = None
                    self.place_facts = self._place.agreed(report, self.pid, self.label)
                self.facts = self._answer("build", self._factory, self._arguments)
            except BaseException:
                self._end()
                self._closed = not self.lasting
                raise
            finally:
                self.limit_s = limit

    def prepare(self) -> dict[str, Any]:
        """See `deep_bench.workers.host.Host.prepare`; of another environment its facts are there too, as ``place``."""
        return {**super().prepare(), **({"place": self.place_facts} if self._place is not None else {})}

    def pause(self) -> None:
        """Stop the process, if there is one, and all it has started; returns once its every thread stands still.

        Raises:
            WorkerDied: The process ended.
        """
        if self.lasting and not self._running:
            return
        with self._lasts():
            self._signal(signal.SIGSTOP)
            state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if state is None or state.si_code != os.CLD_STOPPED:
                raise self._death()

    def resume(self) -> None:
        """Let the process run on; a lasting worker starts one if there is none.

        Raises:
            WorkerDied: The process ended.
        """
        if self.lasting:
            self.start()
        with self._lasts():
            self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process for good, and all that it has started; harmless when it has ended already."""
        self._closed = True
        self._end()
        if self._own_folder is not None:
            self._own_folder.cleanup()

    def _end(self) -> None:
        if not self._running:
            return
        self._running = False
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGCONT)
        self._channel.close()
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

    def _spawned(self, environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], socket.socket, CappedLog]:
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as failing:
            failing.callback(ours.close)
            if self._place is None:
                numbers = [str(theirs.fileno()), str(os.getpid()), str(self.memory_limit or 0)]
                program = [sys.executable, "-P", "-m", "deep_bench.workers.worker", *numbers]
            else:
                program = self._place.program(self.memory_limit or 0)
            try:
                log = failing.enter_context(CappedLog(self.log))
                process = subprocess.Popen(
                    program,
                    stdin=subprocess.DEVNULL if self._place is None else theirs.fileno(),
                    stdout=log.file,
                    stderr=log.file,
                    pass_fds=[theirs.fileno()] if self._place is None else [],
                    env=environment,
                    process_group=0,
                )
            except OSError as error:
                raise InvalidArgument(
                    f"{self.label}: cannot start a worker: {error}",
                    "a log file that can be written, and a Python interpreter",
                ) from error
            failing.pop_all()
        return process, ours, log

    @contextmanager
    def _lasts(self) -> Iterator[None]:
        """Let a lasting worker go without a process that has ended, or whose answer nobody waits for any more."""
        try:
            yield
        except WorkerDied as error:
            if not self.lasting:
                raise
            self.deaths += 1
            self._end()
            if self._own_folder is None:
                raise
            raise with_details(WorkerDied(f"{self.label}: {failure_text(error, self.label)}"), error) from error
        except KeyboardInterrupt:
            if self.lasting:
                self._end()  # the answer to come would be taken for another's
            raise

    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        self.start()
        with self._lasts():
            return self._answer(method, *args, **options)

    def _answer(self, method: str, *args: Any, **options: Any) -> Any:
        if self._process.returncode is not None:
            raise self._death()
        if self._request is not None:
            raise WorkerError(f"{self.label}: was interrupted during {self._request!r}", advice="start a new worker")
        arguments = args if self._translate is None else self._translate(method, args)
        message = self._channel.encode((method, arguments, options))
        self._request = method  # stays set when this is interrupted: the answer would be taken for another's
        try:
            self._channel.write(message)
            ready = self._wait()
            if not ready:
                raise self._overrun()
            if self._channel not in ready:
                raise EOFError
            answer = self._channel.read()
        except (EOFError, ConnectionError) as error:
            raise self._death() from error
        self._request = None
        return self._result(method, answer)

    def _wait(self) -> list[Any]:
        """What of connection and process has news within the limit; until then the log is looked at now and then."""
        sources: list[Any] = [self._channel, *([self._pidfd] if self._pidfd is not None else [])]
        end = None if self.limit_s is None else time.monotonic() + self.limit_s
        look = _FIRST_LOOK_S
        while True:
            remaining = None if end is None else max(end - time.monotonic(), 0)
            ready = wait(sources, look if remaining is None else min(remaining, look))
            look = _FIRST_LOOK_S if self._capped.trim() else min(2 * look, _LAST_LOOK_S)
            if ready or remaining == 0:
                return ready

    def _result(self, method: str, answer: Any) -> Any:
        try:
            kind, *content = self._channel.decode(answer)
        except Exception as error:  # unpickling runs other people's code, which may raise anything
            raise WorkerError(
                f"{self.label}: the result of {method!r} cannot be read here", advice="return plain data"
            ) from error
        if kind == "result":
            return content[0]
        sent, line, details, memory = content
        original = self._channel.original(sent)
        if original is not None:
            original.add_note(f"In the process of {self.label}:\n{details}")
            raise original
        outcome = "ran out of memory in" if memory else "failed in"
        failure = WorkerError(
            f"{self.label}: {outcome} {method.removeprefix('.')!r}: {line}", advice=f"its log is {self.log}"
        )
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
        reason = cause(self._process.returncode, self._oom_kills)
        failure = WorkerDied(f"{self.label}: its process {reason}{doing}", advice=f"its log is {self.log}")
        self._capped.trim()
        failure.details = _tail(self.log)
        return failure


def failure_text(error: DeepBenchError, label: str) -> str:
    """What an error says of a system whose label stands before it, and whose log will be gone: its last lines go along.

    Args:
        error: Of a worker, or raised in it.
        label: The system's.

    Example:
        >>> died = WorkerDied("torch: its process crashed (SIGSEGV)", advice="its log is /tmp/log")
        >>> died.details = "cannot divide by nothing"
        >>> failure_text(died, "torch")
        'its process crashed (SIGSEGV); its log ends: cannot divide by nothing'
    """
    if not isinstance(error, WorkerError):
        return str(error)
    came = error.came.removeprefix(f"{label}: ")
    if not isinstance(error, WorkerDied):
        return came
    output = error.details.partition(_DUMP)[0]  # what the framework wrote; the rest is Python's, of its own stack
    lines = [line.strip() for line in output.splitlines() if line.strip()][-_LOG_LINES_SHOWN:]
    return f"{came}; its log ends: {' | '.join(lines)}" if lines else came


def _environment(changes: Mapping[str, str | None], place: Place | None, path: Sequence[str | Path]) -> dict[str, str]:
    if place is not None:
        return place.environment(changes, os.pathsep.join(map(str, path)))
    before = os.environ.get("PYTHONPATH")
    folders = [*map(str, path), *(entry or os.getcwd() for entry in sys.path), *([before] if before else [])]
    merged = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **changes}
    return {name: value for name, value in merged.items() if value is not None and (name != "PYTHONPATH" or value)}


def _tail(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES, 0))
            return file.read().decode(errors="replace")
    except OSError as error:
        return f"(its log cannot be read: {error})"


def with_details(error: WorkerError, earlier: WorkerError) -> WorkerError:
    """An error with the details of the one that it stands for."""
    error.details = earlier.details
    return error
