"""Record files as results: one function for each kind of record.

All runs of a system in a `TrainingRecord` are one result, each of them a launch. A `ScalingRecord` gives one result for
each number of ranks; what is predicted says so in its name and its remark. A record that its schema allows must hang
together as well: what does not is refused for all verbs alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.distributed.collectives.operations import algorithm_bandwidth, bus_bandwidth
from deep_bench.distributed.collectives.result import BenchmarkRow, is_communication, operation_blocks
from deep_bench.distributed.collectives.result import CommunicationResult as Communication
from deep_bench.distributed.scaling.record import (
    MeasuredRecord,
    RanksPointRecord,
    ScalingRecord,
    efficiency,
    load_scaling,
    speed_up,
)
from deep_bench.errors import InvalidRecord, on_a_line
from deep_bench.measure.metrics import MetricRecord
from deep_bench.measure.units import duration_range
from deep_bench.network.system import NATIVE, NUMPY
from deep_bench.operators.studies import settings
from deep_bench.operators.studies.settings import QUANTITIES
from deep_bench.records.model import CaseFacts, ErrorRecord, Record, SystemRecord, TrialRecord, VerdictRecord
from deep_bench.records.store import load
from deep_bench.results.result import (
    NS_IN_A_SECOND,
    Direction,
    Figure,
    Kind,
    Result,
    cell_labels,
    figures_by_name,
    framework_labels,
    labels,
    layout_labels,
    metric_figures,
    optimizer_labels,
    prefix_labels,
    seconds_figure,
    single_figure,
    system_labels,
    time_figure,
    worst,
)
from deep_bench.training.figures import final, rate_groups, to_target
from deep_bench.training.record import RunRecord, TargetRecord, TrainingRecord, load_training
from deep_bench.training.trainer import INTERRUPTED

VERDICT_WORDS = ("right", "reduced precision", "wrong", "cannot tell", "no information", "failed")
"""What a verdict may say; *failed* where gradients could not be had."""


def check_measurement(record: Record, path: Path, communication: bool) -> None:
    """Look at what was timed.

    Raises:
        InvalidRecord: A record of operators or of communication without systems, a verdict that is none, or a quantity of
            operators or a number of bytes that there is not.
    """
    if record.suite is not None and not record.systems:
        _refuse(path, "systems", "none", "at least one")
    for place, verdict in _verdicts_of(record):
        if verdict.verdict not in VERDICT_WORDS:
            _refuse(path, f"{place}.verdict", repr(verdict.verdict), f"one of {', '.join(VERDICT_WORDS)}")
    for number, case in enumerate(record.suite.cases if record.suite is not None and communication else ()):
        check_count(case.attributes.get("bytes"), path, f"suite.cases.{number}.attributes.bytes")
    for i, system in enumerate(record.systems if record.suite is not None and not communication else ()):
        for k, trial in enumerate(system.trials):
            for j, samples in enumerate(trial.samples):
                if samples.quantity not in QUANTITIES:
                    place = f"systems.{i}.trials.{k}.samples.{j}.quantity"
                    _refuse(path, place, repr(samples.quantity), f"one of {', '.join(QUANTITIES)}")


def check_training(record: TrainingRecord, path: Path) -> None:
    """Look at runs.

    Raises:
        InvalidRecord: An evaluation has a score that its run does not name.
    """
    for number, run in enumerate(record.runs):
        for at, evaluated in enumerate(run.evaluations):
            for name in evaluated.figures:
                if name not in run.scores:
                    place = f"runs.{number}.evaluations.{at}.figures"
                    _refuse(path, place, repr(name), f"one of the run's scores: {', '.join(run.scores) or 'none'}")


def check_count(value: Any, path: Path, place: str, least: int = 0) -> None:
    """Refuse what is no whole number of at least so many.

    Raises:
        InvalidRecord: It is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        _refuse(path, place, repr(value), f"a whole number of at least {least}")


def _verdicts_of(record: Record) -> Iterator[tuple[str, VerdictRecord]]:
    for i, system in enumerate(record.systems):
        if system.verdict is not None:
            yield f"systems.{i}.verdict", system.verdict
        for k, trial in enumerate(system.trials):
            for name, verdict in (("verdict", trial.verdict), ("gradients", trial.gradients)):
                if verdict is not None:
                    yield f"systems.{i}.trials.{k}.{name}", verdict


def _refuse(path: Path, place: str, came: str, expected: str) -> None:
    raise InvalidRecord(f"{on_a_line(path)}: {place}: {came}", expected)


_NETWORK = {NATIVE: settings.FORWARD, NUMPY: settings.NUMPY}
"""Quantities of a network's record under the names that operators have for them."""


def _result(
    kind: Kind,
    record: Record | ScalingRecord | TrainingRecord,
    path: Path,
    about: dict[str, str],
    figures: Iterable[Figure | None],
    notes: Iterable[str] = (),
    **fields: Any,
) -> Result:
    """A result, with what all kinds of records tell in the same fields."""
    return Result(
        kind=kind,
        file=path,
        created=record.created,
        labels=about | cell_labels(record.recipe if isinstance(record, ScalingRecord) else record.recipe.options),
        figures=figures_by_name(figures),
        environment=record.environment,
        complete=isinstance(record, ScalingRecord) or (record.complete and not record.interrupted),
        notes=(*record.notes, *notes),
        **fields,
    )


def read_measurement(path: Path) -> list[Result]:
    """What each system gave, on each problem.

    Raises:
        InvalidRecord: The file cannot be read, or holds no such record.
    """
    record = load(path)
    check_measurement(record, path, is_communication(record))
    if is_communication(record):
        return _communication_results(record, path)
    return _network_results(record, path) if record.suite is None else _operator_results(record, path)


def _measured_result(
    kind: Kind,
    record: Record,
    path: Path,
    about: dict[str, str],
    figures: Iterable[Figure | None],
    notes: Iterable[str] = (),
    **fields: Any,
) -> Result:
    about = about | labels(kind=kind, host=record.environment.hostname)
    notes = (*notes, *(["interrupted"] if record.interrupted else []))
    result = _result(kind, record, path, about, figures, notes, **fields)
    launches = max((len(figure.launches) for figure in result.figures.values()), default=0)
    return replace(result, labels={**result.labels, **labels(launches=launches)})


def _system_labels(system: SystemRecord) -> dict[str, str]:
    about = labels(framework=system.framework, system=system.label) | framework_labels(system.facts)
    return about | prefix_labels("option", system.options)


def _case_labels(case: CaseFacts) -> dict[str, str]:
    return labels(case=case.label, operator=case.operator, dtype=case.dtype)


def _time_figures(timed: SystemRecord | TrialRecord, usual: Iterable[str], setup_ns: int | None) -> list[Figure | None]:
    """The times of each quantity, the usual ones first, and what it took until there was one."""
    names = dict.fromkeys([*usual, *(samples.quantity for samples in timed.samples)])
    return [
        *(time_figure(_NETWORK.get(name, name), timed.launches(name)) for name in names),
        seconds_figure("first call", timed.first_call_ns),
        seconds_figure("setup", setup_ns),
    ]


def _network_results(record: Record, path: Path) -> list[Result]:
    facts = record.network
    about = labels(seed=record.recipe.seeds.get("run"))
    if facts is not None:
        dtype = next((tensor.dtype for tensor in facts.inputs), None)
        about |= labels(network=facts.name, dtype=dtype) | {"network.sha256": facts.sha256}
        about |= prefix_labels("size", facts.sizes)
    results = []
    for system in record.systems:
        if system.twin_of is None:
            memory = single_figure("peak memory", "B", "lower", system.peak_memory_bytes, "of the whole process")
            figures = [*_time_figures(system, _NETWORK, system.prepare_ns), memory]
            errors = () if system.error is None else (system.error,)
            of_system = about | _system_labels(system)
            results.append(
                _measured_result("network", record, path, of_system, figures, verdict=system.verdict, errors=errors)
            )
    return results


def _operator_results(record: Record, path: Path) -> list[Result]:
    assert record.suite is not None
    cases = {case.label: case for case in record.suite.cases}
    about = labels(suite=record.suite.name, seed=record.recipe.seeds.get("study"))
    results = []
    for system in record.systems:
        for trial in system.trials if system.twin_of is None else ():
            case = cases.get(trial.case) or CaseFacts(label=trial.case, operator="")
            metrics = metric_figures([[MetricRecord.model_validate(metric) for metric in trial.metrics]])
            results.append(
                _measured_result(
                    "operators",
                    record,
                    path,
                    about | _system_labels(system) | _case_labels(case),
                    [*_time_figures(trial, QUANTITIES, trial.setup_ns), *metrics],
                    [f"{quantity}: {reason}" for quantity, reason in trial.unavailable.items()],
                    verdict=worst(trial.verdict, trial.gradients),
                    errors=() if trial.error is None else (trial.error,),
                )
            )
    return results


def _communication_results(record: Record, path: Path) -> list[Result]:
    assert record.suite is not None
    results = []
    for row in Communication(record, path).rows:
        system = record[row.system]
        case = next(c for c in record.suite.cases if c.operator == row.kind.name and c.attributes["bytes"] == row.size)
        trial = next(trial for trial in system.trials if trial.case == case.label)
        errors = () if trial.error is None else (trial.error,)
        if trial.error is None and trial.verdict is None:  # a benchmark whose answers were never looked at has failed
            message = "its results were never checked: it did not come to its end"
            errors = (ErrorRecord(kind="NoVerdict", message=message),)
        places: Any = system.facts["ranks"]
        communicator: Any = system.facts.get("communicator", {})
        size = row.size if row.kind.sized else None
        about = _system_labels(system) | _case_labels(case)
        about |= labels(bytes=size, ranks=row.ranks, seed=record.recipe.seeds.get("data and order"))
        about |= layout_labels([place["host"] for place in places], communicator)
        results.append(
            _measured_result("communication", record, path, about, _row_figures(row), verdict=trial.verdict, errors=errors)
        )
    return results


def _row_figures(row: BenchmarkRow) -> Iterator[Figure]:
    """The time, and each bandwidth, sample by sample: the amount over the time."""
    first = row.pair[0] if row.pair else None
    time = time_figure("time", [operation_blocks(row.blocks, first, row.kind.messages)]) if row.blocks else None
    if time is None:
        return
    yield time
    for name, bandwidth in (("algorithm bandwidth", algorithm_bandwidth), ("bus bandwidth", bus_bandwidth)):
        if amount := bandwidth(row.kind, row.ranks, row.size, 1.0):
            launches = tuple(tuple(amount / np.maximum(group, 1e-9) for group in groups) for groups in time.launches)
            yield Figure(name, "B/s", "higher", launches, "derived from the time")


_PREDICTION = "predicted, not measured"


def read_scaling(path: Path) -> list[Result]:
    """What is predicted for each number of ranks, and what was measured beside it.

    Raises:
        InvalidRecord: The file cannot be read, or holds no such record.
    """
    record = load_scaling(path)
    points = {(point.ranks, point.batch): point for point in record.points}
    measured: dict[tuple[int, int], list[MeasuredRecord]] = {}
    for run in record.measured:
        measured.setdefault((run.ranks, run.batch), []).append(run)
    network = record.recipe.get("network")
    assumptions = [f"assumed: {line}" for line in record.assumptions]
    results = []
    for ranks, batch in dict.fromkeys([*points, *measured]):
        point, runs = points.get((ranks, batch)), measured.get((ranks, batch), [])
        about = labels(
            kind="scaling",
            recipe=record.recipe.get("name"),
            network=network.get("name") if isinstance(network, dict) else None,
            scheme=record.scheme,
            scaling=record.scaling,
            machine=record.machine,
            ranks=ranks,
            batch=batch,
            host=record.environment.hostname,
        )
        figures = _predicted_figures(record, point) if point is not None else []
        launches = tuple((np.asarray(run.steps, float),) for run in runs if len(run.steps))
        if launches:
            remark = f"measured, of the slowest rank: {', '.join(run.file for run in runs)}"
            figures.append(Figure("step", "s", "lower", launches, remark))
        results.append(_result("scaling", record, path, about | system_labels(record.framework), figures, assumptions))
    return results


def _predicted_figures(record: ScalingRecord, point: RanksPointRecord) -> list[Figure | None]:
    interval = f"{_PREDICTION}; 95 % interval of the mean {duration_range(point.low, point.high)}"
    by_simulator = f"{_PREDICTION}; by the simulator"
    return [
        single_figure("predicted step", "s", "lower", point.mean, interval),
        single_figure("predicted speed-up", "", "higher", speed_up(record, point), _PREDICTION),
        single_figure("predicted efficiency", "", "higher", efficiency(record, point), _PREDICTION),
        single_figure("predicted computing", "s", "lower", point.computing, _PREDICTION),
        single_figure("predicted messages", "s", "lower", point.communicating, _PREDICTION),
        single_figure("predicted step, simulated", "s", "lower", point.replayed, by_simulator),
    ]


TO_TARGET = "time to target"


def read_training(path: Path) -> list[Result]:
    """What the runs of each system gave.

    Raises:
        InvalidRecord: The file cannot be read, or holds no such record.
    """
    record = load_training(path)
    check_training(record, path)
    for number, run in enumerate(record.runs):
        if (batch := _batch_label(run.data.get("sampler", {}))) is not None:
            check_count(batch, path, f"runs.{number}.data.sampler.batch_size", 1)
    groups: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for run in sorted(record.runs, key=_failed_early):
        matches = (about for about, runs in groups.items() if _failed_early(run) and runs[0].label == run.label)
        groups.setdefault(next(matches, tuple(_run_labels(run).items())), []).append(run)
    return [_training_result(record, path, dict(about), runs) for about, runs in groups.items()]


def _failed_early(run: RunRecord) -> bool:
    """Whether it failed before it had a network and an optimizer to tell of."""
    return run.error is not None and run.network is None and not run.optimizer


def _training_result(record: TrainingRecord, path: Path, about: dict[str, str], runs: Sequence[RunRecord]) -> Result:
    finished = [run for run in runs if run.stopped_because != INTERRUPTED]
    about = about | labels(
        kind="training",
        host=record.environment.hostname,
        seed=",".join(str(run.seed) for run in runs),
        launches=len(finished),
        epochs=record.recipe.options.get("epochs"),
        steps=record.recipe.options.get("steps"),
    )
    notes = []
    if record.target is not None:
        about["target"] = f"{record.target.score}={record.target.value:g}"
        if finished:
            reached = sum(to_target(run, record.target).reached for run in finished)
            notes.append(f"reached the target: {reached} of {len(finished)} runs")
    if len(finished) < len(runs):
        notes.append("a run that was interrupted counts in no figure")
    errors = tuple(error for run in runs if (error := _run_error(run)) is not None)
    return _result("training", record, path, about, _training_figures(finished, record.target), notes, errors=errors)


def _run_error(run: RunRecord) -> ErrorRecord | None:
    """Its own, or that its loss was lost: what it learned from then on is nothing."""
    if run.error is None and run.lost_from is not None:
        return ErrorRecord(kind="LossNotFinite", message=f"seed {run.seed}: no finite loss from step {run.lost_from} on")
    return run.error


def _run_labels(run: RunRecord) -> dict[str, str]:
    """All that tells a run from others but its seed, on which the digest of the network depends: it begins elsewhere."""
    by_label = system_labels(run.label) | labels(
        data=run.data.get("train", {}).get("name"),
        batch=_batch_label(run.data.get("sampler", {})),
        ranks=1 if run.ranks is None else len(run.ranks.ranks),
    )
    by_label |= framework_labels(run.framework)
    if run.ranks is not None:
        by_label |= layout_labels([rank.local.get("host", "") for rank in run.ranks.ranks], run.ranks.communicator)
    if run.network is not None:
        by_label |= labels(network=run.network.name) | prefix_labels("network", {"parameters": run.network.parameters})
    return by_label | optimizer_labels(run.optimizer, run.ranks is not None)


def _batch_label(sampler: Any) -> Any:
    """The batch of a sampler, or of the one within it."""
    while isinstance(sampler, dict):
        if "batch_size" in sampler:
            return sampler["batch_size"]
        sampler = sampler.get("of")
    return None


def _training_figures(runs: Sequence[RunRecord], target: TargetRecord | None) -> Iterator[Figure | None]:
    if target is not None:  # a run that missed it went on for so long without reaching it
        attempts = [to_target(run, target) for run in runs]
        late = [not attempt.reached for attempt in attempts]
        remark = f"{sum(late)} of {len(late)} runs missed the target: each counts as slower than all that reached it"
        seconds = [attempt.seconds for attempt in attempts]
        yield _runs_figure(TO_TARGET, "s", "lower", seconds, remark if any(late) else "", late if any(late) else ())
    stepped = [run for run in runs if run.steps]
    histories = [run.history() for run in stepped]
    # the last value of each score in each run
    facts = {name: score for run in stepped for name, score in run.scores.items()}
    for name, score in facts.items():
        last = [evaluated for history in histories if (evaluated := final(history, name)) is not None]
        yield _runs_figure(name, score.unit, score.direction, [evaluated.figures[name] for evaluated in last])
    if histories:
        launches = tuple(tuple(rate_groups(history)) for history in histories)
        remark = "of single steps; evaluations and what callbacks do are not counted"
        yield Figure("throughput", "samples/s", "higher", launches, remark)
    yield _runs_figure("time", "s", "lower", [history.wall_ns / NS_IN_A_SECOND for history in histories])
    yield _runs_figure("setup", "s", "lower", [run.setup_ns / NS_IN_A_SECOND for run in stepped])
    yield from metric_figures([run.metrics for run in runs])


def _runs_figure(
    name: str,
    unit: str,
    direction: Direction,
    values: Sequence[float],
    remark: str = "",
    censored: Sequence[bool] = (),
) -> Figure | None:
    launches = tuple((np.array([value], float),) for value in values)
    return Figure(name, unit, direction, launches, remark, tuple(censored)) if launches else None
