"""What a recipe may fix and vary at each level, as pydantic models; each says what it is when it is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveInt

from deep_bench.experiments.units import Seconds
from deep_bench.measure.settings import Checking

Level: TypeAlias = Literal["operators", "network", "training", "communication", "scaling"]

Share = Annotated[float, Field(gt=0, lt=1)]
Word = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
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


def _listed(value: Any) -> Any:
    """One thing alone stands for a list of it."""
    return value if isinstance(value, list) else [value]


Words = Annotated[list[Word], BeforeValidator(_listed)]
Seeds = Annotated[list[NonNegativeInt], BeforeValidator(_listed), Field(min_length=1)]


class CaseFields(Part):
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


class OperatorsFields(Part):
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


class NetworkFields(Part):
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


class TrainingFields(Part):
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


class CommunicationFields(Part):
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


class ScalingFields(Part):
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

LEVELS: Mapping[str, type[Part]] = MappingProxyType(
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
