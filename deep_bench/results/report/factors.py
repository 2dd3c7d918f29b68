"""All factors: what was the same everywhere, and what varied."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.results.report.model import Block, Column, Heading, Lines, Table, clean
from deep_bench.results.report.naming import listed, of_kinds, title_of
from deep_bench.results.result import Result

_VALUES = 12
_NOTES = 40


def blocks(results: Sequence[Result]) -> list[Block]:
    """A table of all labels of each kind of record, and what the records note."""
    parts: list[Block] = []
    for kind, kind_results in of_kinds(results).items():
        names = dict.fromkeys(name for result in kind_results for name in result.labels if name != "kind")
        rows = tuple(_row(name, kind_results) for name in names)
        columns = (Column("factor"), Column("values", True), Column("which"))
        parts.append(Table(f"{title_of(kind)}: factors", columns, rows, folded=True, wordy=True))
    notes = list(dict.fromkeys(clean(note) for result in results for note in result.notes))
    if notes:
        extra = len(notes) - _NOTES
        parts.append(Heading("What the records note"))
        parts.append(Lines((*notes[:_NOTES], *([f"and {extra} more notes, which are in the records"] if extra > 0 else []))))
    return parts


def _row(name: str, results: Sequence[Result]) -> tuple[str, str, str]:
    values = list(dict.fromkeys(result.labels[name] for result in results if name in result.labels))
    without = sum(name not in result.labels for result in results)
    beside = f"; {without} results have none" if without else ""
    return clean(name, 120), str(len(values)), f"{listed([clean(value, 160) for value in values], _VALUES)}{beside}"
