"""What the process of a run does: once, from the first import of the framework to the last answer.

``Ledger`` has every sample that LoadGen issued and every answer, so that none is lost, doubled or made up; ``Watchdog``
ends the process when the run cannot come to its end any more. A pilot goes before the test: LoadGen makes its queries up
beforehand, from how fast the system is expected to be. No other file imports LoadGen (``mlperf_loadgen``).
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import repeat
from math import sqrt
from pathlib import Path
from threading import Event
from time import monotonic, perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.graph import Network
from deep_bench.mlperf.inference.settings import AUDITS, READY_STALLS, Conf, Line, Scenario, Settings, written
from deep_bench.mlperf.inference.system import EXPECTED, ExecutorSystem, Library, RunFailed, System, Work, make_work, note

if TYPE_CHECKING:
    from deep_bench.check import Verdict

NOT_ASKED, NO_CLASS = -1, -2
"""In the place of an answer: of a sample that was not asked for, and of one that was answered with something else."""


_REMEMBERED = 65_536
_CLASS = np.dtype("<i8")


class Ledger:
    """Stands between a system under test and LoadGen, which crashes on an answer that it does not wait for.

    Args:
        send: Hands answers to LoadGen: their ids, and the rows of an array.
        samples: In the library, where they are classified: the last answer to each is kept.

    Attributes:
        fault: The first fault, once there is one: then nothing is handed over any more.
        ended: Whether LoadGen has all it waits for.

    Example:
        >>> ledger = Ledger(lambda ids, rows: None)
        >>> ledger.issued([7, 8], [0, 3])
        >>> ledger.complete([8], np.zeros((1, 2)))
        >>> ledger.outstanding, ledger.complete([8], np.zeros((1, 2)))
        Traceback (most recent call last):
        ...
        deep_bench.mlperf.inference.system.RunFailed: the sample of id 8 was answered twice
        Expected: one answer to each sample that LoadGen issued
    """

    def __init__(self, send: Callable[[Sequence[int], NDArray[np.generic]], None], samples: int = 0) -> None:
        self.fault: BaseException | None = None
        self.ended = False
        self._send = send
        self._last = array("q", [NOT_ASKED]) * samples
        self._lock = threading.Lock()
        self._open: dict[int, int] = {}
        self._answered: deque[int] = deque(maxlen=_REMEMBERED)
        self._moved = monotonic()
        self._indices, self._queries = array("q"), array("q")
        self._issued_ns, self._done_ns = array("q"), array("q")
        self._query = 0

    @property
    def outstanding(self) -> int:
        """Samples that were issued and are not answered."""
        return len(self._open)

    @property
    def count(self) -> int:
        """Samples that were issued."""
        return len(self._indices)

    @property
    def idle_s(self) -> float:
        """Seconds since a sample was issued or answered, while some wait for an answer; else 0."""
        return monotonic() - self._moved if self._open else 0.0

    def issued(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Note the samples of a query, before the system has them.

        Args:
            ids: LoadGen's number of each.
            indices: Which sample of the library each is.
        """
        timestamp = perf_counter_ns()
        with self._lock:
            for place, number in enumerate(ids, len(self._indices)):
                self._open[number] = place
            self._indices.extend(indices)
            self._queries.extend([self._query] * len(ids))
            self._issued_ns.extend([timestamp] * len(ids))
            self._done_ns.extend([0] * len(ids))
            self._query += 1
            self._moved = monotonic()

    def complete(self, ids: Sequence[int], rows: NDArray[np.generic]) -> None:
        """Hand answers to LoadGen.

        Args:
            ids: LoadGen's number of each sample.
            rows: Their answers, one a row; contiguous. They are copied at once.

        Raises:
            RunFailed: An answer to nothing that waits for one, or there are not as many rows as ids.
        """
        if self.fault is not None:
            return
        timestamp = perf_counter_ns()
        if len(rows) != len(ids) or not rows.nbytes or rows.dtype.hasobject:
            self._fail(
                f"{len(rows)} answers of {rows.dtype} to {len(ids)} samples", "one answer, of some bytes, to each sample"
            )
        keeps_last = bool(self._last)
        with self._lock:
            for number, answer in zip(ids, _classes(rows) if keeps_last else repeat(NOT_ASKED), strict=False):
                place = self._open.pop(number, None)
                if place is None:
                    self._refuse(number)
                self._done_ns[place] = timestamp
                if keeps_last:
                    self._last[self._indices[place]] = answer
            self._answered.extend(ids)
            self._moved = monotonic()
        self._send(ids, rows)

    def failed(self, error: BaseException) -> None:
        """Note what went wrong; the first counts."""
        if self.fault is None:
            self.fault = error

    def answers(self) -> NDArray[np.int64]:
        """The class of the last answer to each sample of the library, or `NOT_ASKED`, or `NO_CLASS`."""
        with self._lock:
            return np.array(self._last, np.int64)

    def columns(self) -> dict[str, NDArray[np.int64]]:
        """What was noted of each sample, in the order of issue.

        Returns:
            ``index`` (of the library), ``query``, ``issued_ns`` and ``done_ns`` (0: never).
        """
        with self._lock:
            return {
                "index": np.array(self._indices, np.int64),
                "query": np.array(self._queries, np.int64),
                "issued_ns": np.array(self._issued_ns, np.int64),
                "done_ns": np.array(self._done_ns, np.int64),
            }

    def waiting(self, most: int = 3) -> list[int]:
        """Which samples of the library wait longest for an answer."""
        with self._lock:
            return [self._indices[place] for _, place in zip(range(most), self._open.values(), strict=False)]

    def _refuse(self, number: int) -> NoReturn:
        came = f"an answer to id {number}, which LoadGen never issued, or which was answered long ago"
        if self.ended:
            came = f"the sample of id {number} was answered after the end of the test"
        elif number in self._answered:
            came = f"the sample of id {number} was answered twice"
        self._fail(came, "one answer to each sample that LoadGen issued")

    def _fail(self, came: str, expected: str) -> NoReturn:
        error = RunFailed(came, expected)
        self.failed(error)
        raise error


def _classes(rows: NDArray[np.generic]) -> Iterable[int]:
    """Answers as the accuracy log of LoadGen would be read: 8 bytes, a whole number."""
    if rows.dtype == _CLASS and rows.ndim == 1:
        values = rows
    elif rows.nbytes == _CLASS.itemsize * len(rows):
        values = np.frombuffer(rows.tobytes(), _CLASS)
    else:
        return repeat(NO_CLASS, len(rows))
    return [answer if answer >= 0 else NO_CLASS for answer in values.tolist()]


EXIT_STATUS = 70
_LOOK_S = 0.1
_HELD_S = 15.0
"""After so much more than a stall, a call that never lets go of Python's lock is ended as well, by C: that prints `HELD`."""


HELD = "Timeout (0:"


class Watchdog:
    """Looks ten times a second, from a thread of its own.

    LoadGen cannot be stopped, and it crashes on exceptions: so the process is ended, after the reason is in a file.

    Args:
        folder: For the reason.
        ledger: Gives the ledger of now.
        stall: Seconds without an answer, or in one loading of samples.
    """

    def __init__(self, folder: Path, ledger: Callable[[], Ledger], stall: float) -> None:
        self._folder, self._ledger, self._stall = folder, ledger, stall
        self._system: System | None = None
        self._busy: tuple[str, float, float] | None = None
        self._over = threading.Event()
        self._ending = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begin, and take the exceptions of all threads for faults of the run."""
        threading.excepthook = lambda args: self.end(args.exc_value or RunFailed("a thread ended with an error"))
        self._thread.start()

    def watch(self, system: System | None) -> None:
        """Look after the threads of a system as well; ``None``: no more."""
        self._system = system

    def busy(self, what: str, stalls: float = 1.0) -> None:
        """Note that something begins which must not last longer than so many stalls."""
        self._busy = (what, monotonic(), stalls * self._stall)

    def free(self) -> None:
        """It ended."""
        self._busy = None

    def close(self) -> None:
        """The run came to its end."""
        self._over.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def end(self, error: BaseException) -> None:
        """Leave the reason in the folder, and end the process: does not return."""
        with self._ending:  # never let go of: the first reason counts
            note(self._folder, error)
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
            os._exit(EXIT_STATUS)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            faulthandler.dump_traceback_later(self._stall + _HELD_S, exit=True)
            if error := self._found():
                faulthandler.dump_traceback()
                self.end(error)

    def _found(self) -> BaseException | None:
        ledger = self._ledger()
        if ledger.fault is not None:
            return ledger.fault
        system = self._system
        for thread in system.threads if system else ():
            if thread.ident is not None and not thread.is_alive() and self._system is system:
                return RunFailed(f"the thread {thread.name} of the system ended", "threads that live until `stop`")
        if ledger.idle_s > self._stall:
            came = f"no answer for {self._stall:g} s, and {ledger.outstanding} of {ledger.count} samples wait for one"
            waiting = ", ".join(map(str, ledger.waiting()))
            expected = f"an answer to each (the longest wait: sample {waiting})"
            return RunFailed(
                came, expected, "an answer was lost, or the system hangs: see the stacks in the log, or --stall"
            )
        busy = self._busy
        if busy is not None and monotonic() - busy[1] > busy[2]:
            return RunFailed(f"{busy[0]} took more than {busy[2]:g} s", advice="see the stacks in the log; else --stall")
        return None


_BUDGET_S = 1.0
_FEWEST = 5
_LATENCY_SHARE, _RATE_SHARE, _SERVER_SHARE = 0.7, 1.3, 0.5
"""What LoadGen is told to expect, as a share of what the pilot saw.

A query is taken to last 0.7 times the shortest: LoadGen then prepares more than it can put, which costs nothing. Samples of
Offline are taken to be answered 1.3 times as fast as seen, at the geometric mean of the fastest query's rate and of all:
too high a rate lengthens the run, with too low a one it ends too early. Server is asked for half the rate at which single
samples are answered in turn.
"""


class Pilot:
    """Puts queries to a system and waits for their answers.

    Args:
        loaded: Indices of loaded samples.

    Attributes:
        ledger: What the system's answers go to meanwhile.
        query_s: Seconds of a query on average, once it was asked.
    """

    def __init__(self, loaded: Sequence[int]) -> None:
        self.ledger = Ledger(self._answered)
        self._loaded = list(loaded)
        self._next, self._left = 0, 0
        self._done = Event()
        self.query_s: float | None = None

    def expected(self, system: System, rules: Scenario, most_at_once: int) -> float:
        """What LoadGen is told to expect.

        Args:
            system: Ready for queries.
            rules: The scenario's.
            most_at_once: Samples that run together.

        Returns:
            Milliseconds of a query (SingleStream, MultiStream), or samples a second (Server, Offline).
        """
        size = rules.samples or 4 * most_at_once
        begin, times = perf_counter(), list[float]()
        while len(times) < _FEWEST or perf_counter() - begin < _BUDGET_S:
            ids = list(range(self._next, self._next + size))
            self._next += size
            self._left = size
            self._done.clear()
            start = perf_counter()
            indices = [self._loaded[number % len(self._loaded)] for number in ids]
            self.ledger.issued(ids, indices)
            system.issue(ids, indices)
            system.flush()
            self._done.wait()
            times.append(perf_counter() - start)
        mean = self.query_s = sum(times) / len(times)
        if rules.name == "Offline":
            return _RATE_SHARE * size / sqrt(min(times) * mean)
        return _SERVER_SHARE / mean if rules.name == "Server" else _LATENCY_SHARE * min(times) * 1e3

    def _answered(self, ids: Sequence[int], rows: NDArray[np.generic]) -> None:
        del rows
        self._left -= len(ids)
        if self._left <= 0:
            self._done.set()


def require() -> None:
    """See that LoadGen is installed.

    Raises:
        FrameworkMissing: It is not.
    """
    if find_spec("mlperf_loadgen") is None:
        raise FrameworkMissing(
            "LoadGen (mlperf_loadgen) is not installed", "MLPerf's own LoadGen", "pip install 'deep-bench[mlperf]'"
        )


def loadgen_version() -> str:
    """The version of the package."""
    return version("mlcommons-loadgen")


def sender() -> Callable[[Sequence[int], NDArray[np.generic]], None]:
    """What hands answers to LoadGen, which copies what it keeps.

    Returns:
        A function of the samples' ids and of an array with one row of bytes for each.
    """
    import mlperf_loadgen as lg

    answer, complete, first_byte = lg.QuerySampleResponse, lg.QuerySamplesComplete, ctypes.c_char.from_buffer

    def send(ids: Sequence[int], rows: NDArray[np.generic]) -> None:
        if not (rows.flags.c_contiguous and rows.flags.writeable):
            rows = rows.copy()
        start = ctypes.addressof(first_byte(rows.data))  # takes a fifth of what rows.ctypes.data does
        size = rows.nbytes // len(ids)
        complete([answer(number, start + place * size, size) for place, number in enumerate(ids)])

    return send


_MODES = {
    "performance": "PerformanceOnly",
    "accuracy": "AccuracyOnly",
    "submission": "SubmissionRun",
    "find-peak": "FindPeakPerformance",
}
_USER_CONF = 1


USER_CONF, AUDIT_CONF = "user.conf", "audit.config"
TRACED_SAMPLES = 1_000_000
_CHECKED = 8

P = ParamSpec("P")


class LoadgenRun:
    """One run under LoadGen: what a worker process holds.

    Args:
        network: A file with the network; its name without the suffix is the network's.
        framework: With its options.
        dataset: The set's name or path.
        root: The folder of data sets.
        settings: How.
        conf: What LoadGen reads.
        folder: For logs.
        system: Import path of a `System`; empty for an executor.
    """

    def __init__(
        self,
        network: str,
        framework: str,
        dataset: str,
        root: str | None,
        settings: Settings,
        conf: Conf,
        folder: str,
        system: str = "",
    ) -> None:
        self._settings, self._conf, self._folder = settings, conf, Path(folder)
        loaded = Network(ir.load(network), name=Path(network).stem)
        self._work = make_work(loaded, framework, dataset, settings, root)
        self._library = Library(self._work.dataset, loaded)
        self._system = _system(system, self._work)
        self._ledger = Ledger(sender(), len(self._library) if self._work.labels is not None else 0)
        self._watchdog = Watchdog(self._folder, lambda: self._ledger, settings.stall)

    def ready(self) -> dict[str, Any]:
        """Warm up, and let a pilot find out what LoadGen must know beforehand.

        Returns:
            ``pilot``: what it found, if it was asked; ``query_s``: what a query took, then.
        """
        self._watchdog.start()
        self._watchdog.watch(self._system)
        first = list(range(self._work.in_memory))
        pilot, test = Pilot(first), self._ledger
        self._ledger = pilot.ledger
        self._watchdog.busy("making the system ready", READY_STALLS)
        self._library.load(first)
        self._system.start(self._library, lambda ids, rows: self._ledger.complete(ids, rows))
        self._watchdog.free()
        estimate = None
        if self._conf.open is not None:
            rules = replace(self._settings.rules, samples=self._conf.of_query)
            estimate = pilot.expected(self._system, rules, self._settings.most_at_once)
            self._conf = self._conf.with_value(estimate)
        self._library.unload(first)
        self._ledger = test
        (self._folder / USER_CONF).write_text(written(self._conf.lines, "as LoadGen reads it"), encoding="utf-8")
        if self._settings.audit:
            lines = [Line("*", "*", key, value) for key, value in AUDITS[self._settings.audit].items()]
            text = written(lines, f"audit {self._settings.audit}")
            (self._folder / AUDIT_CONF).write_text(text, encoding="utf-8")
        return {"pilot": estimate, "query_s": pilot.query_s}

    def run(self) -> dict[str, Any]:
        """Once ready: run the test, and check the outputs.

        Returns:
            ``facts`` of the framework, ``forms``, ``columns`` (see `Ledger.columns`), ``answers`` (see `Ledger.answers`),
            ``traced``, ``verdict``.
        """
        traced = self._traced()
        self._run_test(traced)
        self._end()
        outcome = {"columns": self._ledger.columns(), "answers": self._ledger.answers(), "traced": traced}
        system = self._system
        if not isinstance(system, ExecutorSystem):
            return {**outcome, "facts": {}, "forms": None, "verdict": None}
        forms = system.runners[0].executor.forms
        return {**outcome, "facts": system.facts, "forms": forms, "verdict": self._judged(system)}

    def _traced(self) -> bool:
        """Whether LoadGen writes what happened to each sample: unless it would be very much."""
        if self._settings.mode == "find-peak":  # of many runs, and LoadGen does not say which of them its figures are of
            return False
        if self._settings.trace is not None:
            return self._settings.trace
        return self._conf.samples <= TRACED_SAMPLES

    def _run_test(self, trace: bool) -> None:
        """Run LoadGen, once in a process: the second reading of settings would skip its built-in ``mlperf.conf``.

        No callback may raise: an exception that reaches LoadGen is a segmentation fault. By default LoadGen looks for the
        settings of an audit in the working folder, where they silently override everything.
        """
        import mlperf_loadgen as lg

        settings, logs, output = lg.TestSettings(), lg.LogSettings(), lg.LogOutputSettings()
        scenario, mode = self._settings.scenario, getattr(lg.TestMode, _MODES[self._settings.mode])
        settings.scenario, settings.mode = getattr(lg.TestScenario, scenario), mode
        user_conf = self._folder / USER_CONF
        if status := settings.FromConfig(str(user_conf), self._work.model, scenario, _USER_CONF):
            expected = "lines of model.scenario.key = number"
            raise InvalidArgument(f"LoadGen cannot read {user_conf} (status {status})", expected)
        settings.mode = mode
        output.outdir, output.copy_summary_to_stdout = str(self._folder), False
        logs.log_output, logs.enable_trace = output, trace
        system = lg.ConstructSUT(self._issue, self._safe("flushing queries", self._system.flush))
        library = lg.ConstructQSL(
            len(self._library),
            self._work.in_memory,
            self._safe("loading samples", self._library.load, READY_STALLS),
            self._safe("unloading samples", self._library.unload, READY_STALLS),
        )
        try:
            lg.StartTestWithLogSettings(system, library, settings, logs, str(self._folder / AUDIT_CONF))
        finally:
            lg.DestroyQSL(library)
            lg.DestroySUT(system)
            sys.stdout.flush()

    def _issue(self, query: list[Any]) -> None:
        """The ledger looks after the answers, however long a query of many samples takes."""
        ids, indices = [sample.id for sample in query], [sample.index for sample in query]
        try:
            self._ledger.issued(ids, indices)
            self._system.issue(ids, indices)
        except BaseException as error:
            self._watchdog.end(error)

    def _safe(self, activity: str, call: Callable[P, None], stalls: float = 1.0) -> Callable[P, None]:
        """A callback out of which no exception comes: LoadGen would crash."""

        @wraps(call)
        def called(*args: P.args, **options: P.kwargs) -> None:
            self._watchdog.busy(activity, stalls)
            try:
                call(*args, **options)
            except BaseException as error:
                self._watchdog.end(error)
            self._watchdog.free()

        return called

    def _end(self) -> None:
        """LoadGen has all it waited for: whatever is answered now is a fault."""
        self._ledger.ended = True
        self._watchdog.watch(None)
        self._watchdog.busy("stopping the system")
        self._system.stop()
        self._watchdog.close()
        if self._ledger.fault is not None:
            raise self._ledger.fault

    def _judged(self, system: ExecutorSystem) -> Verdict | None:
        """Whether the outputs of the executor that was tested are right, on some samples."""
        from deep_bench.check import InProcessSubject, establish, judge

        work, effort = self._work, self._settings.check
        if effort == "off" or system.adapter is None:
            return None
        count = system.sizes[0] if work.fixed_batch else min(_CHECKED, work.in_memory)
        numbers = np.arange(count) % len(work.dataset)
        batch = work.dataset[numbers]
        inputs = {spec.name: batch[spec.name] for spec in work.network.inputs}
        subject = InProcessSubject(system.adapter, work.network, inputs)
        subject.executor = system.runners[0].executor
        return judge(establish(work.network, inputs, effort), subject)


def _system(path: str, work: Work) -> System:
    """The system under test: an executor, or what an import path names."""
    if not path:
        return ExecutorSystem(work)
    module, _, name = path.partition(":")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"system {path!r}: {error}", EXPECTED) from error
    if not (isinstance(kind, type) and issubclass(kind, System)):
        raise InvalidArgument(f"system {path!r} is {kind!r}", "a subclass of deep_bench.mlperf.inference.System")
    system: System = kind(work)  # type: ignore[call-arg]
    return system
