"""Several systems under test, each made ready in its own worker; those that fail are set aside with their error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported, WorkerDied, WorkerError, shortened
from deep_bench.workers.host import Host, build
from deep_bench.workers.process import SystemHandle, Translate, Worker
from deep_bench.workers.remote import Place
from deep_bench.workers.worker import LINE_CHARACTERS, perform

TWIN = " (A/A)"


@dataclass(frozen=True)
class Contender:
    """A system under test, before it is started.

    Args:
        label: Its name in the report.
        factory: Import path of what makes the system, ``"package.module:attribute"``.
        arguments: Keyword arguments for it, such that they can be pickled; plain data for another Python environment.
        environment: Environment variables for its process; None removes one.
        place: The Python environment to run it in; by default this one.
        path: Folders to put in front of its ``sys.path``.
        memory_limit: The most data it may allocate, in bytes.
        limit_s: The most seconds that anything asked of it may take; then its process is killed. None waits.
        twin_of: The label of the contender that it is an A/A twin of: the same, started a second time.
        translate: What the arguments of its methods are turned into before they are sent.
    """

    label: str
    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    place: Place | None = None
    path: tuple[str | Path, ...] = ()
    memory_limit: int | None = None
    limit_s: float | None = None
    twin_of: str | None = None
    translate: Translate | None = None

    def twin(self) -> Contender:
        """The same system once more, under another label: what the two differ by is what the measurement cannot tell."""
        return replace(self, label=self.label + TWIN, twin_of=self.label)


class StartedSystems(Protocol):
    """What a measurement needs of several started systems: a `Fleet`, or a part of one."""

    in_process: bool
    runners: dict[str, SystemHandle]
    prepared: dict[str, dict[str, Any]]
    failures: dict[str, DeepBenchError]

    def call(self, label: str, method: str, *args: Any, **options: Any) -> Any: ...
    def awake(self, label: str, action: Callable[[SystemHandle], Any]) -> Any: ...
    def set_aside(self, label: str, error: DeepBenchError) -> None: ...


class Local(SystemHandle):
    """A system in this very process, for a debugger: nothing keeps it from disturbing the others, or from being disturbed.

    Args:
        contender: Its environment variables, path and limits are not used.

    Raises:
        Unsupported: It belongs to another Python environment.
    """

    def __init__(self, contender: Contender) -> None:
        self.label = contender.label
        if contender.place is not None:
            raise Unsupported(f"{self.label} in this process", "a process in the environment that it names")
        self._host: Host | None = None
        self._host = Host(self._ask("build", contender.factory, contender.arguments))

    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        try:
            return build(*args) if self._host is None else perform(self._host, method, args, options)
        except DeepBenchError:
            raise
        except Exception as error:
            message = shortened(f"{type(error).__name__}: {error}", LINE_CHARACTERS)
            raise WorkerError(f"{self.label}: failed in {method.removeprefix('.')!r}: {message}") from error


class Fleet:
    """Contenders that were started and prepared one after the other, each stopped while it has nothing to do.

    Use it as a context manager, so that no process is left behind.

    Args:
        contenders: The systems; their labels differ.
        logs: The folder for one log file per system; it must exist.
        in_process: Start no processes (`Local`).
        starting: Told of each label before it is started.

    Attributes:
        runners: Label to started system, those that failed left out.
        prepared: Label to what `deep_bench.workers.host.Host.prepare` said.
        failures: Label to error.
        contenders: Label to contender.

    Raises:
        InvalidArgument: Two contenders have the same label.
    """

    def __init__(
        self,
        contenders: Sequence[Contender],
        logs: Path,
        *,
        in_process: bool = False,
        starting: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.contenders = {c.label: c for c in contenders}
        if len(self.contenders) < len(contenders):
            raise InvalidArgument(f"labels {[c.label for c in contenders]}", "each one once", "give them other labels")
        self.in_process = in_process
        self._logs = Path(logs)
        self.runners: dict[str, SystemHandle] = {}
        self.prepared: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, DeepBenchError] = {}
        try:
            for contender in contenders:
                starting(contender.label)
                self._start(contender)
        except BaseException:
            self.close()
            raise

    def call(self, label: str, method: str, *args: Any, **options: Any) -> Any:
        """Wake one system up, run one of its methods, and stop it again.

        Raises:
            DeepBenchError: As in `Worker.call`; if its process died, it is also set aside in ``failures``.
        """
        return self.awake(label, lambda runner: runner.call(method, *args, **options))

    def awake(self, label: str, action: Callable[[SystemHandle], Any]) -> Any:
        """Do something with one system while only that one runs."""
        if label not in self.runners:
            raise self.failures.get(label) or InvalidArgument(f"no system {label!r}", f"one of {', '.join(self.contenders)}")
        runner = self.runners[label]
        runner.resume()
        try:
            result = action(runner)
        except WorkerDied:  # how it ended is said: stopping it would only fail again, and say less
            raise
        except Exception:
            runner.pause()
            raise
        except BaseException:  # an interrupt goes on, though the same signal may have ended the process
            with suppress(WorkerDied):
                runner.pause()
            raise
        runner.pause()
        return result

    def restart(self, label: str) -> None:
        """End one system, if it still runs, and start it afresh; what became of it before is forgotten."""
        if runner := self.runners.pop(label, None):
            runner.close()
        self.failures.pop(label, None)
        self._start(self.contenders[label])

    def set_aside(self, label: str, error: DeepBenchError) -> None:
        """End a system that failed, and remember why."""
        self.failures[label] = error
        if runner := self.runners.pop(label, None):
            runner.close()

    def close(self) -> None:
        """End all processes."""
        for runner in self.runners.values():
            runner.close()
        self.runners.clear()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, contender: Contender) -> None:
        label = contender.label
        try:
            self.runners[label] = runner = Local(contender) if self.in_process else _worker(contender, self._logs)
            self.prepared[label] = runner.prepare()
            runner.pause()
        except DeepBenchError as error:
            self.set_aside(label, error)


def place_facts(prepared: Mapping[str, Any]) -> dict[str, Any]:
    """What a record keeps of the Python environment of a system, by what preparing it said; nothing of this one."""
    return {"environment": prepared["place"]} if "place" in prepared else {}


def _worker(contender: Contender, logs: Path) -> Worker:
    return Worker(
        contender.factory,
        contender.arguments,
        label=contender.label,
        log=logs / (re.sub(r"[^\w.=-]+", "_", contender.label).strip("_") + ".log"),
        environment=contender.environment,
        place=contender.place,
        path=contender.path,
        memory_limit=contender.memory_limit,
        limit_s=contender.limit_s,
        translate=contender.translate,
    )
