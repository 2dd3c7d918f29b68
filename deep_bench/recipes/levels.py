"""The levels of a recipe: what it may fix and vary at each, as it is written.

And durations and amounts as people write them. Each field says what it is when it is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveInt

from deep_bench.study.settings import Checking

_SECONDS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "B": 1.0,
    **{f"{prefix}B": 1000.0 ** (power + 1) for power, prefix in enumerate("kMGT")},
    **{f"{prefix}iB": 1024.0 ** (power + 1) for power, prefix in enumerate("KMGT")},
}
_JOULES = {"µJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3}

SCALES: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "s": _SECONDS,
        "ns": {unit: scale * 1e9 for unit, scale in _SECONDS.items()},
        "B": _BYTES,
        "B/s": {f"{unit}/s": scale for unit, scale in _BYTES.items()},
        "J": _JOULES,
        "": {"": 1.0, "%": 0.01},
        "%": {"%": 1.0},
    }
)
"""The unit of a figure, to the units that it may be written in and what one of each is in it."""


_LONGEST_S = 3650 * 86400.0

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def amount(text: str) -> tuple[float, str]:
    """A number, and the unit after it.

    Raises:
        ValueError: It is no number with at most one unit behind it, or one that is too large.

    Example:
        >>> amount("5 ms"), amount("1e-3"), amount("200 samples/s")
        ((5.0, 'ms'), (0.001, ''), (200.0, 'samples/s'))
    """
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([^\s\d<>=]\S*)?\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is no number with a unit")
    return _finite(float(match[1]), text), match[2] or ""


def in_unit(value: float, given: str, unit: str) -> float:
    """A number in the unit of a figure.

    Args:
        value: The number,
        given: the unit that it is written in,
        unit: and that of the figure.

    Raises:
        ValueError: One is not the other's, and what may be written is named; or it is too large.

    Example:
        >>> in_unit(5.0, "ms", "s"), in_unit(90.0, "%", ""), in_unit(3.0, "samples/s", "samples/s")
        (0.005, 0.9, 3.0)
    """
    scales = {**SCALES.get(unit, {}), unit: 1.0}
    if given not in scales:
        raise ValueError(
            f"the unit {given or '(none)'!r}, where "
            f"{', '.join(unit_name or '(none)' for unit_name in scales)} can be written"
        )
    return _finite(value * scales[given], f"{value:g} {given}")


def _finite(value: float, written: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{written!r} is more than any number that is kept: write one below 1e300")
    return value


def seconds(value: Any) -> Any:
    """A duration in seconds: a number of them, or a text such as ``"5min"``.

    Raises:
        ValueError: It is none, or longer than ten years; what may be written is told.

    Example:
        >>> seconds("5min"), seconds("500 ms"), seconds(3)
        (300.0, 0.5, 3.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        number, unit = float(value), "s"
    else:
        try:
            number, unit = amount(value) if isinstance(value, str) else (0.0, "")
        except ValueError:
            number, unit = 0.0, ""
    duration = number * _SECONDS.get(unit or "s", 0.0)
    if not 0 < duration <= _LONGEST_S:
        raise ValueError("a duration above 0 and up to 3650d, such as 20s, 500ms, 5min or 2h")
    return duration


Seconds = Annotated[float, BeforeValidator(seconds)]
"""A duration: a number of seconds, or a text such as ``5min``."""


Level: TypeAlias = Literal["operators", "network", "training", "communication", "scaling"]

Share = Annotated[float, Field(gt=0, lt=1)]
Word = Annotated[str, Field(min_length=1)]


class RecipePart(BaseModel):
    """What all parts of a recipe share: a field that there is not is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def matching(pattern: str, what: str) -> AfterValidator:
    """A check of a text, which says in words what is right.

    Args:
        pattern: The whole text.
        what: It in words.
    """
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise ValueError(what)
        return text

    return AfterValidator(check)


def _as_list(value: Any) -> Any:
    """One thing alone stands for a list of it."""
    return value if isinstance(value, list) else [value]


Words = Annotated[list[Word], BeforeValidator(_as_list)]
Seeds = Annotated[list[NonNegativeInt], BeforeValidator(_as_list), Field(min_length=1)]


class CaseFields(RecipePart):
    """One problem for operators, written in the recipe.

    Attributes:
        operator: As ONNX spells it.
        inputs: Sizes of each input, ``[4, 8]``, or with its type, ``"int64[4]"``.
        attributes: Of the operator.
        dtype: Of its floating-point inputs; float32 by default.
        label: Its name; by default made from its sizes.
        count: How often it occurs; 1 by default.
    """

    operator: Annotated[str, matching(r"\w+", "the name of an operator of ONNX, such as MatMul")]
    inputs: list[list[NonNegativeInt] | str]
    attributes: dict[str, Any] = {}
    dtype: str | None = None
    label: str | None = None
    count: PositiveInt = 1


class OperatorsFields(RecipePart):
    """Level ``operators``: kernels on the cases of a suite, as `deep-bench operators` does it.

    Attributes:
        suite: A suite's name, or a .toml or .onnx file; none where ``cases`` are written out.
        cases: Labels of the suite's cases, or cases written out; all of the suite by default.
        sample: Only so many cases, drawn by the seed.
        dtype: The suite's cases in another floating-point type.
        on: Frameworks with their options; compared within one interleaved measurement.
        kernels: Operators of your own, FILE.py:CLASS, in the same measurement; they are code, and need --allow-code.
        base: The contestant that others are compared with; the first framework by default.
        seed: Of inputs, order and estimates; 0 by default.
        budget: Time for measuring a case; 3 s by default.
        limit: The longest that a single call may take; 2 min by default.
        launches: Fresh processes, so many times; 1 by default.
        ci_width: Half-width of the interval over the median at which measuring ends; 0.01 by default.
        check: How hard to look whether results are right; ``auto`` by default.
        twin: Whether one contestant is measured twice, as an A/A pair; so by default.
        backward: Whether gradients are timed too; not by default.
        cold: Whether calls on empty caches are timed too; not by default.
        numpy: Whether calls from and to NumPy arrays are timed too; not by default.
        isolate: Whether each case gets a fresh process; not by default.
        threads: Of each framework and of the process; the framework's own choice by default.
    """

    suite: Word | None = None
    cases: list[Word | CaseFields] = []
    sample: PositiveInt | None = None
    dtype: Word | None = None
    on: Words = []
    kernels: Words = []
    base: Word | None = None
    seed: NonNegativeInt = 0
    budget: Seconds = 3.0
    limit: Seconds = 120.0
    launches: PositiveInt = 1
    ci_width: Share = 0.01
    check: Checking = "auto"
    twin: bool = True
    backward: bool = False
    cold: bool = False
    numpy: bool = False
    isolate: bool = False
    threads: PositiveInt | None = None


class NetworkFields(RecipePart):
    """Level ``network``: a network in several frameworks, as `deep-bench run` does it.

    Attributes:
        network: An .onnx file, the name of a network that ships, or one of ``db.networks`` with its settings, with fresh
            parameters.
        on: Frameworks with their options; compared within one interleaved measurement. All that are installed by default.
        inputs: An .npz file; drawn by the seed by default.
        batch: Size of the open first dimensions.
        sizes: Open dimension to size.
        transform: Transformations that come first, as `deep-bench transform` names them.
        seed: Of inputs, order and estimates; 0 by default.
        budget: Time for measuring; 20 s by default.
        launches: Fresh processes, so many times; 1 by default.
        ci_width: Half-width of the interval over the median at which measuring ends; 0.01 by default.
        check: How hard to look whether results are right; ``auto`` by default.
        twin: Whether one framework is measured twice, as an A/A pair; so by default.
        threads: Of each framework and of the process; the framework's own choice by default.
    """

    network: Word | dict[str, Any]
    on: Words = []
    inputs: Word | None = None
    batch: NonNegativeInt | None = None
    sizes: dict[Word, NonNegativeInt] = {}
    transform: Words = []
    seed: NonNegativeInt = 0
    budget: Seconds = 20.0
    launches: PositiveInt = 1
    ci_width: Share = 0.01
    check: Checking = "auto"
    twin: bool = True
    threads: PositiveInt | None = None


class TrainingFields(RecipePart):
    """Level ``training``: what a training recipe says, on one framework, as `deep-bench train` does it.

    Every field of a training recipe (``network``, ``optimizer``, ``data``, ``epochs``, ``seeds``, …) is a field here too,
    also by a path such as ``optimizer.lr``; it changes the one that ``recipe`` names, or, without one, they are the recipe.

    Attributes:
        recipe: A training recipe's name, or its file; none where its fields are all written here.
        on: The framework with its options; several make cells of their own.
        runs: With the first seeds of the recipe; 1 by default.
        steps: At most.
        limit: At most so long, from the first touch of the data.
        apart: Whether each run gets a fresh process; not by default.
        validate: First see that so many steps are right.
        checkpoints: Whether the state is kept at the ends of epochs, so that a cell that was cut short goes on from there;
            not by default.
        checkpoint_every: Also after so long.
        ranks: Processes that train together, started by mpirun or srun; 1 by default.
        distributed: The scheme that keeps ranks together, with its settings; ``allreduce`` where there are several.
        over: What ranks talk by; ``mpi`` by default.
        scaling: Whether the recipe's batch is that of all ranks together (``strong``, the default) or of each (``weak``).
        samples: Whether each rank has its part of every batch, its part of the set, or all.
        threads: Of each process; the framework's own choice by default.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    recipe: Word | None = None
    on: Words
    runs: PositiveInt = 1
    steps: PositiveInt | None = None
    limit: Seconds | None = None
    apart: bool = False
    validate_steps: Annotated[PositiveInt | None, Field(alias="validate")] = None
    checkpoints: bool = False
    checkpoint_every: Seconds | None = None
    ranks: PositiveInt = 1
    distributed: Word | None = None
    over: Literal["mpi", "torch"] | None = None
    scaling: Literal["strong", "weak"] = "strong"
    samples: Literal["sharded", "reshuffled", "replicated"] = "sharded"
    threads: PositiveInt | None = None


class CommunicationFields(RecipePart):
    """Level ``communication``: messages and collective operations, as `deep-bench communicate` does it.

    Attributes:
        collectives: ``latency``, ``bandwidth``, ``allreduce``, ``broadcast``, …
        sizes: ``8:4Mi``, a list ``8,1Ki``, or ``deepbench/allreduce``; ``8:4Mi`` by default.
        over: Communicators; compared within one measurement, taking turns. ``mpi`` by default.
        ranks: How many processes, started by mpirun or srun.
        dtype: The element type; float32 by default.
        pair: The two ranks of latency and bandwidths; 0 and 1 by default.
        budget: Time for each operation and size; 1 s by default.
        ci_width: Half-width of the interval over the median at which measuring ends; 0.02 by default.
        seed: Of data and order; 0 by default.
        machine: A file that says what messages cost, instead of measuring it.
        threads: Of each process; the library's own choice by default.
    """

    collectives: Annotated[Words, Field(min_length=1)]
    sizes: Word = "8:4Mi"
    over: Annotated[Words, Field(min_length=1)] = ["mpi"]
    ranks: Annotated[int, Field(ge=2)]
    dtype: Word = "float32"
    pair: Annotated[list[NonNegativeInt], Field(min_length=2, max_length=2)] = [0, 1]
    budget: Seconds = 1.0
    ci_width: Share = 0.02
    seed: NonNegativeInt = 0
    machine: Word | None = None
    threads: PositiveInt | None = None


class ScalingFields(RecipePart):
    """Level ``scaling``: how training would scale, predicted from traces, as `deep-bench scale` does it.

    Fields of the training recipe are written as at level ``training``.

    Attributes:
        recipe: A training recipe's name, or its file; none where its fields are all written here.
        on: What computes.
        predicted: Numbers of ranks, ``4..65536`` or ``4,6,12``; ``4..65536`` by default.
        distributed: The scheme with its settings; ``allreduce`` by default.
        scaling: Whether the recipe's batch is that of all ranks together (``strong``, the default) or of each (``weak``).
        machine: What messages cost: a file that `deep-bench communicate` wrote.
        over: The communicator in that file; its first by default.
        latency, bandwidth: Instead of a file: ``1us`` and ``12GB/s``.
        algorithms: Collective to algorithm; the cheapest by default.
        topology: The network of the simulator; ``fat-tree`` by default.
        replay_up_to: Ranks that the simulator replays; 1024 by default, 0 for none.
        budget: Time for measuring what one rank computes; 8 s by default.
        steps: To trace; until the scheme repeats itself by default.
        seed: 0 by default.
        threads: Of the process; the framework's own choice by default.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    recipe: Word | None = None
    on: Word | None = None
    predicted: Word = "4..65536"
    distributed: Word = "allreduce"
    scaling: Literal["strong", "weak"] = "strong"
    machine: Word | None = None
    over: Word | None = None
    latency: Word | None = None
    bandwidth: Word | None = None
    algorithms: dict[Word, Word] = {}
    topology: Literal["fat-tree", "dragonfly", "torus"] = "fat-tree"
    replay_up_to: NonNegativeInt = 1024
    budget: Seconds = 8.0
    steps: Annotated[int, Field(ge=3)] | None = None
    seed: NonNegativeInt = 0
    threads: PositiveInt | None = None


Fields: TypeAlias = OperatorsFields | NetworkFields | TrainingFields | CommunicationFields | ScalingFields

LEVELS: Mapping[str, type[RecipePart]] = MappingProxyType(
    {
        "operators": OperatorsFields,
        "network": NetworkFields,
        "training": TrainingFields,
        "communication": CommunicationFields,
        "scaling": ScalingFields,
    }
)
"""Level to its fields."""


TOGETHER: Mapping[str, str] = MappingProxyType({"operators": "on", "network": "on", "communication": "over"})
"""Level to the factor whose values are compared within one interleaved measurement; all other factors make cells."""


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


class CellLimits(RecipePart):
    """How long things may take.

    Attributes:
        cell: One cell; what takes longer hangs, and is ended. 1 h by default.
        whole: All cells; none is begun later. None by default.
    """

    cell: Seconds = 3600.0
    whole: Seconds | None = None


class Slurm(RecipePart):
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


class ExperimentModel(RecipePart):
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
    limits: CellLimits = CellLimits()
    slurm: Slurm = Slurm()
    environments: dict[Word, dict[str, Any]] = Field(default_factory=dict)
