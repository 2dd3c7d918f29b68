"""Results as a table of JUBE.

Source:
    JUBE 2.7, Jülich Supercomputing Centre: glossary, *table* (``style="csv"``), and ``jube/result_types/table.py``. A table
    is a header line and a line for each workpackage; a column is called after its title with the unit in brackets; cells
    are separated by commas and never quoted; a cell without a value is empty; line breaks in cells become spaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_bench.results.export.rows import cell, finite, reason
from deep_bench.results.result import Figure, Result

if TYPE_CHECKING:
    from deep_bench.results.gathering import Results

SEPARATOR = ","
_INSTEAD = ";"


def table(results: Results) -> str:
    """A row for each result: its labels, its verdict, and for each figure the median and the ends of its 95 % interval.

    Args:
        results: What was read.
    """
    labels = list(results.labels())
    figures = {name: figure for result in results for name, figure in result.figures.items()}
    head = ["record", "created", *labels, "verdict", "reason", "complete"]
    head += [title for name, figure in figures.items() for title in _titles(name, figure)]
    lines = [head, *(_cells(result, labels, list(figures)) for result in results)]
    return "".join(SEPARATOR.join(map(_cell, line)) + "\n" for line in lines)


def _titles(name: str, figure: Figure) -> list[str]:
    unit = f"[{figure.unit}]" if figure.unit else ""
    return [f"{title}{unit}" for title in (name, f"{name} low", f"{name} high")]


def _cells(result: Result, labels: list[str], figures: list[str]) -> list[Any]:
    cells = [result.file, result.created.isoformat(), *(result.labels.get(name) for name in labels)]
    cells += [result.outcome, reason(result), str(result.complete).lower()]
    for name in figures:
        figure = result.figures.get(name)
        interval = None if figure is None else figure.interval
        cells.append(None if figure is None else finite(figure.median))
        cells += [None, None] if interval is None else [finite(interval.low), finite(interval.high)]
    return cells


def _cell(value: Any) -> str:
    """JUBE has no quotes: what would be read as the end of a cell is replaced.

    Example:
        >>> _cell("a,b"), _cell(None), _cell(0.1)
        ('a;b', '', '0.1')
    """
    text = str(cell(value)).replace(SEPARATOR, _INSTEAD)
    return " ".join(text.splitlines())
