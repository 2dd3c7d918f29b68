"""The summary: each system on each problem; and all figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite

import numpy as np

from deep_bench.distributed.scaling.record import ScalingRecord
from deep_bench.results.report.model import Block, Cell, Column, Lines, Sign, Table, Text, clean
from deep_bench.results.report.naming import further, of_kinds, system_of, title_of
from deep_bench.results.report.predictions import predicted
from deep_bench.results.report.sources import Source
from deep_bench.results.result import Figure, Result
from deep_bench.results.table import amount, limits, problem

MOST_ROWS = 5_000
"""Rows of a summary, and of all figures of a kind together, at most."""

_MOST_FIGURES = 1_500
_MOST_REASONS = 12
_PREDICTED = "predicted"


def blocks(results: Sequence[Result], known: Sequence[Source]) -> list[Block]:
    """A table for each kind of record; the verdict stands before the time.

    Args:
        results: All of them.
        known: Their records, as far as they were read again.
    """
    parts: list[Block] = []
    for kind, kind_results in of_kinds(results).items():
        predictions = [source.record for source in known if source.kind == kind and isinstance(source.record, ScalingRecord)]
        if predictions and len({result.file for result in kind_results}) == len(predictions):
            parts += [block for record in predictions for block in predicted(record)]
            continue
        parts.append(_table(kind, kind_results))
        parts += _aside(kind_results)
        parts += _without_interval(kind_results)
        if len(kind_results) > MOST_ROWS:
            parts.append(_more(MOST_ROWS, len(kind_results)))
    return parts


def _aside(results: Sequence[Result]) -> list[Block]:
    """Which samples the n of a table does not count, or counts with another time."""
    shown = results[:MOST_ROWS]
    labels = further(shown)
    lines = []
    for number, result in enumerate(shown):
        if remark := _preempted(result.main):
            apart = "".join(f", {clean(name)} {values[number]}" for name, values in labels.items())
            lines.append(f"{clean(system_of(result), 120)} on {clean(problem(result), 160)}{apart}: {remark}")
    overflow = [f"and {len(lines) - _MOST_REASONS} more, which All figures has"] if len(lines) > _MOST_REASONS else []
    return [Lines((*lines[:_MOST_REASONS], *overflow))] if lines else []


def _preempted(figure: Figure | None) -> str:
    if figure is None or not figure.aside:
        return ""
    every = np.concatenate(figure.aside)
    ends = " to ".join(clean(amount(float(end), figure.unit)) for end in (every.min(), every.max()))
    return (
        f"the median is of {clean(figure.remark, 200)}; {len(every)} samples were preempted, another process having the "
        f"processor: they took {ends} as they were timed"
    )


def _without_interval(results: Sequence[Result]) -> list[Block]:
    """Why figures of the table have no interval, and what to do."""
    reasons = Counter(r.main.without_interval for r in results[:MOST_ROWS] if r.main is not None and not _predicts(r.main))
    lines = tuple(f"No interval of {count} of these: {clean(reason)}." for reason, count in reasons.items() if reason)
    return [Lines(lines[:_MOST_REASONS])] if lines else []


def _table(kind: str, results: Sequence[Result]) -> Table:
    shown = results[:MOST_ROWS]
    telling = further(shown)
    names = list(dict.fromkeys(result.main.name for result in shown if result.main is not None))
    several = len(names) > 1
    middle = "median" if any(r.main is not None and r.main.count > 1 for r in shown) else "value"
    columns = (
        Column("problem"), Column("system"), *(Column(clean(name)) for name in telling), Column("verdict", first=True),
        *([Column("figure", first=True)] if several else []), Column(middle, True, first=True),
        Column("95 % interval", True), Column("interval over"), Column("n", True), Column("significant bits", True),
    )  # fmt: skip
    rows = [_row(result, [values[number] for values in telling.values()], several) for number, result in enumerate(shown)]
    subtitle = (
        f"{names[0]}, {next(r.main for r in shown if r.main is not None).direction} is better" if len(names) == 1 else ""
    )
    caption = f"{title_of(kind)}{f': {clean(subtitle)}' if subtitle else ''}"
    return Table(caption, columns, tuple(rows), keys=2)


def _row(result: Result, telling: Sequence[str], several: bool) -> tuple[Cell, ...]:
    figure = result.main
    bits = result.verdict.significant_bits if result.verdict is not None else None
    return (
        clean(problem(result), 160),
        clean(system_of(result), 120),
        *telling,
        Sign(result.outcome),
        *([clean(figure.name) if figure is not None else "–"] if several else []),
        *figure_cells(figure, result),
        "–" if bits is None else f"{bits:.1f}",
    )


def figure_cells(figure: Figure | None, result: Result) -> tuple[str, str, str, str]:
    """Median, interval, what it is over, and n."""
    if figure is None:
        return "–", "–", "–", "0"
    return _value(figure), _limits(figure), basis(figure, result), _counted(figure)


def _value(figure: Figure) -> str:
    return clean(amount(figure.median, figure.unit)) if isfinite(figure.median) or figure.unit == "s" else "–"


def _limits(figure: Figure) -> str:
    return "too few" if figure.interval is None else clean(limits(figure))


def basis(figure: Figure, result: Result) -> str:
    """What the interval is over.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> import numpy as np
        >>> result = Result("training", Path("r.json"), datetime(2026, 1, 1), {}, {})
        >>> basis(Figure("time", "s", "lower", tuple((np.array([float(n)]),) for n in range(7))), result)
        '7 runs'
    """
    if _predicts(figure):
        return "predicted, not measured"
    launches, runs = len(figure.medians), result.kind == "training"
    if launches > 1:
        return f"{launches} {'runs' if runs else 'launches'}"
    where = "one run" if runs else "one launch"
    return where if figure.interval is None else f"{figure.interval.basis} of {where}"


def _predicts(figure: Figure) -> bool:
    return _PREDICTED in figure.name or figure.remark.startswith(_PREDICTED)


def _counted(figure: Figure) -> str:
    return "–" if _PREDICTED in figure.name else str(figure.count)


def every_figure(results: Sequence[Result]) -> list[Block]:
    """All figures of all results, folded."""
    parts: list[Block] = []
    for kind, kind_results in of_kinds(results).items():
        telling = further(kind_results)
        rows = [
            (clean(problem(result), 160), clean(system_of(result), 120), *(values[number] for values in telling.values()),
             clean(figure.name), *figure_cells(figure, result), clean(figure.remark, 200))
            for number, result in enumerate(kind_results) for figure in result.figures.values()
        ]  # fmt: skip
        columns = (
            Column("problem"), Column("system"), *(Column(clean(name)) for name in telling), Column("figure", first=True),
            Column("median", True, first=True), Column("95 % interval", True), Column("interval over"), Column("n", True),
            Column("remark"),
        )  # fmt: skip
        shown = tuple(rows[:_MOST_FIGURES])
        parts.append(Table(f"{title_of(kind)}: all figures", columns, shown, keys=2, folded=True))
        if len(rows) > _MOST_FIGURES:
            parts.append(_more(_MOST_FIGURES, len(rows)))
    return parts


def _more(shown: int, total: int) -> Text:
    return Text(f"The first {shown} of {total} rows; all are in the records: deep-bench export.")
