"""What failed, and which files were not read."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.results.gathering import Refused
from deep_bench.results.report.model import Block, Code, Column, Table, Text, clean, clean_lines
from deep_bench.results.report.naming import system_of
from deep_bench.results.result import Result
from deep_bench.results.table import problem

_MOST = 60
_DETAILS = 3_000
_ERRORS = (Column("system"), Column("problem"), Column("error"), Column("message"))


def blocks(results: Sequence[Result], refused: Sequence[Refused]) -> list[Block]:
    """Each error with its details, and each file that was not read with the reason."""
    parts = [*_errors(results), *_files(refused)]
    return parts or [Text("Nothing failed, and every file was read.")]


def _errors(results: Sequence[Result]) -> list[Block]:
    pairs = [(result, error) for result in results for error in result.errors]
    if not pairs:
        return []
    shown = pairs[:_MOST]
    rows = tuple((clean(system_of(r), 120), clean(problem(r), 160), clean(e.kind), clean(e.message)) for r, e in shown)
    details = [
        Code(clean_lines(error.details[-_DETAILS:]), clean(f"{system_of(result)}: details"))
        for result, error in shown
        if error.details.strip()
    ]
    overflow = [Text(f"{len(pairs) - _MOST} more errors are in the records.")] if len(pairs) > _MOST else []
    return [Table("Errors", _ERRORS, rows, keys=2, wordy=True), *details, *overflow]


def _files(refused: Sequence[Refused]) -> list[Block]:
    if not refused:
        return []
    rows = tuple((clean(refusal.file, 200), clean(refusal.reason)) for refusal in refused[:_MOST])
    overflow = [Text(f"{len(refused) - _MOST} more were not read.")] if len(refused) > _MOST else []
    return [Table("Files that were not read", (Column("file"), Column("why")), rows, wordy=True), *overflow]
