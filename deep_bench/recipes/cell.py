"""`Cell`: one combination of a recipe's factors, which is one measurement in a process of its own.

A cell has a training recipe, files that must be there before it starts, and the command line that measures it, which is what
a person would type.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deep_bench.recipes.level import CommandTask, Level, LevelFields


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Args:
        recipe: The recipe's name.
        level: Its level.
        factors: Factor to value, of those that make cells.
        together: The values of the factor that is compared within one measurement; empty where it is fixed.
        content: The fields of the level, as a file would have them.
        fields: The same, checked.
        changes: At the levels that have a training recipe: path to value of what is changed in it.
    """

    recipe: str
    level: Level
    factors: Mapping[str, Any]
    together: tuple[Any, ...]
    content: Mapping[str, Any]
    fields: LevelFields
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """12 hexadecimal digits that follow from all that the cell is."""
        identity = json.dumps([self.recipe, self.level, dict(self.factors), dict(self.content)], sort_keys=True, default=str)
        return hashlib.sha256(identity.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Its factors, as a table shows them.

        Example:
            >>> from deep_bench.recipes import load_experiment
            >>> [cell.name for cell in load_experiment("small-network").cells]
            ['batch=1', 'batch=64']
        """
        return ", ".join(f"{name}={factor_word(value)}" for name, value in self.factors.items()) or self.recipe

    @property
    def note(self) -> dict[str, Any]:
        """What the records that it makes keep of it."""
        return {"recipe": self.recipe, "id": self.id, "factors": dict(self.factors)}


def factor_word(value: Any) -> str:
    """A factor's value in a word.

    Example:
        >>> factor_word("torch"), factor_word([32, 32]), factor_word({"name": "sgd", "lr": 0.1})
        ('torch', '[32, 32]', '{"name": "sgd", "lr": 0.1}')
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def prepare_files(cell: Cell, folder: Path, home: Path) -> dict[str, Path]:
    """Write what the cell needs as a file.

    Args:
        cell: The cell.
        folder: Its own, which exists.
        home: The folder that names of files are relative to.

    Returns:
        ``suite``, ``network`` or ``recipe`` to a file; nothing where the recipe names one itself.
    """
    fields = cell.fields
    return {fields.file_field: fields.write_file(cell, folder, home)} if fields.has_own_file else {}


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that set the threads of a process."""


def command_words(cell: Cell, folder: Path, files: Mapping[str, Path], metrics: Sequence[str] = ()) -> list[str]:
    """The words after ``deep-bench``.

    Args:
        cell: What is measured.
        folder: Where its records go.
        files: What was written for it; see `deep_bench.recipes.cell.prepare_files`.
        metrics: What else is to be found out of operators.

    Example:
        >>> from deep_bench.recipes import load_experiment
        >>> command_words(load_experiment("small-network").cells[0], Path("out"), {})[:4]
        ['run', '--on=reference', '--on=onnxruntime', '--batch=1']
    """
    task = CommandTask(cell, folder, files, metrics)
    arguments = cell.fields.arguments(task)
    return [*cell.fields.options(task), f"--output={folder}", *(["--", *arguments] if arguments else [])]


def plain_words(cell: Cell) -> list[str]:
    """The words after ``deep-bench`` in a folder with the files that the cell needs.

    Args:
        cell: The cell.
    """
    fields = cell.fields
    files = {fields.file_field: Path(cell.id, fields.file_name)} if fields.has_own_file else {}
    return command_words(cell, Path(cell.id), files)


def as_typed(cell: Cell) -> str:
    """The command of a cell as a person would type it, in a folder with the files that it needs.

    Args:
        cell: The cell.

    Example:
        >>> from deep_bench.recipes import load_experiment
        >>> as_typed(load_experiment("small-communication").cells[0])[:46]
        'mpirun -n 2 deep-bench communicate --collectiv'
    """
    ranks = cell.fields.processes
    started = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return shlex.join([*started, "deep-bench", *plain_words(cell)])


def variables(cell: Cell) -> dict[str, str]:
    """What the environment of a cell has beside that of the caller."""
    threads = cell.fields.threads
    return {} if threads is None else dict.fromkeys(THREADS, str(threads))
