"""Predictions of scaling as tables: each says that it is one."""

from __future__ import annotations

from deep_bench.distributed.scaling.record import PointRecord, ScalingRecord
from deep_bench.distributed.scaling.result import efficiency, speed_up, where_it_stops
from deep_bench.measure.units import duration, duration_range, share, significant
from deep_bench.results.report.model import Block, Column, Lines, Table, clean


def predicted(record: ScalingRecord) -> list[Block]:
    """The step, its parts and the speed-up for each number of ranks; what was measured beside it; and where it stops."""
    measured = {run.ranks: run for run in record.measured}
    columns = [
        Column("ranks", True), Column("samples of a rank", True), Column("step, predicted mean", True),
        Column("95 % interval", True), Column("90 % of steps", True), Column("computing", True), Column("messages", True),
        Column("speed-up", True), Column("efficiency", True), *([Column("step, measured mean", True)] if measured else []),
    ]  # fmt: skip
    rows = tuple(
        (
            *_row(record, point),
            *([duration(measured[point.ranks].mean) if point.ranks in measured else "–"] if measured else []),
        )
        for point in record.points
    )
    batch = f"a batch of {record.whole_batch} {'together' if record.scaling == 'strong' else 'on each rank'}"
    caption = (
        f"Predicted, not measured: {record.title} with {record.scheme} on {record.framework}, {record.scaling} scaling, "
        f"{batch}; one rank alone takes {duration(record.alone)} a step, measured"
    )
    lines = (
        [*where_it_stops(record), f"machine: {record.machine}", f"simulator: {record.simulator}"] if record.points else []
    )
    if any(point.beyond for point in record.points):
        lines.append("*: more ranks than measured steps; see the assumptions among the notes")
    return [Table(clean(caption), tuple(columns), rows), Lines(tuple(map(clean, lines)))]


def _row(record: ScalingRecord, point: PointRecord) -> tuple[str, ...]:
    return (
        f"{point.ranks}{'*' if point.beyond else ''}",
        str(point.batch),
        duration(point.mean),
        duration_range(point.low, point.high),
        duration_range(point.least, point.most),
        duration(point.computing),
        duration(point.communicating),
        significant(speed_up(record, point)),
        share(efficiency(record, point)),
    )
