"""The main job: check and time a network in several frameworks; and for several sizes of one dimension.

The systems are started (in this Python environment, in another one that has deep_bench, or in a lean one), judged and
measured, and the record is kept up to date all the while. The same for several sizes is a latency-throughput curve.
"""

from __future__ import annotations

import html
import io
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from pydantic import JsonValue
from rich.console import Console
from rich.table import Table
from rich.text import Text

import deep_bench
from deep_bench import frameworks
from deep_bench.check.judge import judge
from deep_bench.check.oracle import Effort, Truth, establish
from deep_bench.environments import Lean, place_of
from deep_bench.environments.lean import SYSTEM as LEAN_SYSTEM
from deep_bench.environments.lean import stamped_run
from deep_bench.errors import DeepBenchError, InvalidArgument, NotKept, Unsupported
from deep_bench.graph import Network
from deep_bench.measure.environment import capture, risks
from deep_bench.measure.progress import Bars, recording
from deep_bench.measure.session import Measurement, Plan, SessionProgress, measure_launch
from deep_bench.measure.units import duration, duration_range, significant
from deep_bench.network.problem import NetworkProblem, described, handed_over, make_problem, suitable
from deep_bench.network.result import Result, SystemResult
from deep_bench.network.system import NATIVE, NUMPY
from deep_bench.records.folders import output_folder
from deep_bench.records.model import (
    DataFacts,
    ErrorRecord,
    FaultRecord,
    NetworkFacts,
    OptionsRecord,
    Record,
    SampleSet,
    SystemRecord,
    Tensor,
)
from deep_bench.records.store import RecordWriter
from deep_bench.records.table import columns, print_table
from deep_bench.study.judging import fleet_subject, forms_record, verdict_record
from deep_bench.study.settings import Checking, NetworkSettings
from deep_bench.tensor import TensorSpec
from deep_bench.variant import Variant, lean_frameworks
from deep_bench.workers.fleet import Contender, Fleet, place_facts


def run(
    network: str | Path | Network,
    on: Sequence[str | Variant] | str | None = None,
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    seed: int = 0,
    ci_width: float = 0.01,
    budget: float = 20.0,
    check: Checking = "auto",
    launches: int = 1,
    twin: bool = True,
    in_process: bool = False,
    output: str | Path | None = None,
    progress: bool = True,
) -> Result:
    """Run a network in several frameworks: is each right, how precise is it, how long does it take?

    Each system lives in a process of its own, which is stopped while others are timed. All are measured in random order,
    block by block.

    Args:
        network: A network, an ``.onnx`` file, or the name of a network that ships.
        on: Frameworks with options (``"torch:threads=1"``), or a single one; by default all that are installed.
        inputs: An ``.npz`` file or arrays by name; by default they are drawn by a seeded generator.
        sizes: Open dimension to size; others are taken from the inputs, or chosen and said.
        batch: Size of the open first dimensions.
        seed: Of drawn inputs, of the random order and of the estimates.
        ci_width: Stop when half the 95 % interval of each median is at most this share of it …
        budget: … or after so many seconds of measuring.
        check: How hard to look whether results are right: ``auto``, ``quick``, ``full`` or ``off``.
        launches: How many times to start every system afresh.
        twin: Whether one system is measured twice, as an A/A pair.
        in_process: Time everything in this process, for a debugger.
        output: A folder for the record and the frameworks' logs.
        progress: Show progress bars, if standard error is a terminal.

    Returns:
        What was found. Ctrl-C ends the run early; the result then holds what was measured.

    Raises:
        InvalidNetwork: The network cannot be used.
        InvalidInput: The inputs do not fit it.
        InvalidArgument: An option is out of range.
        UnknownName: A framework that does not exist.
        FrameworkMissing: A framework that is not installed.
        NotKept: The record could not be written in the end; ``found`` of the error is the result.

    Example:
        >>> result = run("digits-cnn", on=["reference"], budget=0.5, twin=False, progress=False)
        >>> result.ok
        True
    """
    settings = NetworkSettings(seed, ci_width, budget, check, launches, twin, in_process)
    left_out = [name for name in frameworks if frameworks.missing(name)] if on is None else []
    chosen = [name for name in frameworks if name not in left_out] if on is None else [on] if isinstance(on, str) else on
    variants = [v if isinstance(v, Variant) else Variant.parse(v) for v in chosen]
    folder = output_folder(output) if output is not None else None
    problem = make_problem(network, inputs=inputs, sizes=sizes, batch=batch, seed=seed)
    experiment = NetworkExperiment(problem, variants, settings, folder, Bars(progress))
    if left_out:
        experiment.record.notes.append(f"left out, since they are not installed: {', '.join(left_out)}")
    record = experiment.run()
    if (failure := experiment.unwritten) is not None:
        raise NotKept(failure.came, failure.expected, found=Result(record)) from failure
    return Result(record, experiment.path)


_FULL_BELOW_SECONDS = 1.0
_KEEP_EVERY_SECONDS = 5.0
_SYSTEM = "deep_bench.network.system:NetworkSystem"


class NetworkExperiment:
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
        self,
        problem: NetworkProblem,
        variants: Sequence[Variant],
        settings: NetworkSettings,
        output: Path | None,
        bars: Bars,
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
            subject = fleet_subject(fleet, label)
            try:
                self._answers[label] = dict(subject.outputs())
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
            after = fleet_subject(fleet, label).outputs()
            names = sorted({*before, *after})
            changed = [n for n in names if n not in before or n not in after or not _identical(after[n], before[n])]
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

        def watch(progress: SessionProgress) -> None:
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


def _first_record(problem: NetworkProblem, variants: dict[str, Variant], settings: NetworkSettings) -> Record:
    network, inputs = problem.network, problem.inputs
    options: dict[str, JsonValue] = {**settings.as_options(), "on": list(variants), "sizes": dict(problem.sizes.all)}
    record = Record(
        deep_bench=deep_bench.__version__,
        command=[os.path.basename(sys.argv[0]), *sys.argv[1:]],
        recipe=OptionsRecord(options=options, seeds={"run": settings.seed}),
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


def _evaluate_reference(problem: NetworkProblem) -> None:
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


def _identical(a: np.ndarray, b: np.ndarray) -> bool:
    return (
        a.shape == b.shape and a.dtype == b.dtype and (a.tobytes() == b.tobytes() if a.dtype != object else (a == b).all())
    )


def _file_name(problem: NetworkProblem) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in problem.source.name)[:60]


def contender_of(variant: Variant, problem: NetworkProblem, given: Mapping[str, Any]) -> Contender:
    """A system under test, before it is started.

    Args:
        variant: The framework with its options, and its environment if it has one.
        problem: What is run.
        given: The same as `deep_bench.network.problem.handed_over` wrote it.

    Raises:
        UnknownName, InvalidArgument: There is no such environment, or a lean framework has no such option.
        Unsupported: A kernel of the user's is in the network, which lives in this environment; or a lean framework cannot
            run the network, and why.
    """
    label = str(variant)
    if variant.environment is None:
        return Contender(label, _SYSTEM, {"variant": label, **given})
    place = place_of(variant.environment, lean=variant.lean)
    if kernels := problem.network.kernels:
        raise Unsupported(
            f"{label}: the node {next(iter(kernels))!r} is computed by a kernel of yours, which lives in this environment",
            "a network without kernels for another environment",
        )
    if not variant.lean:
        return Contender(label, _SYSTEM, {"variant": str(variant.here), **given}, place=place, translate=stamped_run)
    lean: Lean = lean_frameworks[variant.framework]
    arguments = {
        **lean.arguments(variant.options),
        "network": _trusted(lean, problem),
        "inputs": given["inputs"],
        "quantities": (NATIVE, NUMPY),
    }

    def rewritten(method: str, call_arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if method != "run":
            return call_arguments
        network = Network.from_proto(onnx.load_from_string(call_arguments[0]))
        return lean.rewrite(network), *call_arguments[1:]

    return Contender(label, LEAN_SYSTEM, arguments, place=place, translate=rewritten)


def _trusted(lean: Lean, problem: NetworkProblem) -> bytes:
    """The network as a lean framework reads it; the reference must find that it computes the same as the original.

    Raises:
        Unsupported: A node cannot be rewritten; or what came out computes something else.
    """
    from deep_bench.network.transform import check

    rewritten = lean.rewrite(problem.network)
    after = Network.from_proto(onnx.load_from_string(rewritten), name=problem.network.name)
    assessment = check(problem.network, after, problem.inputs.arrays)
    if assessment.word not in ("right", "no information"):
        name = problem.network.name
        raise Unsupported(
            f"{name} as it was rewritten for {lean.name} does not compute the same: {assessment.word}: {assessment.reason}",
            "a rewriting that rounding explains",
        )
    return rewritten


@dataclass(frozen=True)
class SweepResult:
    """Results by size.

    Args:
        dimension: What was varied: ``batch``, or the name of an open dimension.
        results: Size to result.
        plot: The picture's file, if one was drawn.
        remark: Why there is none, if there is none.
        left: Sizes that were not measured, since the sweep was interrupted, or no record could be written.
    """

    dimension: str
    results: Mapping[int, Result]
    plot: Path | None = None
    remark: str = ""
    left: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed or was wrong at any size."""
        return all(r.ok for r in self.results.values())

    @property
    def interrupted(self) -> bool:
        """Whether it was ended early."""
        return any(r.interrupted for r in self.results.values())

    @property
    def failures(self) -> list[SystemResult]:
        """The systems that failed, at any size."""
        return [s for r in self.results.values() for s in r.failures]

    def rows(self) -> list[tuple[str, ...]]:
        """System, size, verdict, median with interval, and items (sizes of the dimension) a second."""
        return [
            (label, str(size), system.verdict, _latency(system), _throughput(system, size))
            for label in self.labels
            for size, result in self.results.items()
            for system in [result[label]]
        ]

    @property
    def labels(self) -> list[str]:
        """The systems."""
        return list(next(iter(self.results.values())))

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of `rows`."""
        return ("system", self.dimension, "verdict", "median (95 % interval)", "items a second")

    def table(self) -> str:
        """The curve as text."""
        out = io.StringIO()
        table = Table(*self.columns)
        for row in self.rows():
            table.add_row(*map(Text, row))
        console = Console(file=out, width=columns(), highlight=False)
        print_table(console, table)
        if self.plot is not None or self.remark:
            console.print(Text(f"plot: {self.plot}" if self.plot is not None else self.remark))
        if self.interrupted or self.left:
            message = f"not measured: {', '.join(map(str, self.left)) or 'none'}"
            console.print(Text(f"interrupted; {message}" if self.interrupted else message))
        for size, result in self.results.items():
            if result.path is not None:
                console.print(Text(f"record for {self.dimension}={size}: {result.path}"))
        return out.getvalue().rstrip("\n")

    def as_json(self) -> dict[str, Any]:
        """The derived figures of every size in plain JSON types."""
        return {
            "dimension": self.dimension,
            "sizes": {str(size): result.as_json() for size, result in self.results.items()},
            "plot": None if self.plot is None else str(self.plot),
        }

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in self.rows())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def run_sweep(network: Any, dimension: str, values: Sequence[int], **options: Any) -> SweepResult:
    """`run` once for each size; the budget holds for each.

    Args:
        network: As in `run`.
        dimension: ``"batch"`` for the open first dimensions, or the name of an open dimension.
        values: Its sizes.
        options: As in `run`. With ``output``, a plot is written there if matplotlib is installed.

    Raises:
        InvalidArgument: No size, or one twice; or inputs are given, which have their sizes already.
        NotKept: A record or the picture could not be written; ``found`` of the error is what was measured until then.
    """
    if not values or len(set(values)) < len(values):
        raise InvalidArgument(f"sizes {list(values)} for {dimension}", "each size once, at least one")
    if options.get("inputs") is not None:
        raise InvalidArgument("a sweep with given inputs", "drawn inputs", "leave --input or --sweep out")
    results: dict[int, Result] = {}
    for value in values:
        try:
            results[value] = run(network, **_with_size(options, dimension, value))
        except NotKept as error:
            results[value] = error.found
            raise _not_kept(error, _so_far(dimension, results, values)) from error
        if results[value].interrupted:
            break
    sweep, output = _so_far(dimension, results, values), options.get("output")
    return sweep if output is None or sweep.interrupted else _drawn(sweep, Path(output))


def _so_far(dimension: str, results: Mapping[int, Result], values: Sequence[int]) -> SweepResult:
    return SweepResult(dimension, results, left=tuple(value for value in values if value not in results))


def _not_kept(failure: InvalidArgument, sweep: SweepResult) -> NotKept:
    return NotKept(failure.came, failure.expected, found=sweep)


def _with_size(options: Mapping[str, Any], dimension: str, value: int) -> dict[str, Any]:
    if dimension == "batch":
        return {**options, "batch": value}
    return {**options, "sizes": {**(options.get("sizes") or {}), dimension: value}}


def _drawn(sweep: SweepResult, folder: Path) -> SweepResult:
    try:
        from deep_bench.network.plots import plot_sweep
    except ImportError:
        remark = "no plot: matplotlib is not installed (pip install 'deep-bench[report]')"
        return replace(sweep, remark=remark)
    first = next(iter(sweep.results.values()))
    stem = first.path.stem if first.path is not None else "sweep"
    try:
        return replace(sweep, plot=plot_sweep(sweep, folder / f"{stem}.sweep.png"))
    except InvalidArgument as error:
        raise _not_kept(error, sweep) from error


def _latency(system: SystemResult) -> str:
    if system.median is None:
        return "–"
    interval = system.interval
    return duration(system.median) + (f" ({duration_range(interval.low, interval.high)})" if interval is not None else "")


def _throughput(system: SystemResult, size: int) -> str:
    return "–" if system.median is None else significant(size / system.median, 4)
