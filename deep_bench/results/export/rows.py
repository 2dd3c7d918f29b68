"""Results as rows of plain values: one for each figure, or one for each sample."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import isnan
from typing import Any, TypeAlias

from deep_bench.results.result import Figure, Result

Row: TypeAlias = dict[str, Any]

BEFORE: dict[str, type] = {"record": str, "created": str}
"""Columns before the labels."""

ABOUT: dict[str, type] = {
    "verdict": str, "reason": str, "significant bits": float, "errors": str, "complete": bool,
    "figure": str, "unit": str, "direction": str, "remark": str,
}  # fmt: skip
"""Columns after the labels, of every row."""

SUMMARY: dict[str, type] = {"value": float, "low": float, "high": float, "basis": str, "n": int, "censored": int}
"""Further columns of a row for a figure: the median, its 95 % interval, over what that was taken, the number of samples, and
how many launches did not reach what the figure is the time to."""

SAMPLE: dict[str, type] = {"launch": int, "block": int, "sample": int, "value": float, "censored": bool}
"""Further columns of a row for a sample."""

_TAKEN = frozenset({*BEFORE, *ABOUT, *SUMMARY, *SAMPLE})
_FORMULA = re.compile(r"[=+@\t\r-]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def columns(results: Iterable[Result], samples: bool = False) -> dict[str, type]:
    """All columns of the rows, in their order, with the types of their values; each may be ``None`` too.

    Args:
        results: What was read.
        samples: Of the rows of samples.
    """
    names = sorted({name for result in results for name in result.labels})
    return BEFORE | {_column(name): str for name in names} | ABOUT | (SAMPLE if samples else SUMMARY)


def rows(results: Iterable[Result]) -> Iterator[Row]:
    """One row for each figure of each result, and one for a result without figures.

    Yields:
        Columns to values: the record's file, all labels, the verdict, the figure, and `SUMMARY`. A label that is called as
        another column has ``label.`` before its name.
    """
    for result in results:
        figures: list[Figure | None] = [*result.figures.values()]
        for figure in figures or [None]:
            yield _about(result, figure) | (_summary(figure) if figure is not None else {})


def sample_rows(results: Iterable[Result]) -> Iterator[Row]:
    """One row for each sample: as `rows`, with `SAMPLE` in the place of `SUMMARY`."""
    for result in results:
        for figure in result.figures.values():
            shared, late = _about(result, figure), figure.censored or (False,) * len(figure.launches)
            for launch, (groups, never) in enumerate(zip(figure.launches, late, strict=True)):
                for block, group in enumerate(groups):
                    for sample, value in enumerate(group.tolist()):
                        at = {"launch": launch, "block": block, "sample": sample}
                        yield shared | at | {"value": value, "censored": never}


def as_json(result: Result) -> dict[str, Any]:
    """A result as plain JSON types, without samples; what is not finite is ``None``."""
    return {
        "record": str(result.file),
        "created": result.created.isoformat(),
        "kind": result.kind,
        "name": result.name,
        "labels": dict(result.labels),
        "verdict": result.outcome,
        "reason": reason(result),
        "complete": result.complete,
        "figures": {
            name: {"unit": figure.unit, "direction": figure.direction, "remark": figure.remark}
            | {key: finite(value) for key, value in _summary(figure).items()}
            for name, figure in result.figures.items()
        },
        "notes": list(result.notes),
    }


def reason(result: Result) -> str:
    """Why the outcome is what it is: the first line of the first error, or the verdict's reason."""
    if result.errors:
        return next(iter(result.errors[0].message.splitlines()), result.errors[0].kind)
    return result.verdict.reason if result.verdict is not None else ""


def finite(value: Any) -> Any:
    """A value as JSON has it: ``None`` for a number that is not finite.

    Example:
        >>> finite(1.5), finite(float("inf")), finite("right")
        (1.5, None, 'right')
    """
    return None if isinstance(value, float) and (isnan(value) or abs(value) == float("inf")) else value


def cell(value: Any) -> Any:
    """A value as a table has it: spreadsheets run what begins as a formula, so that text gets a quote before it.

    Example:
        >>> cell("=HYPERLINK(1)"), cell("-1.5"), cell(-1.5), cell(True), cell(None)
        ("'=HYPERLINK(1)", '-1.5', -1.5, 'true', '')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return "" if value is None else value


def _column(label: str) -> str:
    return f"label.{label}" if label in _TAKEN else label


def _about(result: Result, figure: Figure | None) -> Row:
    row = {
        "record": str(result.file),
        "created": result.created.isoformat(),
        **{_column(name): value for name, value in result.labels.items()},
        "verdict": result.outcome,
        "reason": reason(result),
        "significant bits": result.verdict.significant_bits if result.verdict is not None else None,
        "errors": "; ".join(f"{error.kind}: {error.message}" for error in result.errors),
        "complete": result.complete,
        "figure": figure.name if figure is not None else None,
        "unit": figure.unit if figure is not None else None,
        "direction": figure.direction if figure is not None else None,
        "remark": figure.remark if figure is not None else None,
    }
    return {name: _encodable(value) for name, value in row.items()}


def _encodable(value: Any) -> Any:
    """A text without halves of characters, which JSON may have and UTF-8 cannot."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _summary(figure: Figure) -> Row:
    interval = figure.interval
    return {
        "value": figure.median,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "basis": None if interval is None else interval.basis,
        "n": figure.count,
        "censored": sum(figure.censored),
    }
