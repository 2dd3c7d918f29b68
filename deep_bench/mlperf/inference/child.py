"""What the process of a run does: once, from the first import of the framework to the last answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network
from deep_bench.mlperf.inference import loadgen
from deep_bench.mlperf.inference.conf import AUDITS, Line, written
from deep_bench.mlperf.inference.executing import ExecutorSystem
from deep_bench.mlperf.inference.ledger import Ledger
from deep_bench.mlperf.inference.library import Library
from deep_bench.mlperf.inference.pilot import Pilot
from deep_bench.mlperf.inference.settings import READY_STALLS, Conf, Settings
from deep_bench.mlperf.inference.system import EXPECTED, System
from deep_bench.mlperf.inference.watchdog import Watchdog
from deep_bench.mlperf.inference.workload import Work, make_work

if TYPE_CHECKING:
    from deep_bench.check import Verdict

USER_CONF, AUDIT_CONF = "user.conf", "audit.config"
TRACED_SAMPLES = 1_000_000
_CHECKED = 8

P = ParamSpec("P")


class Run:
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
        self._query_s: float | None = None
        self._work = make_work(loaded, framework, dataset, settings, root)
        self._library = Library(self._work.dataset, loaded)
        self._system = _system(system, self._work)
        self._ledger = Ledger(loadgen.sender(), len(self._library) if self._work.labels is not None else 0)
        self._watchdog = Watchdog(self._folder, lambda: self._ledger, settings.stall)

    def ready(self) -> dict[str, Any]:
        """Warm up, and let a pilot find out what LoadGen must know beforehand.

        Returns:
            ``pilot``: what it found, if it was asked; ``query_s``: what a query took, then.
        """
        self._watchdog.start()
        self._watchdog.watch(self._system)
        piloted = self._make_ready()
        self._write_settings()
        return {"pilot": piloted, "query_s": self._query_s}

    def run(self) -> dict[str, Any]:
        """Once ready: run the test, and check the outputs.

        Returns:
            ``facts`` of the framework, ``forms``, ``columns`` (see `Ledger.columns`), ``answers`` (see `Ledger.answers`),
            ``traced``, ``verdict``.
        """
        traced = self._traced()
        loadgen.run_test(
            self._work.model,
            self._settings.scenario,
            self._settings.mode,
            callbacks=self._callbacks(),
            samples=len(self._library),
            in_memory=self._work.in_memory,
            folder=self._folder,
            user_conf=self._folder / USER_CONF,
            audit_conf=self._folder / AUDIT_CONF,
            trace=traced,
        )
        self._end()
        outcome = {"columns": self._ledger.columns(), "answers": self._ledger.answers(), "traced": traced}
        system = self._system
        if not isinstance(system, ExecutorSystem):
            return {**outcome, "facts": {}, "forms": None, "verdict": None}
        forms = system.runners[0].executor.forms
        return {**outcome, "facts": system.facts, "forms": forms, "verdict": self._judged(system)}

    def _make_ready(self) -> float | None:
        """Start the system, and ask the pilot if it is needed."""
        first = list(range(self._work.in_memory))
        pilot, test = Pilot(first), self._ledger
        self._ledger = pilot.ledger
        self._watchdog.busy("making the system ready", READY_STALLS)
        self._library.load(first)
        self._system.start(self._library, lambda ids, rows: self._ledger.complete(ids, rows))
        self._watchdog.free()
        estimate = None
        if self._conf.open is not None:
            model, scenario = self._work.model, self._settings.scenario
            rules = replace(self._settings.rules, samples=self._conf.of_query(model, scenario))
            estimate = pilot.expected(self._system, rules, self._settings.most_at_once)
            self._query_s = pilot.query_s
            self._conf = self._conf.with_value(model, scenario, estimate)
        self._library.unload(first)
        self._ledger = test
        return estimate

    def _write_settings(self) -> None:
        (self._folder / USER_CONF).write_text(written(list(self._conf.lines), "as LoadGen reads it"), encoding="utf-8")
        if self._settings.audit:
            lines = [Line("*", "*", key, value) for key, value in AUDITS[self._settings.audit].items()]
            text = written(lines, f"audit {self._settings.audit}")
            (self._folder / AUDIT_CONF).write_text(text, encoding="utf-8")

    def _traced(self) -> bool:
        """Whether LoadGen writes what happened to each sample: unless it would be very much."""
        if self._settings.mode == "find-peak":  # of many runs, and LoadGen does not say which of them its figures are of
            return False
        if self._settings.trace is not None:
            return self._settings.trace
        return self._conf.samples(self._work.model, self._settings.scenario) <= TRACED_SAMPLES

    def _callbacks(self) -> loadgen.Callbacks:
        return loadgen.Callbacks(
            issue=self._issue,
            flush=self._safe("flushing queries", self._system.flush),
            load=self._safe("loading samples", self._library.load, READY_STALLS),
            unload=self._safe("unloading samples", self._library.unload, READY_STALLS),
        )

    def _issue(self, ids: list[int], indices: list[int]) -> None:
        """The ledger looks after the answers, however long a query of many samples takes."""
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
