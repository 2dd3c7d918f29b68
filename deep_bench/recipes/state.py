"""The folder of an experiment: the recipe as it runs, and what became of each cell; written whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shlex
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

import deep_bench
from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidRecord
from deep_bench.recipes.cell import Cell
from deep_bench.recipes.recipe import Experiment
from deep_bench.records.folders import output_folder
from deep_bench.records.store import read_model, replace
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
    replace(file, lambda temporary: temporary.write_text(text, encoding="utf-8"))


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


__all__ = ["CELL", "ENDED", "OUTPUT", "About", "CellState", "InUse", "NotWritten", "Store", "differences_of"]
