"""What became of a cell, seen from outside: a process or a job that is gone has not said so itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

from deep_bench.errors import shortened
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.process import last_lines
from deep_bench.experiments.slurm import can_ask, job_of
from deep_bench.experiments.space import lacked, used_up
from deep_bench.experiments.state import OUTPUT, CellState, Store

_MOST_CHARACTERS = 400


def seen(store: Store, cell: Cell, jobs: Mapping[str, str]) -> CellState:
    """What became of a cell; one that nobody runs any more is interrupted.

    Args:
        store: The experiment's folder.
        cell: One of its cells.
        jobs: Cell to its job, of those that SLURM has in its queue.
    """
    state = store.state(cell)
    reason = _gone(store, cell, state, jobs) if state.state in ("running", "submitted") else ""
    current = store.state(cell) if reason else state  # it may have ended between the two looks
    return state.model_copy(update={"state": "interrupted", "why": reason}) if reason and current == state else current


def _gone(store: Store, cell: Cell, state: CellState, jobs: Mapping[str, str]) -> str:
    """Why a cell does not run although its state says so; empty if it does, or nobody here can tell."""
    job = job_of(store, cell) if state.state == "submitted" or state.job else ""
    if job:
        gone = cell.id not in jobs and can_ask()
        return f"its job {job} is gone from SLURM's queue and left no result" if gone else ""
    if store.runner or state.host not in ("", socket.gethostname()):
        return ""
    return "; ".join(["the process that ran it is gone", *_left(store, cell), f"resume: {store.resume}"])


def _left(store: Store, cell: Cell) -> Iterator[str]:
    """What can still be known of a process that is gone."""
    folder = store.folder(cell)
    output = last_lines(folder / OUTPUT) if (folder / OUTPUT).is_file() else ""
    if output:
        yield f"it said last: {shortened(lacked(output) or output, _MOST_CHARACTERS)}"
    if used_up(folder):
        yield "no space is left on the disk"
    yield f"what it had is kept in {folder}"
