"""One run: start the systems, judge them, measure them, and keep the record up to date all the while."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from pydantic import JsonValue

import deep_bench
from deep_bench.check.fleet_subject import FleetSubject
from deep_bench.check.judge import judge
from deep_bench.check.recorded import forms_record, verdict_record
from deep_bench.check.truth import Effort, Truth, establish
from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported
from deep_bench.measure.environment import capture
from deep_bench.measure.fleet import Contender, Fleet, place_facts
from deep_bench.measure.progress import Bars
from deep_bench.measure.record import (
    DataFacts,
    ErrorRecord,
    FaultRecord,
    NetworkFacts,
    Recipe,
    Record,
    SampleSet,
    SystemRecord,
    Tensor,
)
from deep_bench.measure.recording import recording
from deep_bench.measure.risks import risks
from deep_bench.measure.session import Measurement, Plan, Progress, measure_launch
from deep_bench.measure.storage import RecordWriter
from deep_bench.network.elsewhere import contender_of
from deep_bench.network.handover import handed_over
from deep_bench.network.kernels import described
from deep_bench.network.problem import Problem, suitable
from deep_bench.network.settings import Settings
from deep_bench.tensor import TensorSpec
from deep_bench.variant import Variant

_FULL_BELOW_SECONDS = 1.0
_KEEP_EVERY_SECONDS = 5.0
_SYSTEM = "deep_bench.network.system:NetworkSystem"


class Experiment:
    """A run of one network in several frameworks.

    Args:
        problem: The network with its inputs.
        variants: The systems under test.
        settings: How to check and measure.
        output: An existing folder for the record and the frameworks' logs; ``None`` keeps the record in memory only.
        bars: Shows progress.

    Attributes:
        record: What is known so far.
        path: The record's file, if there is one.
    """

    def __init__(
        self, problem: Problem, variants: Sequence[Variant], settings: Settings, output: Path | None, bars: Bars
    ) -> None:
        self.problem, self.settings, self.bars = problem, settings, bars
        self.variants = {str(v): v for v in variants}
        if not variants or len(self.variants) < len(variants):
            raise InvalidArgument(f"systems {', '.join(map(str, variants)) or '(none)'}", "at least one, each of them once")
        self.record = _first_record(problem, self.variants, settings)
        self._writer = RecordWriter(output, self.record) if output is not None else None
        self.path = self._writer.path if self._writer else None
        self._answers: dict[str, dict[str, np.ndarray]] = {}

    @property
    def unwritten(self) -> InvalidArgument | None:
        """Why the record could not be written when it was last tried, if so; a full disk does not end a run."""
        return self._writer.unwritten if self._writer is not None else None

    def run(self) -> Record:
        """Do all of it. Ctrl-C ends it early; what is there by then is kept, marked as interrupted."""
        with recording(self.record, self.bars) as folder:
            contenders = self._contenders(folder)
            logs = self._logs(folder)
            for launch in range(self.settings.launches):
                self._launch(contenders, logs, launch)
                if self.record.interrupted:
                    break
        self._keep()
        return self.record

    def _launch(self, contenders: Sequence[Contender], logs: Path, launch: int) -> None:
        self.bars.phase("preparing", len(contenders), "systems")
        with Fleet(contenders, logs, in_process=self.settings.in_process, starting=self._starting) as fleet:
            self._note_prepared(fleet)
            if launch == 0:
                _raise_usage_errors(fleet)
                if self.settings.check != "off":
                    self._checked(fleet)
            self._measure(fleet, launch)
            if launch == 0 and not self.record.interrupted:
                self._compare_answers(fleet)

    def _starting(self, label: str) -> None:
        self.bars.at(label)
        self.bars.advance()

    # Checking

    def _judge(self, fleet: Fleet) -> None:
        labels = [label for label in fleet.runners if label in self.variants]
        self.bars.phase("checking", len(labels) + 1, "systems")
        self.bars.at("reference")
        truth = self._truth()
        for label in labels:
            self.bars.advance()
            self.bars.at(label)
            subject = FleetSubject(fleet, label)
            try:
                self._answers[label] = subject.outputs()
                self.record[label].verdict = verdict_record(judge(truth, subject), self._answers[label])
            except DeepBenchError as error:
                fleet.set_aside(label, error)
                self.record[label].error = ErrorRecord.of(error)
            self._keep()

    def _truth(self) -> Truth:
        problem, effort = self.problem, self.settings.check
        seconds = _seconds(lambda: _evaluate_reference(problem))
        if effort == "auto":
            chosen: Effort = "full" if seconds < _FULL_BELOW_SECONDS else "quick"
        else:
            chosen = "full" if effort == "full" else "quick"
        return establish(problem.network, problem.inputs.arrays, chosen, seed=self.settings.seed)

    def _checked(self, fleet: Fleet) -> None:
        """Judge the systems; NumPy's remarks on empty arrays and overflow are no news to the user."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self._judge(fleet)

    def _compare_answers(self, fleet: Fleet) -> None:
        """Whether each system still gives the outputs that were judged, now that it was timed."""
        for label, before in self._answers.items():
            verdict = self.record[label].verdict
            if label not in fleet.runners or verdict is None or not verdict.repeatability.get("bitwise"):
                continue
            after = FleetSubject(fleet, label).outputs()
            names = sorted({*before, *after})
            changed = [n for n in names if n not in before or n not in after or not _same(after[n], before[n])]
            if changed:
                verdict.findings.append(f"outputs {', '.join(changed)} differ after timing from those that were judged")

    # Measuring

    def _measure(self, fleet: Fleet, launch: int) -> None:
        settings = self.settings
        plan = Plan(settings.ci_width, settings.budget, settings.seed, settings.launches)
        self.bars.phase("measuring", settings.budget, "s")
        measurement = Measurement(plan, in_process=fleet.in_process)
        before = {system.label: list(system.samples) for system in self.record.systems}
        last_save = perf_counter()

        def watch(progress: Progress) -> None:
            nonlocal last_save
            self.bars.measured(progress)
            if perf_counter() - last_save > _KEEP_EVERY_SECONDS:
                self._note_samples(measurement, before)
                self._keep()
                last_save = perf_counter()

        measure_launch(fleet, plan, measurement, launch=launch, watch=watch)
        self._note_samples(measurement, before)
        self._note_failures(measurement.failures)
        self.record.interrupted |= measurement.interrupted
        self._keep()

    # The record

    def _note_prepared(self, fleet: Fleet) -> None:
        for label, prepared in fleet.prepared.items():
            system, facts = self.record[label], prepared["facts"]
            system.facts = {**facts["description"], "import_ns": facts["import_ns"], **place_facts(prepared)}
            system.forms = forms_record(facts["forms"])
            system.known_faults = [FaultRecord.model_validate(vars(exposure)) for exposure in facts["exposures"]]
            system.threaded = prepared["threaded"]
            system.cpus = prepared["process"]["cpus"]
            system.prepare_ns, system.first_call_ns = facts["prepare_ns"], facts["first_call_ns"]
            system.peak_memory_bytes = prepared["process"]["peak_memory_bytes"]
            system.stamp_overhead_ns = prepared["stamp_overhead_ns"]
        self._note_failures(fleet.failures)
        self._keep()

    def _note_samples(self, measurement: Measurement, before: Mapping[str, Sequence[SampleSet]]) -> None:
        for system in self.record.systems:
            measured = [SampleSet.of(series) for series in measurement.series if series.label == system.label]
            system.samples = [*before[system.label], *measured]
        for series in measurement.series:
            system = self.record[series.label]
            peak = series.process.get("peak_memory_bytes")
            system.peak_memory_bytes = max(system.peak_memory_bytes or 0, peak or 0) or None

    def _note_failures(self, failures: dict[str, DeepBenchError]) -> None:
        for label, error in failures.items():
            self.record[label].error = ErrorRecord.of(error)

    def _keep(self) -> None:
        if self._writer is not None:
            self._writer.keep(self.record)

    # What the systems are given

    def _contenders(self, folder: Path) -> list[Contender]:
        arguments = handed_over(self.problem, folder, _file_name(self.problem))
        contenders = [c for variant in self.variants.values() if (c := self._contender(variant, arguments)) is not None]
        twin_of = twin_label(list(self.variants)) if self.settings.twin else None
        return contenders + [c.twin() for c in contenders if c.label == twin_of]

    def _contender(self, variant: Variant, arguments: Mapping[str, object]) -> Contender | None:
        """A system to start; None of one that can be told before not to run this network, which is noted."""
        try:
            return contender_of(variant, self.problem, arguments)
        except Unsupported as error:
            self.record[str(variant)].error = ErrorRecord.of(error)
            return None

    def _logs(self, temporary: Path) -> Path:
        folder = temporary if self.path is None else self.path.with_suffix(".logs")
        folder.mkdir(exist_ok=True)
        return folder


def twin_label(labels: Sequence[str]) -> str:
    """Which system is measured twice: the first that is not the slow reference, if there is one."""
    return next((label for label in labels if Variant.parse(label).framework != "reference"), labels[0])


def _first_record(problem: Problem, variants: dict[str, Variant], settings: Settings) -> Record:
    network, inputs = problem.network, problem.inputs
    options: dict[str, JsonValue] = {**settings.as_options(), "on": list(variants), "sizes": dict(problem.sizes.all)}
    record = Record(
        deep_bench=deep_bench.__version__,
        command=[os.path.basename(sys.argv[0]), *sys.argv[1:]],
        recipe=Recipe(options=options, seeds={"run": settings.seed}),
        network=NetworkFacts(
            name=problem.source.name,
            sha256=problem.source.sha256,
            opset=dict(network.opsets),
            inputs=[_tensor(s) for s in network.inputs],
            outputs=[_tensor(s) for s in network.outputs],
            sizes=problem.sizes.all,
            nodes=sum(1 for _ in network.all_nodes()),
            parameters=sum(a.size for a in network.parameters.values()),
        ),
        data=DataFacts(source=inputs.origin, seed=inputs.seed, sha256=inputs.digests),
        environment=capture(),
        systems=[SystemRecord(label=n, framework=v.framework, options=dict(v.options)) for n, v in variants.items()],
        in_process=settings.in_process,
    )
    if problem.sizes.chosen:
        sizes_text = ", ".join(f"{name}={size}" for name, size in problem.sizes.chosen.items())
        record.notes.append(f"sizes chosen for open dimensions: {sizes_text}")
    if kernels := described(network):
        record.notes.append(kernels)
    record.notes += [str(risk) for risk in risks(record.environment) if risk.name in ("load", "swap")]
    if settings.twin:
        label = twin_label(list(variants))
        twin = Contender(label, _SYSTEM).twin()
        variant = variants[label]
        record.systems.append(
            SystemRecord(label=twin.label, framework=variant.framework, options=dict(variant.options), twin_of=label)
        )
    return record


def _tensor(spec: TensorSpec) -> Tensor:
    return Tensor(name=spec.name, shape=list(spec.shape), dtype="string" if spec.dtype == object else spec.dtype.name)


def _raise_usage_errors(fleet: Fleet) -> None:
    """A wrong option is the user's to mend before anything is measured; other failures cost their system only."""
    for error in fleet.failures.values():
        if isinstance(error, InvalidArgument):
            raise error


def _evaluate_reference(problem: Problem) -> None:
    """Run the reference once.

    Raises:
        InvalidInput: It cannot run on these inputs, which then do not suit the network.
    """
    executor = deep_bench.frameworks["reference"]().prepare(problem.network.without_kernels())
    advice = "give some with --input, or other sizes with --size; or --check off to time it unchecked"
    with suitable(problem.source.name, advice):
        executor.forward(problem.inputs.arrays)


def _seconds(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return (
        a.shape == b.shape and a.dtype == b.dtype and (a.tobytes() == b.tobytes() if a.dtype != object else (a == b).all())
    )


def _file_name(problem: Problem) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in problem.source.name)[:60]
