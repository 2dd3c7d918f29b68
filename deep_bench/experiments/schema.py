"""A recipe as it is written."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, PositiveInt

from deep_bench.experiments.fields import Level, Part, Word, matching
from deep_bench.experiments.units import Seconds

Parameter = Annotated[
    str, matching(r"[A-Za-z0-9_][\w.,:+=/@%-]{0,199}", "a word of up to 200 letters, digits and . , : + = / @ % - _")
]
"""A value of an ``#SBATCH`` line: without what a shell takes for more than a word."""

_Option = Annotated[str, matching(r"[a-z][a-z-]*", "an option of sbatch without its dashes, such as exclusive")]
_Name = Annotated[
    str,
    matching(r"[^/\\.\x00-\x1f][^/\\\x00-\x1f]{0,79}", "up to 80 letters without / or \\ that do not begin with a dot"),
]


NOTICE_S = 60
"""So long before a job's end SLURM tells it."""


class Limits(Part):
    """How long things may take.

    Attributes:
        cell: One cell; what takes longer hangs, and is ended. 1 h by default.
        whole: All cells; none is begun later. None by default.
    """

    cell: Seconds = 3600.0
    whole: Seconds | None = None


class Slurm(Part):
    """How cells run as SLURM jobs.

    Attributes:
        account, partition, qos, constraint: As ``sbatch`` takes them; none by default.
        time: Of a job; the limit of a cell and five minutes by default.
        nodes: 1 by default.
        tasks_per_node: The cell's ranks divided among the nodes by default.
        cpus_per_task: SLURM's own choice by default.
        gpus_per_node: None by default.
        memory: Of a node, such as ``64GB``; SLURM's own choice by default.
        at_once: Jobs of an array that may run at the same time; 16 by default.
        mpi: What srun starts ranks by (``srun --mpi``); ``pmix`` by default.
        parameters: Further options of ``sbatch``; none by default.
        setup: Lines of shell before each cell, such as ``module load openmpi``; they are code, and need --allow-code.
    """

    account: Parameter | None = None
    partition: Parameter | None = None
    qos: Parameter | None = None
    constraint: Parameter | None = None
    time: Seconds | None = None
    nodes: PositiveInt = 1
    tasks_per_node: PositiveInt | None = None
    cpus_per_task: PositiveInt | None = None
    gpus_per_node: PositiveInt | None = None
    memory: Parameter | None = None
    at_once: PositiveInt = 16
    mpi: Parameter = "pmix"
    parameters: dict[_Option, Parameter | int] = Field(default_factory=dict)
    setup: list[Word] = Field(default_factory=list)


class ExperimentModel(Part):
    """All of a recipe.

    Attributes:
        name: What it is called; the file's name by default.
        title: In a few words; nothing by default.
        notes: Further sentences; none by default.
        level: ``operators``, ``network``, ``training``, ``communication`` or ``scaling``.
        fixed: What all cells have in common: fields of the level.
        matrix: Factor to its values. A factor is a field of the level, or a path such as ``optimizer.lr``.
        exclude: Combinations that are left out; each fits all that have its values.
        include: Combinations that are added; a factor that one leaves out takes each of its values.
        metrics: Figures in the final table; what an operator does not measure by default (``peak memory``) is measured.
        accept: Figure to condition, such as ``forward: "<= 5 ms"``; or a list of such, each with ``where``: the labels of
            the results that it is about. Without any, nothing may be wrong or fail.
        limits: How long things may take.
        slurm: How cells run as SLURM jobs.
        environments: Name to a Python environment, with ``requirements``, ``modules``, ``container``, … as in
            environments.yaml; built once, and named after an ``@``: ``torch@old``. They are code, and need --allow-code.
    """

    name: _Name
    title: str = ""
    notes: list[str] = Field(default_factory=list)
    level: Level
    fixed: dict[str, Any] = Field(default_factory=dict)
    matrix: dict[str, list[Any]] = Field(default_factory=dict)
    exclude: list[dict[str, Any]] = Field(default_factory=list)
    include: list[dict[str, Any]] = Field(default_factory=list)
    metrics: list[Word] = Field(default_factory=list)
    accept: dict[str, Any] | list[dict[str, Any]] = Field(default_factory=dict)
    limits: Limits = Limits()
    slurm: Slurm = Slurm()
    environments: dict[Word, dict[str, Any]] = Field(default_factory=dict)
