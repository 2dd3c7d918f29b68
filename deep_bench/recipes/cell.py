"""`Cell`: one combination of a recipe's factors, which is one measurement in a process of its own.

A cell has a training recipe, files that must be there before it starts, and the command line that measures it, which is what
a person would type.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from deep_bench import frameworks, networks
from deep_bench.errors import InvalidArgument
from deep_bench.recipes.levels import (
    CommunicationFields,
    Fields,
    Level,
    NetworkFields,
    OperatorsFields,
    ScalingFields,
    TrainingFields,
)
from deep_bench.records.store import written
from deep_bench.yaml_text import parsed, text_in

if TYPE_CHECKING:
    from deep_bench.graph import Network
    from deep_bench.operators.suites.suite import Suite


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
    fields: Fields
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


def training_content(cell: Cell, home: Path) -> dict[str, Any]:
    """What the training recipe of a cell says, its changes made; it is not checked.

    Args:
        cell: Of the levels training and scaling.
        home: The folder that names of files are relative to.

    Raises:
        InvalidArgument: Its file cannot be read, or a change leads nowhere.
    """
    from deep_bench.training.recipes import RECIPES
    from deep_bench.training.recipes import __file__ as package
    from deep_bench.training.recipes.recipe import assigned

    fields = cell.fields
    assert isinstance(fields, TrainingFields | ScalingFields)
    base: Any = {}
    if fields.recipe is not None:
        path = Path(package).with_name(f"{fields.recipe}.yaml") if fields.recipe in RECIPES else home / fields.recipe
        description = f"the training recipe {fields.recipe!r} (one of {', '.join(RECIPES)}, or a file)"
        base = parsed(text_in(path, description), description)
        if not isinstance(base, Mapping):
            raise InvalidArgument(
                f"the training recipe {path} is a {type(base).__name__}", "fields such as network and data"
            )
    return assigned({"name": _name(fields.recipe, cell), **base}, assignments(cell))


def assignments(cell: Cell) -> list[str]:
    """The changes of a cell as `deep-bench train` takes them."""
    return [f"{path}={json.dumps(value)}" for path, value in cell.changes.items()]


def _name(recipe: str | None, cell: Cell) -> str:
    return cell.recipe if recipe is None else Path(recipe).stem


def suite_of_cases(cell: Cell) -> Suite:
    """The cases that a recipe of operators writes out.

    Raises:
        InvalidArgument: One is no case of its operator.
    """
    from deep_bench.operators.case import Case
    from deep_bench.operators.suites.suite import Suite

    fields = cell.fields
    assert isinstance(fields, OperatorsFields)
    cases = []
    for number, case in enumerate(fields.cases):
        assert not isinstance(case, str)
        try:
            inputs = [shape if isinstance(shape, str) else tuple(shape) for shape in case.inputs]
            cases.append(
                Case.of(
                    case.operator, *inputs, dtype=case.dtype, label=case.label, count=case.count, settings=case.attributes
                )
            )
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"cases[{number}]: {error}", "a case of this operator") from error
    return Suite(cell.recipe, cases)


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
    if isinstance(fields, OperatorsFields) and fields.suite is None:
        return {"suite": suite_of_cases(cell).save(folder / "suite.toml")}
    if isinstance(fields, NetworkFields) and isinstance(fields.network, dict):
        return {"network": _network_file(fields.network, folder.parent)}
    if isinstance(fields, TrainingFields | ScalingFields) and fields.recipe is None:
        text = yaml.safe_dump(training_content(cell, home), sort_keys=False, allow_unicode=True)
        return {"recipe": written(folder / "training.yaml", lambda path: path.write_text(text, encoding="utf-8"))}
    return {}


def is_file_name(name: str) -> bool:
    """Whether a name is that of a file, and not of something that ships.

    Example:
        >>> is_file_name("mine.onnx"), is_file_name("models/mine"), is_file_name("digits-cnn")
        (True, True, False)
    """
    return bool(Path(name).suffix) or "/" in name


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


def _network_file(settings: dict[str, Any], folder: Path) -> Path:
    """A network with fresh parameters, made once for all cells that have the same."""
    sha256 = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    file = folder / "networks" / sha256[:12] / f"{re.sub(r'[^A-Za-z0-9-]', '-', str(settings['name']))}.onnx"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        written(file, made_network(settings).save)
    return file


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that set the threads of a process."""


_REFERENCE = "reference"


@dataclass(frozen=True)
class _CommandTask:
    """What words are wanted for; see `words`."""

    cell: Cell
    folder: Path
    files: Mapping[str, Path]
    metrics: Sequence[str]


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
    request, arguments = _CommandTask(cell, folder, files, metrics), _arguments_of(cell, files)
    return [*_VERBS[cell.level](request), f"--output={folder}", *(["--", *arguments] if arguments else [])]


def plain_words(cell: Cell) -> list[str]:
    """The words after ``deep-bench`` in a folder with the files that the cell needs.

    Args:
        cell: The cell.
    """
    files = {kind: Path(cell.id, name) for kind, name in _FILES.items() if _is_written(getattr(cell.fields, kind, ...))}
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
    ranks = ranks_of(cell.fields)
    started = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return shlex.join([*started, "deep-bench", *plain_words(cell)])


_FILES = {"suite": "suite.toml", "recipe": "training.yaml", "network": "network.onnx"}
"""Field to the file that is written where it names none; see `deep_bench.recipes.cell.prepare_files`."""


def _is_written(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def ranks_of(fields: Fields) -> int:
    """How many processes measure together."""
    return fields.ranks if isinstance(fields, TrainingFields | CommunicationFields) else 1


def variables(fields: Fields) -> dict[str, str]:
    """What the environment of a cell has beside that of the caller."""
    return {} if fields.threads is None else dict.fromkeys(THREADS, str(fields.threads))


def with_threads(on: str, threads: int | None) -> str:
    """A framework with so many threads, unless it says itself how many.

    Example:
        >>> with_threads("torch:compile=inductor", 2), with_threads("reference", 2), with_threads("torch:threads=1", 2)
        ('torch:compile=inductor,threads=2', 'reference', 'torch:threads=1')
    """
    name, colon, options = on.partition(":")
    if threads is None or name == _REFERENCE or name not in frameworks or "threads=" in options:
        return on
    return f"{on}{',' if colon else ':'}threads={threads}"


def _arguments_of(cell: Cell, files: Mapping[str, Path]) -> list[str]:
    """What follows the options."""
    fields = cell.fields
    if isinstance(fields, OperatorsFields):
        return list(fields.kernels)
    if isinstance(fields, NetworkFields):
        return [str(files.get("network", fields.network))]
    if isinstance(fields, TrainingFields | ScalingFields):
        return [str(files["recipe"])] if "recipe" in files else [str(fields.recipe), *assignments(cell)]
    return []


def _operators_words(request: _CommandTask) -> Iterator[str]:
    from deep_bench.measure.metrics import builtin_metrics

    fields = request.cell.fields
    assert isinstance(fields, OperatorsFields)
    yield "operators"
    yield f"--suite={request.files.get('suite', fields.suite)}"
    yield from _repeated_options("on", (with_threads(variant, fields.threads) for variant in fields.on))
    yield from _repeated_options("case", (case for case in fields.cases if isinstance(case, str)))
    yield from _repeated_options("metric", (name for name in request.metrics if name in builtin_metrics()))
    yield from _field_options(fields, "sample", "dtype", "base", "seed", "launches", "check")
    yield from _field_options(fields, "budget", "limit", "ci_width")
    yield from _flags(fields, "backward", "cold", "numpy", "isolate")
    if not fields.twin:
        yield "--no-twin"


def _network_words(request: _CommandTask) -> Iterator[str]:
    fields = request.cell.fields
    assert isinstance(fields, NetworkFields)
    yield "run"
    yield from _repeated_options("on", (with_threads(variant, fields.threads) for variant in fields.on))
    yield from _repeated_options("size", (f"{name}={size}" for name, size in fields.sizes.items()))
    yield from _repeated_options("transform", fields.transform)
    if fields.inputs is not None:
        yield f"--input={fields.inputs}"
    yield from _field_options(fields, "batch", "seed", "launches", "check", "budget", "ci_width")
    if not fields.twin:
        yield "--no-twin"


def _training_words(request: _CommandTask) -> Iterator[str]:
    fields = request.cell.fields
    assert isinstance(fields, TrainingFields)
    yield "train"
    yield from _repeated_options("on", (with_threads(variant, fields.threads) for variant in fields.on))
    yield from _field_options(fields, "runs", "steps", "limit")
    if fields.validate_steps is not None:
        yield f"--validate={fields.validate_steps}"
    if request.cell.changes.get("target", ...) in (None, {}):
        yield "--no-target"
    if fields.checkpoints:
        yield f"--checkpoints={request.folder / 'checkpoints'}"
        yield "--resume"
    if fields.checkpoint_every is not None:
        yield f"--checkpoint-every={_number(fields.checkpoint_every)}s"
    yield from _flags(fields, "apart")
    if fields.ranks > 1 or fields.distributed is not None:
        yield f"--distributed={fields.distributed or 'allreduce'}"
        yield from _field_options(fields, "over", "scaling", "samples")


def _communication_words(request: _CommandTask) -> Iterator[str]:
    fields = request.cell.fields
    assert isinstance(fields, CommunicationFields)
    yield "communicate"
    yield from _repeated_options("collective", fields.collectives)
    yield from _repeated_options("over", fields.over)
    yield f"--pair={fields.pair[0]},{fields.pair[1]}"
    yield from _field_options(fields, "sizes", "dtype", "budget", "ci_width", "seed", "machine")


def _scaling_words(request: _CommandTask) -> Iterator[str]:
    fields = request.cell.fields
    assert isinstance(fields, ScalingFields)
    yield "scale"
    yield f"--ranks={fields.predicted}"
    if fields.on is not None:
        yield f"--on={with_threads(fields.on, fields.threads)}"
    yield from _repeated_options("algorithm", (f"{name}={algorithm}" for name, algorithm in fields.algorithms.items()))
    yield f"--network={fields.topology}"
    yield from _field_options(fields, "distributed", "scaling", "machine", "over", "latency", "bandwidth")
    yield from _field_options(fields, "replay_up_to", "budget", "steps", "seed")


_VERBS: Mapping[str, Callable[[_CommandTask], Iterator[str]]] = {
    "operators": _operators_words,
    "network": _network_words,
    "training": _training_words,
    "communication": _communication_words,
    "scaling": _scaling_words,
}


def _repeated_options(option: str, values: Iterable[Any]) -> Iterator[str]:
    yield from (f"--{option}={value}" for value in values)


def _field_options(fields: Fields, *names: str) -> Iterator[str]:
    """Options of the same names as fields, of those that have a value."""
    for name in names:
        if (value := getattr(fields, name)) is not None:
            yield f"--{name.replace('_', '-')}={_number(value)}"


def _number(value: Any) -> str:
    """A number without an exponent, which durations on the command line do not have."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _flags(fields: Fields, *names: str) -> Iterator[str]:
    yield from (f"--{name}" for name in names if getattr(fields, name))
