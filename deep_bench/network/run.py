"""The main job: check and time a network in several frameworks; and for several sizes of one dimension.

The systems are started (in this Python environment, in another one that has deep_bench, or in a lean one), judged and
measured, and the record is kept up to date all the while. The same for several sizes is a latency-throughput curve.
"""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from pydantic import JsonValue
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench import frameworks
from deep_bench.arrays import equal_arrays
from deep_bench.check.judge import judge
from deep_bench.check.oracle import Truth, establish
from deep_bench.environments import Lean, place_of
from deep_bench.environments.declaration import SYSTEM as LEAN_SYSTEM
from deep_bench.environments.declaration import stamped_run
from deep_bench.errors import DeepBenchError, InvalidArgument, NotKept, Unsupported
from deep_bench.graph import Network
from deep_bench.measure.environment import disturbances, provenance
from deep_bench.measure.progress import Bars
from deep_bench.measure.session import Plan
from deep_bench.measure.units import duration, duration_range, significant
from deep_bench.network.problem import NetworkProblem, described, handed_over, make_problem
from deep_bench.network.result import Result, SystemResult
from deep_bench.network.system import NATIVE, NUMPY
from deep_bench.records.folders import output_folder
from deep_bench.records.model import DataFacts, ErrorRecord, NetworkFacts, OptionsRecord, Record, SystemRecord
from deep_bench.records.table import columns, print_table
from deep_bench.study.judging import chosen_effort, fleet_subject, quiet, suitable, verdict_record
from deep_bench.study.settings import Checking, NetworkSettings
from deep_bench.study.study import Heat, RecordFile, StudyRun, twin_record
from deep_bench.variant import Variant, lean_frameworks, variants_of
from deep_bench.workers.fleet import Contender


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
    settings = NetworkSettings(
        seed=seed, ci_width=ci_width, budget=budget, check=check, launches=launches, twin=twin, in_process=in_process
    )
    left_out = [name for name in frameworks if frameworks.missing(name)] if on is None else []
    variants = {str(variant): variant for variant in variants_of(on)}
    folder = output_folder(output) if output is not None else None
    problem = make_problem(network, inputs=inputs, sizes=sizes, batch=batch, seed=seed)
    record = _first_record(problem, variants, settings)
    if left_out:
        record.notes.append(f"left out, since they are not installed: {', '.join(left_out)}")
    file, bars = RecordFile(record, folder), Bars(progress)

    def contenders(folder: Path) -> list[Contender]:
        return _contenders(problem, variants, record, folder)

    judged = JudgedNetwork(problem, settings, file, bars)
    StudyRun(file, contenders, [judged], bars, launches=launches, in_process=in_process).run()
    return file.result(Result)


_FULL_BELOW_SECONDS = 1.0
_SYSTEM = "deep_bench.network.system:NetworkSystem"


class JudgedNetwork:
    """A network as a study gives it to its systems, which were started with it, and judges them by it.

    Args:
        problem: The network with its inputs.
        settings: How to check and measure.
        file: Kept up to date after each verdict.
        bars: Shows progress.
    """

    def __init__(self, problem: NetworkProblem, settings: NetworkSettings, file: RecordFile, bars: Bars) -> None:
        self.name = problem.source.name
        self.problem, self.settings, self.file, self.bars = problem, settings, file, bars
        self._outputs: dict[str, dict[str, np.ndarray]] = {}

    def entries(self, record: Record, launch: int) -> dict[str, SystemRecord]:  # noqa: ARG002
        """All that could be started."""
        return {system.label: system for system in record.systems if system.error is None}

    def load(self, heat: Heat) -> None:
        """They have it."""
        heat.prepared = {label: heat.fleet.prepared[label] for label in heat.runners}

    def judge(self, heat: Heat, entries: Mapping[str, SystemRecord]) -> None:
        """The verdicts on all but the twin; NumPy's remarks on empty arrays and overflow are no news to the user."""
        if self.settings.check == "off":
            return
        labels = [label for label in heat.runners if entries[label].twin_of is None]
        self.bars.phase("checking", len(labels) + 1, "systems")
        self.bars.at("reference")
        with quiet():
            truth = self._truth()
            for label in labels:
                self.bars.begin(label)
                subject = fleet_subject(heat, label)
                try:
                    outputs = self._outputs[label] = dict(subject.outputs())
                    entries[label].verdict = verdict_record(judge(truth, subject), outputs)
                except DeepBenchError as error:
                    heat.set_aside(label, error)
                    entries[label].error = ErrorRecord.of(error)
                self.file.keep()

    def _truth(self) -> Truth:
        network, arrays = self.problem.network, self.problem.inputs.arrays

        def evaluate() -> None:
            executor = frameworks["reference"]().prepare(network.without_kernels())
            with suitable(
                self.name, "give some with --input, or other sizes with --size; or --check off to time it unchecked"
            ):
                executor.forward(arrays)

        effort = chosen_effort(self.settings.check, _FULL_BELOW_SECONDS, evaluate)
        return establish(network, arrays, effort, seed=self.settings.seed)

    def plan(self, calls: int) -> Plan:  # noqa: ARG002
        """The same however many calls there are."""
        settings = self.settings
        return Plan(settings.ci_width, settings.budget, settings.seed, settings.launches)

    def judge_again(self, heat: Heat, entries: Mapping[str, SystemRecord], launch: int) -> None:
        """Whether each system still gives the outputs that were judged, now that it was timed."""
        for label, before in self._outputs.items() if launch == 0 else ():
            verdict = entries[label].verdict
            if label not in heat.runners or verdict is None or not verdict.repeatability.get("bitwise"):
                continue
            after = fleet_subject(heat, label).outputs()
            names = sorted({*before, *after})
            changed = [n for n in names if n not in before or n not in after or not equal_arrays(after[n], before[n])]
            if changed:
                verdict.findings.append(f"outputs {', '.join(changed)} differ after timing from those that were judged")


def _contenders(problem: NetworkProblem, variants: Mapping[str, Variant], record: Record, folder: Path) -> list[Contender]:
    """The systems to start; of those that can be told before not to run this network, it is noted."""
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in problem.source.name)[:60]
    arguments = handed_over(problem, folder, name)
    contenders: list[Contender] = []
    for label, variant in variants.items():
        try:
            contenders.append(contender_of(variant, problem, arguments))
        except Unsupported as error:
            record[label].error = ErrorRecord.of(error)
    return contenders


def _first_record(problem: NetworkProblem, variants: Mapping[str, Variant], settings: NetworkSettings) -> Record:
    network, inputs = problem.network, problem.inputs
    options: dict[str, JsonValue] = {**settings.as_options(), "on": list(variants), "sizes": dict(problem.sizes.all)}
    record = Record(
        **provenance(),
        recipe=OptionsRecord(options=options, seeds={"run": settings.seed}),
        network=NetworkFacts.of(network, problem.source, problem.sizes.all),
        data=DataFacts(source=inputs.origin, seed=inputs.seed, sha256=inputs.digests),
        systems=[SystemRecord(label=n, framework=v.framework, options=dict(v.options)) for n, v in variants.items()],
        in_process=settings.in_process,
    )
    if problem.sizes.chosen:
        sizes_text = ", ".join(f"{name}={size}" for name, size in problem.sizes.chosen.items())
        record.notes.append(f"sizes chosen for open dimensions: {sizes_text}")
    if kernels := described(network):
        record.notes.append(kernels)
    record.notes += disturbances(record.environment)
    if settings.twin:  # of the first that is not the slow reference, if there is one
        systems = record.systems
        systems.append(twin_record(next((s for s in systems if s.framework != "reference"), systems[0])))
    return record


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
