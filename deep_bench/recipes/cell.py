"""`Cell` and `LevelFields`: one measurement, and what a recipe fixes and varies for it, with all that follows from that.

A cell is one combination of a recipe's factors, measured in a process of its own by a command line that a person could type.
Which systems are compared, that command line, files that must be there, what results can hold, what is missing on a machine
and what does not fit are said level by level: a level is one class, and what levels share is said by their base.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import AfterValidator, BeforeValidator, PositiveInt

from deep_bench import frameworks
from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument, UnknownName
from deep_bench.recipes.faults import at_line
from deep_bench.registry import Registry
from deep_bench.study.settings import SettingsModel, Word
from deep_bench.tensor import is_inexact, significand_bits
from deep_bench.variant import Variant, lean_frameworks
from deep_bench.yaml_text import RecipePart

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.results.result import Direction

Level: TypeAlias = Literal["operators", "network", "training", "communication", "scaling"]


def _as_list(value: Any) -> Any:
    """One thing alone stands for a list of it."""
    return value if isinstance(value, list) else [value]


Words = Annotated[list[Word], BeforeValidator(_as_list)]

LineFinder: TypeAlias = "Callable[..., int | None]"
"""From a path in what is fixed or varies to its line."""


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


class FigureKind(NamedTuple):
    """The unit of a figure, and which is better."""

    unit: str
    direction: Direction


TIME = FigureKind("s", "lower")
VERDICTS = ("right", "reduced precision", "wrong", "cannot tell", "no information", "unchecked")
SYSTEM_LABELS = ("system", "framework", "version", "device", "option.")
RANK_LABELS = ("ranks", "nodes", "communicator")


@dataclass(frozen=True)
class CommandTask:
    """What a command line is made for; see `command_words`."""

    cell: Cell
    folder: Path
    files: Mapping[str, Path]
    metrics: Sequence[str]


class LevelFields(RecipePart):
    """What is fixed or varies at a level; each level is a class of its own.

    Attributes:
        level: Its name.
        compared: The factor whose values are compared within one interleaved measurement; all others make cells.
        systems_field: The field that names the systems under test, which are of
        registry: this registry.
        file_field: The field that names what is a file on the command line; where it does not, the cell writes
        file_name: this file.
        labels: Of its results; a dot at the end stands for all that begin so. What is said more closely of a label has a dot
            after its name: ``network.sha256``, ``optimizer.lr``.
        needed: Figure to what a recipe has to say so that it is there.
        trains: Whether it has the fields of a training recipe as well.
    """

    level: ClassVar[Level]
    compared: ClassVar[str | None] = None
    systems_field: ClassVar[str] = "on"
    registry: ClassVar[Registry] = frameworks
    file_field: ClassVar[str] = ""
    file_name: ClassVar[str] = ""
    labels: ClassVar[Sequence[str]]
    needed: ClassVar[Mapping[str, str]] = {}
    trains: ClassVar[bool] = False

    threads: PositiveInt | None = None

    @property
    def systems(self) -> list[str]:
        """The systems under test, as they are written."""
        value = getattr(self, self.systems_field)
        return [value] if isinstance(value, str) else list(value or ())

    @property
    def processes(self) -> int:
        """How many processes measure together: the field ``ranks``, where there is one."""
        return int(getattr(self, "ranks", 1))

    # What it names

    def foreign_code(self, cell: Cell, home: Path) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """What each thing is, and its name, of all that is code which is neither deep_bench's nor registered with it."""
        yield from import_paths("the framework", self.systems, frameworks)

    @abstractmethod
    def check_names(self, cell: Cell, home: Path, line: LineFinder) -> None:
        """See that there is what a cell names.

        Args:
            cell: The cell.
            home: The folder that names of files are relative to.
            line: Tells lines.

        Raises:
            InvalidArgument: Something is missing, contradicts itself, or cannot be.
            UnknownName: A framework, suite, … that there is not.
        """

    # The command that measures it

    @property
    def has_own_file(self) -> bool:
        """Whether the recipe says itself what the command line needs a file for."""
        value = getattr(self, self.file_field, "")
        return value is None or isinstance(value, dict)

    def write_file(self, cell: Cell, folder: Path, home: Path) -> Path:
        """Write what the recipe says itself as a file of the cell's folder."""
        raise NotImplementedError

    @abstractmethod
    def options(self, task: CommandTask) -> Iterator[str]:
        """The verb and its options."""

    def arguments(self, task: CommandTask) -> list[str]:  # noqa: ARG002
        """What follows the options."""
        return []

    def repeated(self, option: str, values: Iterable[Any]) -> Iterator[str]:
        """An option that may be there several times."""
        yield from (f"--{option}={value}" for value in values)

    def framework_options(self) -> Iterator[str]:
        """The frameworks, each with its threads."""
        yield from self.repeated("on", (with_threads(name, self.threads) for name in self.systems))

    def with_values(self, *names: str) -> Iterator[str]:
        """Options of the same names as fields, of those that have a value."""
        for name in names:
            if (value := getattr(self, name)) is not None:
                yield f"--{name.replace('_', '-')}={plain_number(value)}"

    def settings_of(self, settings: type[SettingsModel], *first: str) -> Iterator[str]:
        """Options of the settings that fields were made from; see `deep_bench.cli.verb.settings_options`.

        Args:
            settings: States them.
            first: Those that come first, in this order.
        """
        for name in dict.fromkeys([*first, *settings.model_fields]):
            option, value, default = name.replace("_", "-"), getattr(self, name), settings.model_fields[name].default
            if not isinstance(value, bool):
                yield f"--{option}={plain_number(value)}"
            elif value != default:
                yield f"--{option}" if value else f"--no-{option}"

    # What this machine has

    def files(self) -> Iterator[str]:
        """The files that the fields name; of all levels, the one that says what messages cost."""
        if (machine := getattr(self, "machine", None)) is not None:
            yield machine

    def missing_data(self, cell: Cell) -> Iterator[str]:  # noqa: ARG002
        """What else is not on this machine, and what to get."""
        yield from ()

    def check_fit(self, load: Callable[[str], Network]) -> None:
        """See that what is named can be read, and fits; what is missing is told elsewhere.

        Args:
            load: Loads a network that a recipe states, in JSON.

        Raises:
            DeepBenchError: It cannot, or does not.
        """

    # What results can hold

    @abstractmethod
    def figures(self, cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, FigureKind]:
        """The figures that the results of a cell can have.

        Args:
            cell: The cell.
            home: The folder that names of files are relative to.
            metrics: What else is to be found out of operators.

        Example:
            >>> from deep_bench.recipes import load_experiment
            >>> cell = load_experiment("small-communication").cells[0]
            >>> cell.fields.figures(cell, Path())["bus bandwidth"]
            FigureKind(unit='B/s', direction='higher')
        """

    @classmethod
    def what_is_needed(cls, figure: str) -> str:
        """What a recipe has to say so that there is a figure; empty where saying something does not help.

        Example:
            >>> from deep_bench.recipes.levels import LEVELS
            >>> LEVELS["operators"].what_is_needed("backward"), LEVELS["network"].what_is_needed("backward")
            ('backward: true', '')
        """
        return cls.needed.get(figure, "")

    @property
    def has_bits(self) -> bool:
        """Whether significant bits are found out."""
        return getattr(self, "check", "off") != "off"

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The verdicts that results can have.

        Example:
            >>> from deep_bench.recipes import load_experiment
            >>> load_experiment("small-training").cells[0].fields.verdicts
            ('unchecked',)
        """
        return VERDICTS if self.has_bits else ("unchecked",)

    @property
    def result_systems(self) -> list[str]:
        """The systems under test as results call them; empty where that is not known."""
        return [with_threads(name, self.threads) for name in self.systems]

    def label_values(self) -> dict[str, Iterable[str]]:
        """Labels whose values a recipe tells."""
        systems = self.result_systems
        if not systems or any("@" in name for name in systems):
            return {}
        return {"system": systems, "framework": [name.partition(":")[0] for name in systems]}

    def data_types(self, cell: Cell) -> Iterable[np.dtype]:  # noqa: ARG002
        """The types of the data; none where only a file tells, which may be large or not be here yet."""
        return ()

    def most_bits(self, cell: Cell) -> int:
        """The bits of the widest floating-point type; those of float64 where types are not known before it runs.

        Example:
            >>> from deep_bench.recipes import load_experiment
            >>> cells = [load_experiment(name).cells[-1] for name in ("small-network", "small-operators")]
            >>> [cell.fields.most_bits(cell) for cell in cells]
            [24, 53]
        """
        bits = (significand_bits(dtype) for dtype in self.data_types(cell) if is_inexact(dtype))
        return max(bits, default=significand_bits(np.dtype(np.float64)))


def plain_number(value: Any) -> str:
    """A number without an exponent, which durations on the command line do not have."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def with_threads(on: str, threads: int | None) -> str:
    """A framework with so many threads, unless it says itself how many.

    Example:
        >>> with_threads("torch:compile=inductor", 2), with_threads("reference", 2), with_threads("torch:threads=1", 2)
        ('torch:compile=inductor,threads=2', 'reference', 'torch:threads=1')
    """
    name, colon, options = on.partition(":")
    if threads is None or name == "reference" or name not in frameworks or "threads=" in options:
        return on
    return f"{on}{',' if colon else ':'}threads={threads}"


def is_file_name(name: str) -> bool:
    """Whether a name is that of a file, and not of something that ships.

    Example:
        >>> is_file_name("mine.onnx"), is_file_name("models/mine"), is_file_name("digits-cnn")
        (True, True, False)
    """
    return bool(Path(name).suffix) or "/" in name


def is_missing_file(name: str) -> bool:
    """Whether a file is not there."""
    return is_file_name(name) and not Path(name).is_file()


_PATH = re.compile(r"[\w./-]+:[^\W\d][\w.]*(:.*)?")


def is_path(name: str) -> bool:
    """Whether a name is an import path, or a file with what is meant in it, which options of a framework are not.

    Example:
        >>> is_path("my_adapter:Mine"), is_path("kernels.py:Gelu"), is_path("torch:threads=1")
        (True, True, False)
    """
    return _PATH.fullmatch(name) is not None


def import_paths(kind: str, names: Iterable[str], registry: Registry) -> Iterator[tuple[str, str]]:
    """The kind and name of those that are import paths, or live in an environment of their own."""
    for name in names:
        head = name.partition(":")[0]
        if "@" in head or (is_path(name) and head not in registry):
            yield kind, name


def check_registered(registry: Registry, name: str, line: int | None) -> None:
    """See that a name is registered, its options apart, or an import path; nothing is imported."""
    head = name.partition(":")[0]
    if head not in registry and not is_path(name):
        error = UnknownName(registry.kind, head, registry)
        raise fault_at(line, error.came, error.expected, error.advice)


def check_frameworks(names: Sequence[str], line: LineFinder) -> None:
    """See that there are these frameworks, each once; options in another order make no other framework."""
    variants: dict[object, str] = {}
    for name in names:
        framework, environment, _ = name.partition("@")
        if not environment or framework not in lean_frameworks:
            check_registered(frameworks, framework, line("on"))
        head = re.split("[:@]", name, maxsplit=1)[0]
        identity: object = name  # without options, or an import path: others' code
        if head != name and (head in frameworks or head in lean_frameworks):
            try:
                variant = Variant.parse(name)
                identity = (variant.framework, variant.environment, tuple(sorted(variant.options.items())))
            except FrameworkMissing:
                pass  # whether it is installed is a matter of where the cell runs
            except DeepBenchError as error:
                raise fault_at(line("on"), error.came, error.expected, error.advice) from error
        if identity in variants:
            raise fault_at(line("on"), f"on {variants[identity]} and {name}", "each once")
        variants[identity] = name


def fault_at(line: int | None, came: str, expected: str, advice: str = "") -> InvalidArgument:
    """An error that begins with its line."""
    return InvalidArgument(f"{at_line(line)}{came}", expected, advice)


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
        files: What was written for it; see `prepare_files`.
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
