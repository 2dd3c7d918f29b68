"""Results of a `Record`: of a network, of operators, or of communication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.distributed.collectives.kinds import algorithm_bandwidth, bus_bandwidth
from deep_bench.distributed.collectives.result import Result as Communication
from deep_bench.distributed.collectives.result import Row, is_communication, operation_blocks
from deep_bench.measure.metric import MetricRecord
from deep_bench.measure.record import CaseFacts, ErrorRecord, Record, SystemRecord, TrialRecord
from deep_bench.measure.storage import load
from deep_bench.network.system import NATIVE, NUMPY
from deep_bench.operators.studies import quantities
from deep_bench.results.reading.figures import measured, named, seconds, single, timed
from deep_bench.results.reading.labels import cell_labels, framework_labels, labels, layout_labels, prefixed
from deep_bench.results.reading.sound import see_measurement
from deep_bench.results.result import Figure, Kind, Result, worst

_NETWORK = {NATIVE: quantities.FORWARD, NUMPY: quantities.NUMPY}
"""Quantities of a network's record under the names that operators have for them."""


def read(path: Path) -> list[Result]:
    """What each system gave, on each problem.

    Raises:
        InvalidRecord: The file cannot be read, or holds no such record.
    """
    record = load(path)
    see_measurement(record, path, is_communication(record))
    if is_communication(record):
        return _communication(record, path)
    return _network(record, path) if record.suite is None else _operators(record, path)


def _made(
    record: Record, path: Path, kind: Kind, by_label: dict[str, str], figures: dict[str, Figure], **fields: Any
) -> Result:
    notes = (*record.notes, *fields.pop("notes", ()), *(["interrupted"] if record.interrupted else []))
    shared = labels(kind=kind, host=record.environment.hostname) | cell_labels(record.recipe.options)
    launches = max((len(f.launches) for f in figures.values()), default=0)
    return Result(
        kind=kind,
        file=path,
        created=record.created,
        labels=by_label | shared | labels(launches=launches),
        figures=figures,
        environment=record.environment,
        complete=record.complete and not record.interrupted,
        notes=notes,
        **fields,
    )


def _system(system: SystemRecord) -> dict[str, str]:
    about = labels(framework=system.framework, system=system.label) | framework_labels(system.facts)
    return about | prefixed("option", system.options)


def _network(record: Record, path: Path) -> list[Result]:
    facts = record.network
    about = labels(seed=record.recipe.seeds.get("run"))
    if facts is not None:
        dtype = next((tensor.dtype for tensor in facts.inputs), None)
        about |= labels(network=facts.name, dtype=dtype) | {"network.sha256": facts.sha256} | prefixed("size", facts.sizes)
    return [
        _made(
            record,
            path,
            "network",
            about | _system(system),
            _network_figures(system),
            verdict=system.verdict,
            errors=() if system.error is None else (system.error,),
        )
        for system in record.systems
        if system.twin_of is None
    ]


def _network_figures(system: SystemRecord) -> dict[str, Figure]:
    names = dict.fromkeys([*_NETWORK, *(samples.quantity for samples in system.samples)])
    return named(
        [
            *(timed(_NETWORK.get(name, name), system.launches(name)) for name in names),
            seconds("first call", system.first_call_ns),
            seconds("setup", system.prepare_ns),
            single("peak memory", "B", "lower", system.peak_memory_bytes, "of the whole process"),
        ]
    )


def _operators(record: Record, path: Path) -> list[Result]:
    assert record.suite is not None
    cases = {case.label: case for case in record.suite.cases}
    about = labels(suite=record.suite.name, seed=record.recipe.seeds.get("study"))
    results = []
    for system in record.systems:
        for trial in system.trials if system.twin_of is None else ():
            case = cases.get(trial.case) or CaseFacts(label=trial.case, operator="")
            results.append(
                _made(
                    record,
                    path,
                    "operators",
                    about | _system(system) | _case(case),
                    _trial_figures(trial),
                    verdict=worst(trial.verdict, trial.gradients),
                    errors=() if trial.error is None else (trial.error,),
                    notes=[f"{quantity}: {reason}" for quantity, reason in trial.unavailable.items()],
                )
            )
    return results


def _case(case: CaseFacts) -> dict[str, str]:
    return labels(case=case.label, operator=case.operator, dtype=case.dtype)


def _trial_figures(trial: TrialRecord) -> dict[str, Figure]:
    names = dict.fromkeys([*quantities.QUANTITIES, *(samples.quantity for samples in trial.samples)])
    return named(
        [
            *(timed(name, trial.launches(name)) for name in names),
            seconds("first call", trial.first_call_ns),
            seconds("setup", trial.setup_ns),
            *measured([[MetricRecord.model_validate(metric) for metric in trial.metrics]]),
        ]
    )


def _communication(record: Record, path: Path) -> list[Result]:
    assert record.suite is not None
    cases = {case.label: case for case in record.suite.cases}
    results = []
    for row in Communication(record, path).rows:
        system = record[row.system]
        label = next(c for c in cases if cases[c].operator == row.kind.name and cases[c].attributes["bytes"] == row.size)
        trial = next(trial for trial in system.trials if trial.case == label)
        places: Any = system.facts["ranks"]
        communicator: Any = system.facts.get("communicator", {})
        about = labels(
            bytes=row.size if row.kind.sized else None,
            ranks=row.ranks,
            seed=record.recipe.seeds.get("data and order"),
        )
        results.append(
            _made(
                record,
                path,
                "communication",
                _system(system) | _case(cases[label]) | about | layout_labels([p["host"] for p in places], communicator),
                _row_figures(row),
                verdict=trial.verdict,
                errors=_errors(trial),
            )
        )
    return results


def _errors(trial: TrialRecord) -> tuple[ErrorRecord, ...]:
    """Its own; a benchmark whose answers were never looked at has failed as well."""
    if trial.error is not None:
        return (trial.error,)
    unseen = ErrorRecord(kind="NoVerdict", message="its results were never checked: it did not come to its end")
    return () if trial.verdict is not None else (unseen,)


def _row_figures(row: Row) -> dict[str, Figure]:
    first = row.pair[0] if row.pair else None
    time = timed("time", [operation_blocks(row.blocks, first, row.kind.messages)]) if row.blocks else None
    if time is None:
        return {}
    rates = [("algorithm bandwidth", algorithm_bandwidth), ("bus bandwidth", bus_bandwidth)]
    return named([time, *(_rate(name, time, of, row) for name, of in rates)])


def _rate(name: str, time: Figure, of: Any, row: Row) -> Figure | None:
    """A bandwidth, sample by sample: the amount over the time."""
    amount = of(row.kind, row.ranks, row.size, 1.0)
    if not amount:
        return None
    launches = tuple(tuple(amount / np.maximum(group, 1e-9) for group in groups) for groups in time.launches)
    return Figure(name, "B/s", "higher", launches, "derived from the time")
