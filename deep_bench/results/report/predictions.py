"""Predictions of scaling as tables: each says that it is one."""

from __future__ import annotations

from deep_bench.distributed.scaling.record import ScalingRecord
from deep_bench.distributed.scaling.result import where_it_stops
from deep_bench.distributed.scaling.rows import Rows, beside, steps
from deep_bench.results.report.model import Block, Column, Lines, Table, clean


def predicted(record: ScalingRecord) -> list[Block]:
    """The step, its parts and the speed-up for each number of ranks; what was measured beside it; and where it stops."""
    parts: list[Block] = [_table(steps(record))]
    if record.measured:
        parts.append(_table(beside(record)))
    lines = (
        [*where_it_stops(record), f"machine: {record.machine}", f"simulator: {record.simulator}"] if record.points else []
    )
    if any(point.beyond for point in record.points):
        lines.append("*: more ranks than measured steps; see the assumptions among the notes")
    return [*parts, Lines(tuple(map(clean, lines)))]


def _table(rows: Rows) -> Table:
    """The rows without columns that have nothing in them, such as those of a simulator that was not asked."""
    places = [place for place, cells in enumerate(zip(*rows.cells, strict=True)) if set(cells) != {"–"}]
    columns = tuple(Column(rows.columns[place].strip(), True) for place in places)
    cells = tuple(tuple(clean(row[place]) for place in places) for row in rows.cells)
    return Table(clean(f"{rows.title[:1].upper()}{rows.title[1:]}"), columns, cells)
