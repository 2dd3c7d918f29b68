"""The outcome of an experiment as text."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.experiments.acceptance import Judged
from deep_bench.experiments.outcome import CellOutcome, Outcome
from deep_bench.measure.tables import columns, print_line, print_table
from deep_bench.measure.units import duration
from deep_bench.results.table import amount, limits

if TYPE_CHECKING:
    from deep_bench.results.result import Figure, Result

_MOST_LINES = 12
_NONE = "–"
_WORST = ("failed", "wrong", "reduced precision", "cannot tell", "no information", "unchecked", "right")


def as_text(outcome: Outcome) -> str:
    """A row for each cell and each system in it, then why cells failed and what is not accepted."""
    out = io.StringIO()
    console = Console(file=out, width=columns(), highlight=False, color_system=None)
    metrics = outcome.store.experiment.fields.metrics
    table = Table("cell", "system", "state", "verdict", "accepted", *(metrics or ["figure"]))
    for cell in outcome.cells:
        for row in _rows(cell, metrics, outcome.jobs.get(cell.cell.id, "")):
            table.add_row(*map(Text, row))
    print_table(console, table, keys=2)
    for line in _below(outcome):
        print_line(console, line)
    return out.getvalue().rstrip("\n")


def _rows(cell: CellOutcome, metrics: Sequence[str], job: str) -> Iterator[list[str]]:
    systems: dict[str, list[Result]] = {}
    for result in cell.results:
        systems.setdefault(result.labels.get("system", ""), []).append(result)
    for system, results in systems.items() or [("", [])]:
        about = {result.name for result in results}
        judgements = [
            judgement for judgement in cell.judgements if not systems or not judgement.result or judgement.result in about
        ]
        figures = [_figure(results, name) for name in metrics] or [_figure(results, None)]
        state = f"{cell.state.state}, job {job}" if job else cell.state.state
        yield [cell.cell.name, system, state, _verdict(results), as_accepted(judgements), *figures]


def as_accepted(judgements: Sequence[Judged]) -> str:
    """Whether all conditions are met, and what makes that uncertain."""
    if not judgements:
        return _NONE
    met = sum(judgement.met for judgement in judgements)
    if met < len(judgements):
        return f"no: {met} of {len(judgements)}"
    return ", ".join(["yes", *dict.fromkeys(judgement.remark for judgement in judgements if judgement.remark)])


def _verdict(results: Sequence[Result]) -> str:
    """The worst of them, and how many are so."""
    counts = Counter(result.outcome for result in results)
    if not counts:
        return _NONE
    worst = min(counts, key=lambda word: _WORST.index(word) if word in _WORST else 0)
    return worst if len(results) == 1 else f"{worst} ({counts[worst]} of {len(results)})"


def _figure(results: Sequence[Result], name: str | None) -> str:
    """One figure with its interval; of the cases of a suite the sum of their times, else the least and the most."""
    figures = [figure for r in results if (figure := r.main if name is None else r.figures.get(name)) is not None]
    if not figures:
        return _NONE
    label = f"{figures[0].name} " if name is None else ""
    if len(figures) == 1:
        return label + _one(figures[0])
    values = [figure.median for figure in figures]
    if results[0].kind == "operators" and {figure.unit for figure in figures} == {"s"}:
        return f"{label}{duration(float(np.sum(values)))} in all, {len(figures)} cases"
    return f"{label}{amount(min(values), figures[0].unit)} to {amount(max(values), figures[0].unit)}"


def _one(figure: Figure) -> str:
    text = limits(figure)
    return amount(figure.median, figure.unit) + (f" ({text})" if figure.interval is not None else "")


def _below(outcome: Outcome) -> Iterator[str]:
    lines = []
    for cell in outcome.cells:
        state = cell.state
        if state.state in ("failed", "skipped", "interrupted", "left") or (state.why and not cell.ok):
            lines.append(f"{cell.cell.name}: {state.state}: {state.why}")
        lines += [f"{cell.cell.name}: left out: {system}" for system in state.left_out if state.state != "skipped"]
        lines += [f"{cell.cell.name}: {judged}" for judged in cell.missed]
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"and {len(lines) - _MOST_LINES} more: deep-bench recipe status {outcome.store.path} --json"
    counts = Counter(cell.state.state for cell in outcome.cells)
    summary = ", ".join(f"{count} {state}" for state, count in counts.items())
    count = len(outcome.cells)
    yield f"{count} cell{'s' if count != 1 else ''}: {summary}; {'all accepted' if outcome.ok else 'not all accepted'}"
    yield f"records: {outcome.store.path}"
