"""Predictions of scaling as tables: each says that it is one."""

from __future__ import annotations

from deep_bench.distributed.scaling.record import ScalingRecord
from deep_bench.distributed.scaling.result import where_it_stops
from deep_bench.distributed.scaling.rows import Rows, beside, steps
from deep_bench.results.report.model import Block, Column, Lines, Table, clean


def predicted(record: ScalingRecord) -> list[Block]:
    """The step, its parts and the speed-up for each number of ranks; what was measured beside it; and where it stops."""
    found: list[Block] = [_table(steps(record))]
    if record.measured:
        found.append(_table(beside(record)))
    lines = (
        [*where_it_stops(record), f"machine: {record.machine}", f"simulator: {record.simulator}"] if record.points else []
    )
    if any(point.beyond for point in record.points):
        lines.append("*: more ranks than measured steps; see the assumptions among the notes")
    return [*found, Lines(tuple(map(clean, lines)))]


def _table(rows: Rows) -> Table:
    """The rows without columns that have nothing in them, such as those of a simulator that was not asked."""
    kept = [place for place, cells in enumerate(zip(*rows.cells, strict=True)) if set(cells) != {"–"}]
    columns = tuple(Column(rows.columns[place].strip(), True) for place in kept)
    cells = tuple(tuple(clean(row[place]) for place in kept) for row in rows.cells)
    return Table(clean(f"{rows.title[:1].upper()}{rows.title[1:]}"), columns, cells)
