"""Running an experiment: cell by cell here, or as jobs of SLURM; and going on with one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Literal, TypeAlias, get_args

from deep_bench.errors import InvalidArgument
from deep_bench.experiments.building import build_environments
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.experiment import Experiment
from deep_bench.experiments.load import load_experiment
from deep_bench.experiments.matrix import selected
from deep_bench.experiments.measure_cell import measure_cell
from deep_bench.experiments.outcome import Outcome
from deep_bench.experiments.slurm import active_jobs, run_jobs
from deep_bench.experiments.state import ENDED, Store
from deep_bench.measure.progress import Bars

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
        >>> from deep_bench.experiments import load_experiment
        >>> recipe = load_experiment("small-network", "fixed.on=reference", "fixed.budget=0.2s", "fixed.twin=false")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     outcome = run_experiment(recipe, folder, only=["batch=1"], progress=False)
        ...     [(one.cell.name, one.state.state, one.ok) for one in outcome.cells]
        [('batch=1', 'done', True), ('batch=64', 'waiting', False)]
    """
    recipe = experiment if isinstance(experiment, Experiment) else load_experiment(experiment, allow_code=allow_code)
    _check_launcher(launcher)
    requested = [only] if isinstance(only, str) else only
    cells = selected(recipe.cells, requested, recipe.factors)
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
