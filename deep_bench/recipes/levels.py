"""The levels of a recipe, each a class: its fields, and what follows from them.

Operators, networks and messages are measured system beside system; `TrainedFields` is what training, and predicting how it
would scale, share: a training recipe of its own.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import yaml
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt

from deep_bench import communicators, datasets, distributed_optimizers, networks, optimizers, samplers, suites
from deep_bench.distributed.collectives.settings import BenchmarkSettings, CollectiveSettings
from deep_bench.errors import DeepBenchError, InvalidArgument, UnknownName, nearest
from deep_bench.operators.studies import settings as q
from deep_bench.recipes.cell import (
    RANK_LABELS,
    SYSTEM_LABELS,
    TIME,
    VERDICTS,
    CommandTask,
    FigureKind,
    Level,
    LevelFields,
    LineFinder,
    Word,
    Words,
    check_frameworks,
    check_registered,
    fault_at,
    import_paths,
    is_file_name,
    is_missing_file,
    matching,
    plain_number,
)
from deep_bench.records.store import written
from deep_bench.registry import Registry
from deep_bench.study.settings import MeasurementSettings, Seconds
from deep_bench.yaml_text import RecipePart, parsed, text_in

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.operators.suites.suite import Suite
    from deep_bench.recipes.cell import Cell

__all__ = ["LEVELS", "CaseFields"]


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
    attributes: dict[str, Any] = Field(default_factory=dict)
    dtype: str | None = None
    label: str | None = None
    count: PositiveInt = 1


class OperatorsFields(LevelFields, q.OperatorSettings):
    """Level ``operators``: kernels on the cases of a suite, as `deep-bench operators` does it.

    Attributes:
        suite: A suite's name, or a .toml or .onnx file; none where ``cases`` are written out.
        cases: Labels of the suite's cases, or cases written out; all of the suite by default.
        sample: Only so many cases, drawn by the seed.
        dtype: The suite's cases in another floating-point type.
        on: Frameworks with their options; compared within one interleaved measurement.
        kernels: Operators of your own, FILE.py:CLASS, in the same measurement; they are code, and need --allow-code.
        base: The contestant that others are compared with; the first framework by default.
        threads: Of each framework and of the process; the framework's own choice by default.
    """

    suite: Word | None = None
    cases: list[Word | CaseFields] = Field(default_factory=list)
    sample: PositiveInt | None = None
    dtype: Word | None = None
    on: Words = Field(default_factory=list)
    kernels: Words = Field(default_factory=list)
    base: Word | None = None

    level: ClassVar[Level] = "operators"
    compared: ClassVar[str | None] = "on"
    file_field: ClassVar[str] = "suite"
    file_name: ClassVar[str] = "suite.toml"
    labels: ClassVar = (*SYSTEM_LABELS, "suite", "case", "operator", "dtype", "seed")
    needed: ClassVar[Mapping[str, str]] = {
        "forward and backward": "backward: true",
        "backward": "backward: true",
        "forward, cold caches": "cold: true",
        "from NumPy": "numpy: true",
    }

    @property
    def cases_written(self) -> list[CaseFields]:
        """The cases that are written out."""
        return [case for case in self.cases if isinstance(case, CaseFields)]

    @property
    def suite_file(self) -> str | None:
        """The suite, if it is a file."""
        return self.suite if self.suite is not None and Path(self.suite).suffix in (".toml", ".onnx") else None

    def suite_of_cases(self, name: str) -> Suite:
        """The cases that are written out, as a suite.

        Raises:
            InvalidArgument: One is no case of its operator.
        """
        from deep_bench.operators.case import Case
        from deep_bench.operators.suites.suite import Suite

        cases = []
        for number, case in enumerate(self.cases_written):
            inputs = [shape if isinstance(shape, str) else tuple(shape) for shape in case.inputs]
            options: dict[str, Any] = {"dtype": case.dtype, "label": case.label, "count": case.count}
            try:
                cases.append(Case.of(case.operator, *inputs, **options, settings=case.attributes))
            except (TypeError, ValueError) as error:
                raise InvalidArgument(f"cases[{number}]: {error}", "a case of this operator") from error
        return Suite(name, cases)

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
        """See `LevelFields.foreign_code`."""
        yield from (("the operator", kernel) for kernel in self.kernels)
        if self.suite_file is not None:
            yield from _functions_in(home / self.suite_file, self.suite_file)
        elif self.suite is not None:
            yield from import_paths("the suite", [self.suite], suites)
        yield from super().foreign_code(cell, home)

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:  # noqa: ARG002
        """See `LevelFields.check_names`."""
        written = self.cases_written
        if not self.on and not self.kernels:
            expected = "frameworks (on: [torch]), or kernels of your own"
            raise fault_at(line("on") or line("suite"), "nobody takes part", expected)
        check_frameworks(self.on, line)
        if written and (self.suite is not None or len(written) < len(self.cases)):
            raise fault_at(line("cases"), "cases written out beside a suite or labels", "one or the other")
        if not written and self.suite is None:
            raise fault_at(None, "a recipe of operators without cases", "a suite, or cases written out")
        if written:
            self.suite_of_cases(cell.recipe)
        elif self.suite is not None and self.suite_file is None:
            check_registered(suites, self.suite, line("suite"))
            if ":" not in self.suite:
                suite = suites[self.suite]
                for label in self.cases:
                    suite.case(label)

    def write_file(self, cell: Cell, folder: Path, home: Path) -> Path:  # noqa: ARG002
        """See `LevelFields.write_file`."""
        return self.suite_of_cases(cell.recipe).save(folder / self.file_name)

    def options(self, task: CommandTask) -> Iterator[str]:
        """See `LevelFields.options`."""
        from deep_bench.measure.metrics import builtin_metrics

        yield "operators"
        yield f"--suite={task.files.get('suite', self.suite)}"
        yield from self.framework_options()
        yield from self.repeated("case", (case for case in self.cases if isinstance(case, str)))
        yield from self.repeated("metric", (name for name in task.metrics if name in builtin_metrics()))
        yield from self.with_values("sample", "dtype", "base")
        numbers = ("seed", "launches", "check", "budget", "limit", "ci_width")
        yield from self.settings_of(q.OperatorSettings, *numbers, "backward", "cold", "numpy", "isolate")

    def arguments(self, task: CommandTask) -> list[str]:  # noqa: ARG002
        """See `LevelFields.arguments`."""
        return list(self.kernels)

    def files(self) -> Iterator[str]:
        """See `LevelFields.files`."""
        if self.suite_file is not None:
            yield self.suite_file
        yield from (kernel.rpartition(":")[0] for kernel in self.kernels)

    def check_fit(self, load: Callable[[str], Network]) -> None:  # noqa: ARG002
        """See `LevelFields.check_fit`."""
        from deep_bench.operators.suites.from_network import suite_of

        if self.suite_file is not None and not is_missing_file(self.suite_file):
            suite = suite_of(self.suite_file)
            for label in self.cases:
                suite.case(str(label))

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        from deep_bench.measure.metrics import builtin_metrics

        timed = {q.FORWARD, q.DISPATCH, "first call", "setup"}
        timed |= {q.BOTH, q.BACKWARD} if self.backward else set()
        timed |= {q.COLD} if self.cold else set()
        timed |= {q.NUMPY} if self.numpy else set()
        classes = builtin_metrics()
        figures = dict.fromkeys(timed, TIME)
        for metric in (classes[name]() for name in metrics if name in classes):
            figures[metric.name] = FigureKind("s" if metric.unit == "ns" else metric.unit, metric.direction)
        return figures

    @classmethod
    def what_is_needed(cls, figure: str) -> str:
        """See `LevelFields.what_is_needed`."""
        from deep_bench.measure.metrics import builtin_metrics

        return f"metrics: [{figure}]" if figure in builtin_metrics() else super().what_is_needed(figure)

    @property
    def result_systems(self) -> list[str]:
        """See `LevelFields.result_systems`."""
        return [] if self.kernels else super().result_systems

    def label_values(self) -> dict[str, Iterable[str]]:
        """See `LevelFields.label_values`."""
        labels, written = super().label_values(), self.cases_written
        if written:
            labels["operator"] = [case.operator for case in written]
            if all(case.label for case in written):
                labels["case"] = [str(case.label) for case in written]
        return labels

    def data_types(self, cell: Cell) -> Iterable[np.dtype]:
        """See `LevelFields.data_types`."""
        from deep_bench.operators.suites.from_network import suite_of

        if self.suite is not None and Path(self.suite).suffix:
            return ()
        suite = self.suite_of_cases(cell.recipe) if self.suite is None else suite_of(self.suite)
        suite = suite if self.dtype is None else suite.with_dtype(self.dtype)
        return [argument.dtype for case in suite for argument in case.arguments if argument is not None]


def _functions_in(path: Path, suite: str) -> Iterator[tuple[str, str]]:
    """Functions of a network's own that the cases of a file name by an import path."""
    if path.suffix != ".toml" or not path.is_file():
        return
    try:
        cases = tomllib.loads(path.read_text(encoding="utf-8")).get("cases", [])
    except (OSError, ValueError):
        return  # whoever reads it says why
    for case in cases if isinstance(cases, list) else ():
        operator = case.get("operator") if isinstance(case, dict) else None
        if isinstance(operator, str) and ":" in operator.replace("::", ""):
            yield f"the function of {suite}", operator


class NetworkFields(LevelFields, MeasurementSettings):
    """Level ``network``: a network in several frameworks, as `deep-bench run` does it.

    Attributes:
        network: An .onnx file, the name of a network that ships, or one of ``db.networks`` with its settings, with fresh
            parameters.
        on: Frameworks with their options; compared within one interleaved measurement. All that are installed by default.
        inputs: An .npz file; drawn by the seed by default.
        batch: Size of the open first dimensions.
        sizes: Open dimension to size.
        transform: Transformations that come first, as `deep-bench transform` names them.
        threads: Of each framework and of the process; the framework's own choice by default.
    """

    network: Word | dict[str, Any]
    on: Words = Field(default_factory=list)
    inputs: Word | None = None
    batch: NonNegativeInt | None = None
    sizes: dict[Word, NonNegativeInt] = Field(default_factory=dict)
    transform: Words = Field(default_factory=list)

    level: ClassVar[Level] = "network"
    compared: ClassVar[str | None] = "on"
    file_field: ClassVar[str] = "network"
    file_name: ClassVar[str] = "network.onnx"
    labels: ClassVar = (*SYSTEM_LABELS, "network", "size.", "dtype", "seed")

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
        """See `LevelFields.foreign_code`."""
        if isinstance(self.network, dict):
            yield from import_paths("the network", [str(self.network.get("name", ""))], networks)
        yield from super().foreign_code(cell, home)

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:  # noqa: ARG002
        """See `LevelFields.check_names`."""
        from deep_bench.graph.load import DATA
        from deep_bench.network.transform.steps import TransformStep

        check_frameworks(self.on, line)
        if isinstance(self.network, dict):
            _check_settings(self.network, line("network"))
        else:  # a word that looks like no file is the name of a network that ships
            shipped = sorted(file.stem for file in DATA.glob("*.onnx"))
            named = self.network in shipped or is_file_name(self.network) or (home / self.network).exists()
            if not named:
                error = UnknownName("network", self.network, shipped, "or name an .onnx file")
                raise fault_at(line("network"), error.came, f"{error.expected}, or an .onnx file", error.advice)
        for text in self.transform:
            TransformStep.parse(text)

    def write_file(self, cell: Cell, folder: Path, home: Path) -> Path:  # noqa: ARG002
        """The network with fresh parameters, made once for all cells that have the same."""
        assert isinstance(self.network, dict)
        sha256 = hashlib.sha256(json.dumps(self.network, sort_keys=True).encode()).hexdigest()
        name = re.sub(r"[^A-Za-z0-9-]", "-", str(self.network["name"]))
        file = folder.parent / "networks" / sha256[:12] / f"{name}.onnx"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            written(file, made_network(self.network).save)
        return file

    def options(self, task: CommandTask) -> Iterator[str]:  # noqa: ARG002
        """See `LevelFields.options`."""
        yield "run"
        yield from self.framework_options()
        yield from self.repeated("size", (f"{name}={size}" for name, size in self.sizes.items()))
        yield from self.repeated("transform", self.transform)
        if self.inputs is not None:
            yield f"--input={self.inputs}"
        yield from self.with_values("batch")
        yield from self.settings_of(MeasurementSettings, "seed", "launches", "check", "budget", "ci_width")

    def arguments(self, task: CommandTask) -> list[str]:
        """See `LevelFields.arguments`."""
        return [str(task.files.get("network", self.network))]

    def files(self) -> Iterator[str]:
        """See `LevelFields.files`."""
        if isinstance(self.network, str) and is_file_name(self.network):
            yield self.network
        if self.inputs is not None:
            yield self.inputs

    def check_fit(self, load: Callable[[str], Network]) -> None:
        """See `LevelFields.check_fit`."""
        from deep_bench.graph.drawing import choose_sizes
        from deep_bench.network.problem import make_problem

        if any(isinstance(file, str) and is_missing_file(file) for file in (self.network, self.inputs)):
            return
        network = load(json.dumps(self.network, sort_keys=True, default=str))
        if self.inputs is None:
            choose_sizes(network, self.sizes, batch=self.batch)
        else:
            make_problem(network, inputs=self.inputs, sizes=self.sizes, batch=self.batch, seed=self.seed)

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        times = dict.fromkeys(("forward", "from NumPy", "first call", "setup"), TIME)
        return {**times, "peak memory": FigureKind("B", "lower")}

    def data_types(self, cell: Cell) -> Iterable[np.dtype]:  # noqa: ARG002
        """See `LevelFields.data_types`."""
        from deep_bench.graph import load

        if not isinstance(self.network, str) or self.transform or is_file_name(self.network):
            return ()
        network = load(self.network)
        return [spec.dtype for spec in (*network.inputs, *network.outputs)]


def made_network(stated: dict[str, Any]) -> Network:
    """A network with fresh parameters.

    Args:
        stated: Its name in ``db.networks``, and its settings.

    Raises:
        InvalidArgument: It does not take these settings.

    Example:
        >>> made_network({"name": "mlp", "hidden": [4]}).name
        'mlp'
    """
    name = str(stated["name"])
    try:
        return networks[name](**{key: value for key, value in stated.items() if key != "name"})
    except TypeError as error:
        raise InvalidArgument(f"the network {stated}: {error}", f"settings of db.networks[{name!r}]") from error


def _check_settings(settings: dict[str, Any], line: int | None) -> None:
    """See that there is what makes a network, and that it takes these settings."""
    name = settings.get("name")
    if not isinstance(name, str):
        raise fault_at(line, f"the network {settings}", "its name in db.networks, and its settings")
    check_registered(networks, name, line)
    if name not in networks:
        return  # others' code is not imported to look at a recipe
    parameters = list(inspect.signature(networks[name]).parameters)
    for setting in settings:
        if setting != "name" and setting not in parameters:
            came = f"the network {name} has no setting {setting!r}"
            raise fault_at(line, came, f"one of {', '.join(parameters)}", nearest(setting, parameters))


class CommunicationFields(LevelFields, CollectiveSettings):
    """Level ``communication``: messages and collective operations, as `deep-bench communicate` does it.

    Attributes:
        collectives: ``latency``, ``bandwidth``, ``allreduce``, ``broadcast``, …
        over: Communicators; compared within one measurement, taking turns. ``mpi`` by default.
        ranks: How many processes, started by mpirun or srun.
        pair: The two ranks of latency and bandwidths; 0 and 1 by default.
        machine: A file that says what messages cost, instead of measuring it.
        threads: Of each process; the library's own choice by default.
    """

    collectives: Annotated[Words, Field(min_length=1)]
    over: Annotated[Words, Field(min_length=1)] = Field(default_factory=lambda: ["mpi"])
    ranks: Annotated[int, Field(ge=2)]
    pair: Annotated[list[NonNegativeInt], Field(min_length=2, max_length=2)] = Field(default_factory=lambda: [0, 1])
    machine: Word | None = None

    level: ClassVar[Level] = "communication"
    compared: ClassVar[str | None] = "over"
    systems_field: ClassVar[str] = "over"
    registry: ClassVar[Registry] = communicators
    labels: ClassVar = (*SYSTEM_LABELS, *RANK_LABELS, "case", "operator", "dtype", "bytes", "seed")

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """See `LevelFields.foreign_code`."""
        yield from import_paths("the communicator", self.over, communicators)

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:  # noqa: ARG002
        """See `LevelFields.check_names`."""
        from deep_bench.distributed.collectives.study import BACKENDS

        for name in self.over:
            if name not in BACKENDS:
                check_registered(communicators, name, line("over"))
        first, second = self.pair
        shared = {name: getattr(self, name) for name in CollectiveSettings.model_fields}
        settings = BenchmarkSettings(**shared, collectives=tuple(self.collectives), pair=(first, second))
        settings.check_ranks(self.ranks)

    def options(self, task: CommandTask) -> Iterator[str]:  # noqa: ARG002
        """See `LevelFields.options`."""
        yield "communicate"
        yield from self.repeated("collective", self.collectives)
        yield from self.repeated("over", self.over)
        yield f"--pair={self.pair[0]},{self.pair[1]}"
        yield from self.settings_of(CollectiveSettings)
        yield from self.with_values("machine")

    def check_fit(self, load: Callable[[str], Network]) -> None:  # noqa: ARG002
        """See `LevelFields.check_fit`."""
        from deep_bench.distributed.machine import load_machine

        if self.machine is not None and not is_missing_file(self.machine):
            load_machine(Path(self.machine))

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        from deep_bench.distributed.collectives.operations import KINDS

        sized = any(name not in KINDS or KINDS[name].sized for name in self.collectives)
        bandwidths = ("algorithm bandwidth", "bus bandwidth") if sized else ()
        return {"time": TIME, **dict.fromkeys(bandwidths, FigureKind("B/s", "higher"))}

    @property
    def verdicts(self) -> tuple[str, ...]:
        """See `LevelFields.verdicts`."""
        return VERDICTS

    @property
    def result_systems(self) -> list[str]:
        """See `LevelFields.result_systems`."""
        return [] if any(":" in name for name in self.over) else list(self.over)

    def label_values(self) -> dict[str, Iterable[str]]:
        """See `LevelFields.label_values`."""
        return {**super().label_values(), "operator": self.collectives, "ranks": [str(self.ranks)]}


_CANNOT = ", and cannot be fetched"
"""What a set says whose files are missing and that was given no mirror."""


class TrainedFields(LevelFields):
    """Levels that have the fields of a training recipe as well, or the name of one; a cell has what is changed in it.

    Attributes:
        recipe: A training recipe's name, or its file; none where its fields are all written here.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    file_field: ClassVar[str] = "recipe"
    file_name: ClassVar[str] = "training.yaml"
    trains: ClassVar[bool] = True

    recipe: Word | None = None

    def training_content(self, cell: Cell, home: Path) -> dict[str, Any]:
        """What the training recipe of a cell says, its changes made; it is not checked.

        Args:
            cell: The cell.
            home: The folder that names of files are relative to.

        Raises:
            InvalidArgument: Its file cannot be read, or a change leads nowhere.
        """
        from deep_bench.training.recipes import RECIPES
        from deep_bench.training.recipes import __file__ as package
        from deep_bench.training.recipes.recipe import assigned

        base: Any = {}
        if self.recipe is not None:
            path = Path(package).with_name(f"{self.recipe}.yaml") if self.recipe in RECIPES else home / self.recipe
            description = f"the training recipe {self.recipe!r} (one of {', '.join(RECIPES)}, or a file)"
            base = parsed(text_in(path, description), description)
            if not isinstance(base, Mapping):
                came = f"the training recipe {path} is a {type(base).__name__}"
                raise InvalidArgument(came, "fields such as network and data")
        name = cell.recipe if self.recipe is None else Path(self.recipe).stem
        return assigned({"name": name, **base}, _assignments(cell))

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
        """See `LevelFields.foreign_code`."""
        yield from super().foreign_code(cell, home)
        try:
            content = self.training_content(cell, home)
        except DeepBenchError:
            return  # the check of names says what is wrong
        for part, registry in (("network", networks), ("data", datasets), ("sampler", samplers), ("optimizer", optimizers)):
            declared = content.get(part)
            name = declared.get("name") if isinstance(declared, dict) else declared
            if isinstance(name, str):
                yield from import_paths(f"the {registry.kind}", [name], registry)

    def write_file(self, cell: Cell, folder: Path, home: Path) -> Path:
        """See `LevelFields.write_file`."""
        text = yaml.safe_dump(self.training_content(cell, home), sort_keys=False, allow_unicode=True)
        return written(folder / self.file_name, lambda path: path.write_text(text, encoding="utf-8"))

    def arguments(self, task: CommandTask) -> list[str]:
        """See `LevelFields.arguments`."""
        return [str(task.files["recipe"])] if "recipe" in task.files else [str(self.recipe), *_assignments(task.cell)]

    def missing_data(self, cell: Cell) -> Iterator[str]:
        """What the training recipe lacks: a library that prepares samples, or the samples themselves."""
        from deep_bench.training.recipes import Recipe
        from deep_bench.training.recipes.recipe import is_file
        from deep_bench.training.recipes.splits import SPLITS

        try:
            fields = Recipe(self.training_content(cell, Path.cwd())).fields
            if is_file(fields.network.name) and not Path(fields.network.name).is_file():
                yield f"the file {fields.network.name}"
            make, settings = datasets[fields.data.name], dict(fields.data.settings)
            if "mirrors" in inspect.signature(make).parameters:
                settings.setdefault("mirrors", ())  # nothing is fetched while one only looks
            split: Any = fields.data.split
            SPLITS[split.name](partial(make, **settings), **split.settings)
        except DeepBenchError as error:
            subject, fetched, _ = error.came.partition(_CANNOT)
            parts = [f"{subject}, which a run would fetch" if fetched else subject, error.advice]
            yield f"for {self.recipe or cell.recipe}: {' '.join('; '.join(filter(None, parts)).split())}"


class TrainingFields(TrainedFields):
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

    level: ClassVar[Level] = "training"
    labels: ClassVar = (
        *(*SYSTEM_LABELS, *RANK_LABELS, "network", "data", "batch", "optimizer", "scheme"),
        *("seed", "epochs", "steps", "target"),
    )
    needed: ClassVar[Mapping[str, str]] = {"time to target": "a target, such as {accuracy: 0.9}"}

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:
        """See `LevelFields.check_names`."""
        from deep_bench.training.recipes import Recipe

        if len(self.on) != 1:
            came = f"a training on {', '.join(self.on) or 'nothing'}"
            raise fault_at(line("on"), came, "one framework; several are a factor: matrix.on")
        check_frameworks(self.on, line)
        seeds = Recipe(self.training_content(cell, home)).fields.seeds
        if self.runs > len(seeds):
            came = f"{self.runs} runs with {len(seeds)} seeds"
            raise fault_at(line("runs"), came, "a seed for each: seeds: [0, 1, …]")
        if self.checkpoint_every is not None and not self.checkpoints:
            raise fault_at(line("checkpoint_every"), "checkpoint_every without checkpoints", "checkpoints: true")
        if self.distributed is not None:
            check_scheme(self.distributed, line)

    def options(self, task: CommandTask) -> Iterator[str]:
        """See `LevelFields.options`."""
        yield "train"
        yield from self.framework_options()
        yield from self.with_values("runs", "steps", "limit")
        if self.validate_steps is not None:
            yield f"--validate={self.validate_steps}"
        if task.cell.changes.get("target", ...) in (None, {}):
            yield "--no-target"
        if self.checkpoints:
            yield f"--checkpoints={task.folder / 'checkpoints'}"
            yield "--resume"
        if self.checkpoint_every is not None:
            yield f"--checkpoint-every={plain_number(self.checkpoint_every)}s"
        if self.apart:
            yield "--apart"
        if self.ranks > 1 or self.distributed is not None:
            yield f"--distributed={self.distributed or 'allreduce'}"
            yield from self.with_values("over", "scaling", "samples")

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        from deep_bench.training.recipes import Recipe

        recipe = Recipe(self.training_content(cell, home))
        scores = {name: FigureKind(score.unit, score.direction) for name, score in recipe.scores.items()}
        target = {"time to target": TIME} if recipe.fields.target else {}
        return {**target, **scores, "throughput": FigureKind("samples/s", "higher"), "time": TIME, "setup": TIME}

    def label_values(self) -> dict[str, Iterable[str]]:
        """See `LevelFields.label_values`."""
        return {**super().label_values(), "ranks": [str(self.ranks)]}


def _assignments(cell: Cell) -> list[str]:
    """The changes of a cell as `deep-bench train` takes them."""
    return [f"{path}={json.dumps(value)}" for path, value in cell.changes.items()]


def check_scheme(text: str, line: LineFinder) -> None:
    """See that there is a scheme, and that it takes its settings."""
    from deep_bench.distributed.training.train import name_of, settings_of

    name = name_of(text)
    check_registered(distributed_optimizers, name, line("distributed"))
    if name in distributed_optimizers:  # others' code is not imported to look at a recipe
        settings_of(text)


class ScalingFields(TrainedFields):
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

    on: Word | None = None
    predicted: Word = "4..65536"
    distributed: Word = "allreduce"
    scaling: Literal["strong", "weak"] = "strong"
    machine: Word | None = None
    over: Word | None = None
    latency: Word | None = None
    bandwidth: Word | None = None
    algorithms: dict[Word, Word] = Field(default_factory=dict)
    topology: Literal["fat-tree", "dragonfly", "torus"] = "fat-tree"
    replay_up_to: NonNegativeInt = 1024
    budget: Seconds = 8.0
    steps: Annotated[int, Field(ge=3)] | None = None
    seed: NonNegativeInt = 0

    level: ClassVar[Level] = "scaling"
    labels: ClassVar = (*SYSTEM_LABELS, "ranks", "network", "scheme", "scaling", "machine", "batch")
    needed: ClassVar[Mapping[str, str]] = {"predicted step, simulated": "replay_up_to above 0"}

    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:
        """See `LevelFields.check_names`."""
        from deep_bench.training.recipes import Recipe

        check_frameworks(self.systems, line)
        Recipe(self.training_content(cell, home))
        check_scheme(self.distributed, line)
        has_costs = self.latency is not None and self.bandwidth is not None
        if has_costs == (self.machine is not None) or (self.latency is None) != (self.bandwidth is None):
            place, expected = line("machine") or line("latency"), "machine: FILE, or latency with bandwidth"
            raise fault_at(place, "what messages cost is not clear", expected)
        if self.over is not None and self.machine is None:
            raise fault_at(line("over"), "over without machine", "a machine file, whose communicator it is")

    def options(self, task: CommandTask) -> Iterator[str]:  # noqa: ARG002
        """See `LevelFields.options`."""
        yield "scale"
        yield f"--ranks={self.predicted}"
        yield from self.framework_options()
        yield from self.repeated("algorithm", (f"{name}={algorithm}" for name, algorithm in self.algorithms.items()))
        yield f"--network={self.topology}"
        yield from self.with_values("distributed", "scaling", "machine", "over", "latency", "bandwidth")
        yield from self.with_values("replay_up_to", "budget", "steps", "seed")

    def check_fit(self, load: Callable[[str], Network]) -> None:  # noqa: ARG002
        """See `LevelFields.check_fit`."""
        from deep_bench.distributed.scaling.study import machine_of_file

        if self.machine is not None and not is_missing_file(self.machine):
            machine_of_file(Path(self.machine), self.over)

    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:  # noqa: ARG002
        """See `LevelFields.figures`."""
        simulated = ("predicted step, simulated",) if self.replay_up_to else ()
        times = dict.fromkeys(("predicted step", "predicted computing", "predicted messages", *simulated), TIME)
        return {**times, **dict.fromkeys(("predicted speed-up", "predicted efficiency"), FigureKind("", "higher"))}


_CLASSES: tuple[type[LevelFields], ...] = (
    OperatorsFields, NetworkFields, TrainingFields, CommunicationFields, ScalingFields,
)  # fmt: skip

LEVELS: Mapping[str, type[LevelFields]] = MappingProxyType({fields.level: fields for fields in _CLASSES})
"""Level to its fields."""
