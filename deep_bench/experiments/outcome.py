"""What became of an experiment: all cells, with their verdicts, and whether what they found is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_bench.experiments.acceptance import VERDICT, Judged, judged
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.seen import seen
from deep_bench.experiments.slurm import active_jobs
from deep_bench.experiments.state import ENDED, CellState, Store

if TYPE_CHECKING:
    from deep_bench.results.gathering import Results


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
    judgements: Sequence[Judged]
    results: Results

    @property
    def missed(self) -> list[Judged]:
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
        from deep_bench.results.gathering import Results, gather

        state, folder = seen(self.store, cell, self.jobs), self.store.folder(cell)
        if state.state != "done":
            return CellOutcome(cell, state, folder, (), Results())
        results = gather(folder)
        rules = [rule for rule in self.store.experiment.rules if rule.about(cell)]
        return CellOutcome(cell, state, folder, judged(rules, results), results)

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
        """Cell by cell: what became of it, the verdict, whether it is accepted, and the figures."""
        from deep_bench.experiments.report import as_text

        return as_text(self)

    def __repr__(self) -> str:
        return self.table()
