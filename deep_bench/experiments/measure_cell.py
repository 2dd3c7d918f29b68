"""One cell from its begin to its end, with every step of it kept."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from deep_bench import communicators, frameworks
from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.experiments.building import told
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.code import INSTALLED_ONLY
from deep_bench.experiments.fields import CommunicationFields
from deep_bench.experiments.files import prepared
from deep_bench.experiments.note import noted
from deep_bench.experiments.process import INTERRUPTED, Ending, end_leftovers, launched, run_process
from deep_bench.experiments.space import lacked, used_up
from deep_bench.experiments.state import OUTPUT, CellState, NotWritten, Store
from deep_bench.experiments.words import ranks_of, variables, words
from deep_bench.registry import Registry

_WRONG = 1
"""The exit status of a measurement that came to its end and found something wrong."""


def measure_cell(store: Store, cell: Cell) -> CellState:
    """Measure a cell in a process of its own, here and now.

    Args:
        store: The experiment's folder.
        cell: One of its cells.

    Returns:
        What became of it, which is kept as well.

    Raises:
        KeyboardInterrupt: This process was told to end; the cell has ended by then, and is kept as interrupted.
        NotWritten: There is no space for what it finds: it is no failure of the cell, and no other would fare better.
    """
    try:
        return _measured(store, cell)
    except OSError as error:
        raise store.full(f"cannot write {error.filename or store.folder(cell)}: {error.strerror}", cell) from error


def _measured(store: Store, cell: Cell) -> CellState:
    before = store.state(cell)
    if before.state == "running":  # whoever ran it is gone, and it may be there still
        end_leftovers(store.folder(cell) / OUTPUT)
    store.set_aside(cell, before.attempts)
    usable, left_out = _usable(cell)
    state = CellState(
        factors=dict(cell.factors),
        state="running",
        attempts=before.attempts + 1,
        began=datetime.now(UTC),
        host=socket.gethostname(),
        job=os.environ.get("SLURM_JOB_ID", ""),
        left_out=left_out,
    )
    if usable is None:
        return _kept(store, cell, state.model_copy(update={"state": "skipped", "why": "; ".join(left_out)}))
    store.keep(cell, state)
    try:
        command, environment = _command(store, usable)
        state = state.model_copy(update={"command": command})
        store.keep(cell, state)
        ending = run_process(
            command,
            home=store.experiment.home,
            output=store.folder(cell) / OUTPUT,
            variables=environment,
            limit_s=store.experiment.fields.limits.cell,
        )
    except KeyboardInterrupt:
        _noted(store, cell)
        _kept(store, cell, state.model_copy(update={"state": "interrupted", "why": "what it had is kept"}))
        raise
    except NotWritten:
        raise
    except (DeepBenchError, OSError) as error:
        return _kept(store, cell, state.model_copy(update={"state": "failed", "why": " ".join(str(error).split())}))
    return _kept(store, cell, _ended(state, ending, _noted(store, cell)))


def _noted(store: Store, cell: Cell) -> bool:
    try:
        return noted(cell, store.folder(cell))
    except InvalidArgument as error:
        raise store.full(error.came, cell) from error


def _ended(state: CellState, ending: Ending, complete: bool) -> CellState:
    fine = ending.status == 0 or (ending.status == _WRONG and complete)
    reason = ending.why
    if ending.status == 0 and not complete:
        fine, reason = False, "it left no record of a run that came to its end"
    end = "done" if fine else "interrupted" if ending.status == INTERRUPTED else "failed"
    changes = {"state": end, "why": reason, "status": ending.status, "seconds": ending.seconds}
    return state.model_copy(update=changes)


def _kept(store: Store, cell: Cell, state: CellState) -> CellState:
    lacking = _no_space(state.why, store.folder(cell)) if state.state == "failed" else ""
    if lacking:
        state = state.model_copy(update={"state": "interrupted", "why": lacking})
    store.keep(cell, state)
    if lacking:
        raise store.full(lacking, cell)
    return state


def _no_space(reason: str, folder: Path) -> str:
    """What says that it is space that a cell lacked, if it is; where there was none, it could not even say so."""
    if reason or not used_up(folder):
        return lacked(reason)
    return f"cannot write {folder / OUTPUT}: {os.strerror(errno.ENOSPC)}"


def _command(store: Store, cell: Cell) -> tuple[list[str], dict[str, str]]:
    fields, folder = store.experiment.fields, store.folder(cell)
    started, crowd = launched(ranks_of(cell.fields), fields.slurm.mpi, fields.slurm.cpus_per_task)
    files = prepared(cell, folder, store.experiment.home)
    arguments = words(cell, folder, files, fields.metrics)
    path = {} if store.experiment.code else {INSTALLED_ONLY: "1"}
    return [*started, *_deep_bench(), *arguments], {**variables(cell.fields), **crowd, **told(store), **path}


def _deep_bench() -> list[str]:
    """The command of this environment, as a person types it: a record keeps it."""
    script = Path(sys.executable).with_name("deep-bench")
    return [str(script)] if script.exists() else [sys.executable, "-P", "-m", "deep_bench"]


def _usable(cell: Cell) -> tuple[Cell | None, list[str]]:
    """The cell without systems that are not installed here, ``None`` if none is left; and which those are, and why."""
    name, registry = ("over", communicators) if isinstance(cell.fields, CommunicationFields) else ("on", frameworks)
    requested = getattr(cell.fields, name)
    if not requested:
        return cell, []
    systems = [requested] if isinstance(requested, str) else list(requested)
    absent = {system: missing for system in systems if (missing := _missing(registry, system))}
    reasons = [f"{system} is not installed here ({', '.join(missing)})" for system, missing in absent.items()]
    remaining = [system for system in systems if system not in absent]
    if not remaining and not getattr(cell.fields, "kernels", []):
        return None, reasons
    fields = cell.fields.model_copy(update={name: remaining[0] if isinstance(requested, str) else remaining})
    return replace(cell, fields=fields), reasons


def _missing(registry: Registry, system: str) -> Iterable[str]:
    """The packages that a registered system lacks; whatever else is named says itself what it lacks."""
    name = system.partition(":")[0]
    return registry.missing(name) if "@" not in name and name in registry else ()
