"""Cells as jobs of SLURM, by ``submitit``: an array for all cells of the same number of ranks.

A job runs `measure_job` in its batch step; ranks are started from there by ``srun``. What a job found is in the cell's
folder, as if it had run here: what submitit pickles is read by the job itself, at once, and never again.
"""

from __future__ import annotations

import math
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from getpass import getuser
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from deep_bench.errors import DeepBenchError, FrameworkMissing
from deep_bench.measure.progress import Bars
from deep_bench.recipes.cell import Cell
from deep_bench.recipes.cell_run import ENDED, Store, measure_cell
from deep_bench.recipes.recipe import NOTICE_S, ExperimentModel
from deep_bench.records.store import read_model

FOLDER = "slurm"
_JOBS = "jobs.json"
_SPARE_S = 300.0
"""A job has so much more time than its cell: the cell's limit ends it first, and keeps what it has."""

_MOST_IN_ARRAY = 500
"""SLURM takes arrays of up to 1,000 where a site does not say otherwise."""

_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 1.0, 20.0


class SubmissionFailed(DeepBenchError):
    """SLURM has taken no job."""


class Jobs(BaseModel):
    """Cell to the job that it runs as, as SLURM numbers it."""

    model_config = ConfigDict(extra="forbid")

    cells: dict[str, str] = {}


def run_jobs(store: Store, cells: Sequence[Cell], *, wait: bool, progress: bool) -> bool:
    """Submit cells, those apart whose job is waiting or running.

    Args:
        store: The experiment's folder.
        cells: Which have not ended.
        wait: Whether to wait for all of them.
        progress: Whether to show a bar on a terminal.

    Returns:
        Whether waiting was interrupted; the jobs go on.

    Raises:
        FrameworkMissing: submitit or SLURM is not here.
        SubmissionFailed: SLURM refuses them; it is told why.
    """
    active = active_jobs(store)
    waiting = [cell for cell in cells if cell.id not in active]
    for ranks in dict.fromkeys(cell.fields.processes for cell in waiting):
        alike = [cell for cell in waiting if cell.fields.processes == ranks]
        for first in range(0, len(alike), _MOST_IN_ARRAY):
            _submit(store, alike[first : first + _MOST_IN_ARRAY], ranks)
    return _await(store, cells, progress) if wait else False


def active_jobs(store: Store) -> dict[str, str]:
    """Cell to number and state of its job, of those that SLURM has in its queue."""
    jobs = _known_jobs(store)
    if not jobs or not can_ask():
        return {}
    queue = _queue()
    return {cell: f"{job} {queue[job]}" for cell, job in jobs.items() if job in queue}


def can_ask() -> bool:
    """Whether SLURM can be asked for its queue from here."""
    return shutil.which("squeue") is not None


def job_of(store: Store, cell: Cell) -> str:
    """The number of the job that a cell was last submitted as; empty if it never was."""
    return _known_jobs(store).get(cell.id, "")


def measure_job(folder: str, cell: str, allow_code: bool) -> None:
    """What a job does: measure one cell. SLURM's notice of the end is to it what Ctrl-C is here.

    Args:
        folder: Of the experiment.
        cell: The cell's id.
        allow_code: Whether the recipe may run code.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, interrupt)
    store = Store(Path(folder), allow_code=allow_code)
    measure_cell(store, next(candidate for candidate in store.experiment.cells if candidate.id == cell))


def parameters(fields: ExperimentModel, ranks: int) -> dict[str, Any]:
    """What submitit is told of a job.

    Args:
        fields: The recipe.
        ranks: Of its cells.

    Example:
        >>> from deep_bench.recipes import load_experiment
        >>> recipe = load_experiment("small-network", "slurm.partition=short", "limits.cell=10min")
        >>> found = parameters(recipe.fields, 1)
        >>> found["partition"], found["time"], found["additional_parameters"]
        ('short', 15, {'signal': 'TERM@60'})
    """
    slurm, limit = fields.slurm, fields.limits.cell
    options = {
        "account": slurm.account,
        "partition": slurm.partition,
        "qos": slurm.qos,
        "constraint": slurm.constraint,
        "cpus_per_task": slurm.cpus_per_task,
        "gpus_per_node": slurm.gpus_per_node,
        "setup": slurm.setup or None,
    }
    further = {**slurm.parameters, **({"mem": slurm.memory} if slurm.memory else {})}
    return {
        **{name: value for name, value in options.items() if value is not None},
        "job_name": "".join(letter if letter.isalnum() else "-" for letter in fields.name),
        "time": math.ceil((slurm.time or limit + _SPARE_S) / 60),
        "nodes": slurm.nodes,
        "ntasks_per_node": slurm.tasks_per_node or math.ceil(ranks / slurm.nodes),
        "array_parallelism": slurm.at_once,
        "use_srun": False,
        "additional_parameters": {"signal": f"TERM@{NOTICE_S}", **further},
    }


def _submit(store: Store, cells: Sequence[Cell], ranks: int) -> None:
    """One array, or one job if there is one cell."""
    executor = _executor(store, parameters(store.experiment.fields, ranks))
    before = {cell.id: store.state(cell) for cell in cells}
    for cell in cells:  # before they are submitted: a job may begin at once, and says so itself
        store.keep(cell, before[cell.id].model_copy(update={"state": "submitted", "why": "", "job": ""}))
    allowed = bool(store.experiment.code)
    try:
        jobs = executor.map_array(
            measure_job, [str(store.path)] * len(cells), [cell.id for cell in cells], [allowed] * len(cells)
        )
    except Exception as error:  # whatever submitit makes of what sbatch says
        for cell in cells:
            store.keep(cell, before[cell.id])
        message = " ".join(str(error).split())
        raise SubmissionFailed(f"sbatch took no jobs: {message}", advice="look at the recipe's section slurm") from error
    job_ids = {**_known_jobs(store), **{cell.id: str(job.job_id) for cell, job in zip(cells, jobs, strict=True)}}
    text = Jobs(cells=job_ids).model_dump_json(indent=1) + "\n"
    store.write(store.path / FOLDER / _JOBS, text)


def _executor(store: Store, options: Mapping[str, Any]) -> Any:
    try:
        from submitit import SlurmExecutor
    except ImportError as error:
        raise FrameworkMissing("submitit is not installed here", advice="pip install 'deep-bench[slurm]'") from error
    missing = [program for program in ("sbatch", "srun", "squeue") if shutil.which(program) is None]
    if missing:
        raise FrameworkMissing(f"there is no {', '.join(missing)} here", "a machine that submits jobs", "--launcher local")
    folder = store.path / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    executor = SlurmExecutor(folder)
    executor.update_parameters(**options)
    return executor


def _await(store: Store, cells: Sequence[Cell], progress: bool) -> bool:
    """Until all have ended, or their jobs are gone."""
    bars, patience = Bars(progress), _SHORTEST_LOOK_S
    bars.phase(store.experiment.name, len(cells), "cells")
    open_cells, gone = list(cells), set[str]()
    try:
        while open_cells:
            active = active_jobs(store)
            remaining = [cell for cell in open_cells if store.state(cell).state not in (*ENDED, "interrupted")]
            bars.advance(len(open_cells) - len(remaining))
            bars.at(f"{len(active)} jobs waiting or running")
            lost = [cell for cell in remaining if cell.id not in active and cell.id in gone]
            for cell in lost:
                job = job_of(store, cell)
                reason = f"its job {job} is gone from SLURM's queue and left no result; its log is in {store.path / FOLDER}"
                store.keep(cell, store.state(cell).model_copy(update={"state": "interrupted", "why": reason, "job": job}))
            gone = {
                cell.id for cell in remaining if cell.id not in active
            }  # looked at twice: what it wrote last may come late
            open_cells = [cell for cell in remaining if cell not in lost]
            if open_cells:
                time.sleep(patience)
                patience = min(patience * 1.2, _LONGEST_LOOK_S)
    except KeyboardInterrupt:
        return True
    finally:
        bars.close()
    return False


def _known_jobs(store: Store) -> dict[str, str]:
    file = store.path / FOLDER / _JOBS
    return read_model(file, Jobs, "the jobs of an experiment").cells if file.exists() else {}


def _queue() -> dict[str, str]:
    """The user's jobs and their states."""
    command = ["squeue", "--noheader", "--array", f"--user={getuser()}", "--format=%i %T"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        message = getattr(error, "stderr", None) or error
        raise DeepBenchError(
            f"squeue does not answer: {' '.join(str(message).split())}", advice="try again later"
        ) from error
    return dict(line.split(maxsplit=1) for line in process.stdout.splitlines() if " " in line)
