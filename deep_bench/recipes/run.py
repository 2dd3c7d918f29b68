"""Running an experiment: cell by cell here, or as jobs of SLURM; going on with one; and what became of it.

`Outcome` has all cells with their verdicts, says whether what they found is accepted, and is told as text.
"""

from __future__ import annotations

import io
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.errors import InvalidArgument, shortened
from deep_bench.measure.progress import Bars
from deep_bench.measure.units import duration
from deep_bench.recipes.acceptance import VERDICT, RuleOutcome, judge_rules
from deep_bench.recipes.cell import Cell
from deep_bench.recipes.cell_run import (
    ENDED,
    OUTPUT,
    CellState,
    Store,
    is_disk_full,
    last_lines,
    measure_cell,
    space_message,
)
from deep_bench.recipes.recipe import Experiment, load_experiment, select_cells
from deep_bench.recipes.requirements import build_environments
from deep_bench.recipes.slurm import active_jobs, can_ask, job_of, run_jobs
from deep_bench.records.table import columns, print_line, print_table
from deep_bench.results.results import amount_text, interval_text

if TYPE_CHECKING:
    from deep_bench.results.result import Result
    from deep_bench.results.results import Results

Launcher: TypeAlias = Literal["local", "slurm"]


def run_experiment(
    experiment: Experiment | str | Path,
    folder: str | Path,
    *,
    only: str | Sequence[str] = (),
    allow_code: bool = False,
    launcher: Launcher = "local",
    wait: bool = True,
    progress: bool = True,
) -> Outcome:
    """Run the cells of a recipe that have not ended yet.

    Each cell is a process of its own, so that one that crashes, hangs or runs out of memory is this cell's result and stops
    no other. Ctrl-C ends the running cell; all that is there is kept.

    Args:
        experiment: The recipe, or what `load_experiment` reads it from: the name of one that ships, or a file.
        folder: A new folder, or that of an earlier run of the same recipe.
        only: ``factor=value``, or several: only cells that have these.
        allow_code: Whether a recipe that is read may run code.
        launcher: ``"local"``, or ``"slurm"`` for jobs.
        wait: For ``"slurm"``: whether to wait until the jobs have ended.
        progress: Whether to show a bar on a terminal.

    Returns:
        What became of all cells.

    Raises:
        InvalidArgument: The recipe is none; the folder holds something else, or another recipe, which is told; or ``only``
            or ``launcher`` names what there is not.
        InUse: Another process runs cells there.
        NotWritten: There is no space for what is found; all that was written before is kept.
        WorkerError: An environment that the recipe declares cannot be built.

    Example:
        >>> import tempfile
        >>> from deep_bench.recipes import load_experiment
        >>> recipe = load_experiment("small-network", "fixed.on=reference", "fixed.budget=0.2s", "fixed.twin=false")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     outcome = run_experiment(recipe, folder, only=["batch=1"], progress=False)
        ...     [(one.cell.name, one.state.state, one.ok) for one in outcome.cells]
        [('batch=1', 'done', True), ('batch=64', 'waiting', False)]
    """
    recipe = experiment if isinstance(experiment, Experiment) else load_experiment(experiment, allow_code=allow_code)
    _check_launcher(launcher)
    requested = [only] if isinstance(only, str) else only
    cells = select_cells(recipe.cells, requested, recipe.factors)
    if not cells:
        raise InvalidArgument(f"no cell has {' and '.join(requested)}", "values that occur together")
    return _run(Store.begun(folder, recipe), cells, ENDED, launcher, wait, progress)


def resume_experiment(
    folder: str | Path,
    *,
    failed: bool = False,
    allow_code: bool = False,
    launcher: Launcher = "local",
    wait: bool = True,
    progress: bool = True,
) -> Outcome:
    """Go on where a run has ended: all cells that are not done, skipped or failed are measured.

    Args:
        folder: Of the run.
        failed: Whether those that failed, or were skipped, are measured again; what they left is kept in ``.earlier`` there.
        allow_code: Whether the recipe may run code, if it does.
        launcher, wait, progress: As in `run_experiment`.

    Raises:
        InvalidRecord: It is no such folder, or damaged.
        InvalidArgument: The recipe runs code, and that is not allowed; or there is no such launcher.
        InUse: Another process runs cells there.
        NotWritten: As `run_experiment`.
    """
    _check_launcher(launcher)
    store = Store(Path(folder), allow_code=allow_code)
    return _run(store, store.experiment.cells, ("done",) if failed else ENDED, launcher, wait, progress)


def experiment_status(folder: str | Path) -> Outcome:
    """What became of the cells of a run so far; nothing is run.

    Args:
        folder: Of the run.

    Raises:
        InvalidRecord: It is no such folder, or damaged.
    """
    return Outcome(Store(Path(folder), checked=False))


def _check_launcher(launcher: str) -> None:
    if launcher not in get_args(Launcher):
        raise InvalidArgument(f"the launcher {launcher!r}", f"one of {', '.join(get_args(Launcher))}")


def _run(
    store: Store, cells: Sequence[Cell], ended: Sequence[str], launcher: Launcher, wait: bool, progress: bool
) -> Outcome:
    with store.alone():
        todo = [cell for cell in cells if store.state(cell).state not in ended]
        if todo:
            build_environments(store, progress)
        if launcher == "slurm":
            return Outcome(store, interrupted=run_jobs(store, todo, wait=wait, progress=progress))
        active = active_jobs(store)
        return Outcome(store, interrupted=_run_here(store, [cell for cell in todo if cell.id not in active], progress))


def _run_here(store: Store, cells: Sequence[Cell], progress: bool) -> bool:
    """Measure cells one after the other; whether it was interrupted."""
    whole, begin = store.experiment.fields.limits.whole, perf_counter()
    bars = Bars(progress)
    bars.phase(store.experiment.name, len(cells), "cells")
    try:
        for cell in cells:
            if whole is not None and perf_counter() - begin > whole:
                reason = f"the {whole:g} s for the whole recipe were spent"
                store.keep(cell, store.state(cell).model_copy(update={"state": "left", "why": reason}))
            else:
                bars.at(cell.name)
                measure_cell(store, cell)
            bars.advance()
    except KeyboardInterrupt:
        return True
    finally:
        bars.close()
    return False


_MOST_CHARACTERS = 400


def current_state(store: Store, cell: Cell, jobs: Mapping[str, str]) -> CellState:
    """What became of a cell; one that nobody runs any more is interrupted.

    Args:
        store: The experiment's folder.
        cell: One of its cells.
        jobs: Cell to its job, of those that SLURM has in its queue.
    """
    state = store.state(cell)
    reason = _why_gone(store, cell, state, jobs) if state.state in ("running", "submitted") else ""
    current = store.state(cell) if reason else state  # it may have ended between the two looks
    return state.model_copy(update={"state": "interrupted", "why": reason}) if reason and current == state else current


def _why_gone(store: Store, cell: Cell, state: CellState, jobs: Mapping[str, str]) -> str:
    """Why a cell does not run although its state says so; empty if it does, or nobody here can tell."""
    job = job_of(store, cell) if state.state == "submitted" or state.job else ""
    if job:
        gone = cell.id not in jobs and can_ask()
        return f"its job {job} is gone from SLURM's queue and left no result" if gone else ""
    if store.runner or state.host not in ("", socket.gethostname()):
        return ""
    folder = store.folder(cell)
    parts = ["the process that ran it is gone"]
    if output := last_lines(folder / OUTPUT) if (folder / OUTPUT).is_file() else "":
        parts.append(f"it said last: {shortened(space_message(output) or output, _MOST_CHARACTERS)}")
    if is_disk_full(folder):
        parts.append("no space is left on the disk")
    return "; ".join([*parts, f"what it had is kept in {folder}", f"resume: {store.resume}"])


@dataclass(frozen=True)
class CellOutcome:
    """One cell.

    Args:
        cell: What was to be measured.
        state: What became of it.
        folder: Where its records are.
        judgements: What its results have to say to what is accepted.
        results: What it found; empty while it is not done.
    """

    cell: Cell
    state: CellState
    folder: Path
    judgements: Sequence[RuleOutcome]
    results: Results

    @property
    def missed(self) -> list[RuleOutcome]:
        """The conditions that are not fulfilled."""
        return [judgement for judgement in self.judgements if not judgement.met]

    @property
    def ok(self) -> bool:
        """Whether it is done, nothing failed, and all that it found is accepted; without a condition on verdicts nothing
        may be wrong either. A cell that was skipped counts for nothing.
        """
        if self.state.state == "skipped":
            return True
        if self.state.state != "done" or self.missed or any(result.errors for result in self.results):
            return False
        return self.state.status == 0 or any(judgement.rule.figure == VERDICT for judgement in self.judgements)

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return {
            "id": self.cell.id,
            "together": list(self.cell.together),
            **self.state.model_dump(mode="json"),
            "ok": self.ok,
            "acceptance": [judgement.as_json() for judgement in self.judgements],
        }


class Outcome:
    """An experiment's cells, as they are now. Printing it shows a table.

    Args:
        store: Its folder.
        interrupted: Whether it was ended early, just now.
    """

    def __init__(self, store: Store, *, interrupted: bool = False) -> None:
        self.store, self.interrupted = store, interrupted

    @cached_property
    def cells(self) -> list[CellOutcome]:
        """All of them, read anew."""
        return [self._cell(cell) for cell in self.store.experiment.cells]

    def _cell(self, cell: Cell) -> CellOutcome:
        from deep_bench.results.gathering import gather
        from deep_bench.results.results import Results

        state, folder = current_state(self.store, cell, self.jobs), self.store.folder(cell)
        if state.state != "done":
            return CellOutcome(cell, state, folder, (), Results())
        results = gather(folder)
        rules = [rule for rule in self.store.experiment.rules if rule.about(cell)]
        return CellOutcome(cell, state, folder, judge_rules(rules, results), results)

    @property
    def results(self) -> Results:
        """All that was found.

        Raises:
            InvalidArgument: The folder is gone.
        """
        from deep_bench.results.gathering import gather

        return gather(self.store.path)

    @cached_property
    def jobs(self) -> dict[str, str]:
        """Cell to number and state of its job, of those that SLURM has in its queue."""
        return active_jobs(self.store)

    @property
    def running(self) -> bool:
        """Whether a process runs cells there now, or jobs wait or run."""
        return bool(self.jobs or self.store.runner)

    @property
    def ended(self) -> bool:
        """Whether all cells came to an end."""
        return all(cell.state.state in ENDED for cell in self.cells)

    @property
    def ok(self) -> bool:
        """Whether no cell failed or was left, and all that was found is accepted."""
        return all(cell.ok for cell in self.cells)

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON."""
        experiment = self.store.experiment
        cells = [{**cell.as_json(), "queue": self.jobs.get(cell.cell.id, "")} for cell in self.cells]
        return {"recipe": experiment.name, "level": experiment.level, "ok": self.ok, "cells": cells}

    def table(self) -> str:
        """A row for each cell and each system in it, then why cells failed and what is not accepted."""
        out = io.StringIO()
        console = Console(file=out, width=columns(), highlight=False, color_system=None)
        metrics = self.store.experiment.fields.metrics
        table = Table("cell", "system", "state", "verdict", "accepted", *(metrics or ["figure"]))
        for cell in self.cells:
            for row in _cell_rows(cell, metrics, self.jobs.get(cell.cell.id, "")):
                table.add_row(*map(Text, row))
        print_table(console, table, keys=2)
        for line in _lines_below(self):
            print_line(console, line)
        return out.getvalue().rstrip("\n")

    def __repr__(self) -> str:
        return self.table()


_MOST_LINES = 12
_NO_VALUE = "–"
_WORST_FIRST = ("failed", "wrong", "reduced precision", "cannot tell", "no information", "unchecked", "right")


def _cell_rows(cell: CellOutcome, metrics: Sequence[str], job: str) -> Iterator[list[str]]:
    systems: dict[str, list[Result]] = {}
    for result in cell.results:
        systems.setdefault(result.labels.get("system", ""), []).append(result)
    for system, results in systems.items() or [("", [])]:
        about = {result.name for result in results}
        judgements = [
            judgement for judgement in cell.judgements if not systems or not judgement.result or judgement.result in about
        ]
        figures = [_figure_of(results, name) for name in metrics] or [_figure_of(results, None)]
        state = f"{cell.state.state}, job {job}" if job else cell.state.state
        yield [cell.cell.name, system, state, _verdict_text(results), as_accepted(judgements), *figures]


def as_accepted(judgements: Sequence[RuleOutcome]) -> str:
    """Whether all conditions are met, and what makes that uncertain."""
    if not judgements:
        return _NO_VALUE
    met = sum(judgement.met for judgement in judgements)
    if met < len(judgements):
        return f"no: {met} of {len(judgements)}"
    return ", ".join(["yes", *dict.fromkeys(judgement.remark for judgement in judgements if judgement.remark)])


def _verdict_text(results: Sequence[Result]) -> str:
    """The worst of them, and how many are so."""
    counts = Counter(result.outcome for result in results)
    if not counts:
        return _NO_VALUE
    worst = min(counts, key=lambda word: _WORST_FIRST.index(word) if word in _WORST_FIRST else 0)
    return worst if len(results) == 1 else f"{worst} ({counts[worst]} of {len(results)})"


def _figure_of(results: Sequence[Result], name: str | None) -> str:
    """One figure with its interval; of the cases of a suite the sum of their times, else the least and the most."""
    figures = [figure for r in results if (figure := r.main if name is None else r.figures.get(name)) is not None]
    if not figures:
        return _NO_VALUE
    label = f"{figures[0].name} " if name is None else ""
    if len(figures) == 1:
        interval = f" ({interval_text(figures[0])})" if figures[0].interval is not None else ""
        return f"{label}{amount_text(figures[0].median, figures[0].unit)}{interval}"
    values = [figure.median for figure in figures]
    if results[0].kind == "operators" and {figure.unit for figure in figures} == {"s"}:
        return f"{label}{duration(float(np.sum(values)))} in all, {len(figures)} cases"
    return f"{label}{amount_text(min(values), figures[0].unit)} to {amount_text(max(values), figures[0].unit)}"


def _lines_below(outcome: Outcome) -> Iterator[str]:
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
