"""Results of a `ScalingRecord`: one for each number of ranks. What is predicted says so in its name and its remark."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deep_bench.distributed.scaling.record import MeasuredRecord, PointRecord, ScalingRecord, load_scaling
from deep_bench.distributed.scaling.result import efficiency, speed_up
from deep_bench.measure.units import duration_range
from deep_bench.results.reading.figures import named, single
from deep_bench.results.reading.labels import cell_labels, labels, system_labels
from deep_bench.results.result import Figure, Result

_PREDICTED = "predicted, not measured"


def read(path: Path) -> list[Result]:
    """What is predicted for each number of ranks, and what was measured beside it.

    Raises:
        InvalidRecord: The file cannot be read, or holds no such record.
    """
    record = load_scaling(path)
    points = {(point.ranks, point.batch): point for point in record.points}
    beside: dict[tuple[int, int], list[MeasuredRecord]] = {}
    for run in record.measured:
        beside.setdefault((run.ranks, run.batch), []).append(run)
    return [_result(record, path, at, points.get(at), beside.get(at, [])) for at in dict.fromkeys([*points, *beside])]


def _result(
    record: ScalingRecord, path: Path, at: tuple[int, int], point: PointRecord | None, beside: list[MeasuredRecord]
) -> Result:
    network = record.recipe.get("network")
    about = labels(
        kind="scaling",
        recipe=record.recipe.get("name"),
        network=network.get("name") if isinstance(network, dict) else None,
        scheme=record.scheme,
        scaling=record.scaling,
        machine=record.machine,
        ranks=at[0],
        batch=at[1],
        host=record.environment.hostname,
    )
    return Result(
        kind="scaling",
        file=path,
        created=record.created,
        labels=about | system_labels(record.framework) | cell_labels(record.recipe),
        figures=named([*(_predicted(record, point) if point is not None else ()), _measured(beside)]),
        environment=record.environment,
        notes=(*record.notes, *(f"assumed: {line}" for line in record.assumptions)),
    )


def _predicted(record: ScalingRecord, point: PointRecord) -> list[Figure | None]:
    interval = f"{_PREDICTED}; 95 % interval of the mean {duration_range(point.low, point.high)}"
    by_simulator = f"{_PREDICTED}; by the simulator"
    return [
        single("predicted step", "s", "lower", point.mean, interval),
        single("predicted speed-up", "", "higher", speed_up(record, point), _PREDICTED),
        single("predicted efficiency", "", "higher", efficiency(record, point), _PREDICTED),
        single("predicted computing", "s", "lower", point.computing, _PREDICTED),
        single("predicted messages", "s", "lower", point.communicating, _PREDICTED),
        single("predicted step, simulated", "s", "lower", point.replayed, by_simulator),
    ]


def _measured(runs: list[MeasuredRecord]) -> Figure | None:
    launches = tuple((np.asarray(run.steps, float),) for run in runs if len(run.steps))
    remark = f"measured, of the slowest rank: {', '.join(run.file for run in runs)}"
    return Figure("step", "s", "lower", launches, remark) if launches else None
