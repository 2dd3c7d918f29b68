"""What a recipe names: whether there is such a thing.

And which of it is code that is neither deep_bench's nor registered with it. Whether it is installed here is a question for
`deep_bench.recipes.requirements`.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from deep_bench import communicators, datasets, distributed_optimizers, frameworks, networks, optimizers, samplers, suites
from deep_bench.environments import Declarations
from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument, UnknownName
from deep_bench.recipes.cell import Cell, is_file_name, suite_of_cases, training_content
from deep_bench.recipes.faults import at_line, nearest
from deep_bench.recipes.levels import (
    CommunicationFields,
    ExperimentModel,
    NetworkFields,
    OperatorsFields,
    ScalingFields,
    TrainingFields,
)
from deep_bench.registry import Registry
from deep_bench.variant import Variant, lean_frameworks

INSTALLED_ONLY = "DEEP_BENCH_INSTALLED_ONLY"
"""The variable that, set to 1, keeps the current folder off the path of imports: a file beside a recipe may have the name of
a library that a framework looks for, and that is not there."""


_PATH = re.compile(r"[\w./-]+:[^\W\d][\w.]*(:.*)?")


def is_path(name: str) -> bool:
    """Whether a name is an import path, or a file with what is meant in it, which options of a framework are not.

    Example:
        >>> is_path("my_adapter:Mine"), is_path("kernels.py:Gelu"), is_path("torch:threads=1")
        (True, True, False)
    """
    return _PATH.fullmatch(name) is not None


def code_in(fields: ExperimentModel, cells: Iterable[Cell], home: Path) -> list[str]:
    """What would run, in words, each once; nothing of it is imported.

    Args:
        fields: The recipe.
        cells: Its cells.
        home: The folder that names of files are relative to.
    """
    phrases = {f"slurm.setup: {line}": None for line in fields.slurm.setup}
    phrases |= {f"the environment {name}, whose packages are installed": None for name in fields.environments}
    for cell in cells:
        for kind, name in _code_names(cell, home):
            phrases[f"{kind} {name}"] = None
    return list(phrases)


def _code_names(cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
    """What each thing is, and its name, of all that is code."""
    fields = cell.fields
    if isinstance(fields, OperatorsFields):
        yield from (("the operator", kernel) for kernel in fields.kernels)
        if fields.suite is not None:
            yield from _code_in_suite(fields.suite, home)
    if isinstance(fields, NetworkFields) and isinstance(fields.network, dict):
        yield from _foreign("the network", [str(fields.network.get("name", ""))], networks)
    if isinstance(fields, CommunicationFields):
        yield from _foreign("the communicator", fields.over, communicators)
        return
    yield from _foreign("the framework", [fields.on] if isinstance(fields.on, str) else fields.on or (), frameworks)
    if isinstance(fields, TrainingFields | ScalingFields):
        yield from _code_in_training(cell, home)


def _foreign(kind: str, names: Iterable[str], registry: Registry) -> Iterator[tuple[str, str]]:
    """Those that are import paths, or live in an environment of their own."""
    for name in names:
        head = name.partition(":")[0]
        if "@" in head or (is_path(name) and head not in registry):
            yield kind, name


def _code_in_suite(suite: str, home: Path) -> Iterator[tuple[str, str]]:
    if Path(suite).suffix not in (".toml", ".onnx"):
        yield from _foreign("the suite", [suite], suites)
        return
    path = home / suite
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


def _code_in_training(cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
    try:
        content = training_content(cell, home)
    except DeepBenchError:
        return  # the check of names says what is wrong
    for part, registry in (("network", networks), ("data", datasets), ("sampler", samplers), ("optimizer", optimizers)):
        declared = content.get(part)
        name = declared.get("name") if isinstance(declared, dict) else declared
        if isinstance(name, str):
            yield from _foreign(f"the {registry.kind}", [name], registry)


Line = Callable[..., "int | None"]
"""From a path in what is fixed or varies to its line."""


def check_names(cells: Sequence[Cell], fields: ExperimentModel, home: Path, line: Line) -> None:
    """See that all cells name what there is.

    Args:
        cells: Of a recipe,
        fields: and all of it.
        home: The folder that names of files are relative to.
        line: Tells lines.

    Raises:
        InvalidArgument: Something is missing, contradicts itself, or cannot be.
        UnknownName: A framework, suite, … that there is not.
    """
    if len(set(fields.metrics)) < len(fields.metrics):
        raise InvalidArgument(f"metrics {', '.join(fields.metrics)}", "each once")
    Declarations(fields.environments)
    for cell in cells:
        try:
            _CHECKS[cell.level](cell, home, line)
        except FrameworkMissing:
            continue  # such as the optimizer of a framework that is not here
        except DeepBenchError as error:
            raise InvalidArgument(f"{_where(cell, error, line)}{error.came}", error.expected, error.advice) from error


def _where(cell: Cell, error: DeepBenchError, line: Line) -> str:
    """The line of the change of a training recipe that a message is about, and the cell."""
    changed = next((path for path in cell.changes if repr(path.rpartition(".")[2]) in error.came), None)
    prefix = "" if changed is None else at_line(line(changed))
    return f"{prefix}the cell {cell.name}: " if cell.factors and not error.came.startswith("line ") else prefix


def _operators(cell: Cell, _home: Path, line: Line) -> None:
    fields = cell.fields
    assert isinstance(fields, OperatorsFields)
    written = [case for case in fields.cases if not isinstance(case, str)]
    if not fields.on and not fields.kernels:
        raise _fault_at(line("on") or line("suite"), "nobody takes part", "frameworks (on: [torch]), or kernels of your own")
    _frameworks(fields.on, line)
    if written and (fields.suite is not None or len(written) < len(fields.cases)):
        raise _fault_at(line("cases"), "cases written out beside a suite or labels", "one or the other")
    if not written and fields.suite is None:
        raise _fault_at(None, "a recipe of operators without cases", "a suite, or cases written out")
    if written:
        suite_of_cases(cell)
    elif fields.suite is not None and Path(fields.suite).suffix not in (".toml", ".onnx"):
        _check_registered(suites, fields.suite, line("suite"))
        if ":" not in fields.suite:
            suite = suites[fields.suite]
            for label in fields.cases:
                suite.case(label)


def _network(cell: Cell, home: Path, line: Line) -> None:
    from deep_bench.network.transform.steps import TransformStep as Step

    fields = cell.fields
    assert isinstance(fields, NetworkFields)
    _frameworks(fields.on, line)
    if isinstance(fields.network, dict):
        _built(fields.network, line("network"))
    else:
        _check_network_name(fields.network, home, line("network"))
    for text in fields.transform:
        Step.parse(text)


def _built(settings: dict[str, Any], line: int | None) -> None:
    """See that there is what makes a network, and that it takes these settings."""
    name = settings.get("name")
    if not isinstance(name, str):
        raise _fault_at(line, f"the network {settings}", "its name in db.networks, and its settings")
    _check_registered(networks, name, line)
    if name not in networks:
        return  # others' code is not imported to look at a recipe
    parameters = list(inspect.signature(networks[name]).parameters)
    for setting in settings:
        if setting != "name" and setting not in parameters:
            came = f"the network {name} has no setting {setting!r}"
            raise _fault_at(line, came, f"one of {', '.join(parameters)}", nearest(setting, parameters))


def _check_network_name(network: str, home: Path, line: int | None) -> None:
    """See that a word that looks like no file is the name of a network that ships."""
    from deep_bench.graph.load import DATA

    shipped = sorted(file.stem for file in DATA.glob("*.onnx"))
    if network not in shipped and not is_file_name(network) and not (home / network).exists():
        error = UnknownName("network", network, shipped, "or name an .onnx file")
        raise _fault_at(line, error.came, f"{error.expected}, or an .onnx file", error.advice)


def _training(cell: Cell, home: Path, line: Line) -> None:
    from deep_bench.training.recipes import Recipe

    fields = cell.fields
    assert isinstance(fields, TrainingFields)
    if len(fields.on) != 1:
        raise _fault_at(
            line("on"),
            f"a training on {', '.join(fields.on) or 'nothing'}",
            "one framework; several are a factor: matrix.on",
        )
    _frameworks(fields.on, line)
    recipe = Recipe(training_content(cell, home))
    if fields.runs > len(recipe.fields.seeds):
        raise _fault_at(
            line("runs"), f"{fields.runs} runs with {len(recipe.fields.seeds)} seeds", "a seed for each: seeds: [0, 1, …]"
        )
    if fields.checkpoint_every is not None and not fields.checkpoints:
        raise _fault_at(line("checkpoint_every"), "checkpoint_every without checkpoints", "checkpoints: true")
    if fields.distributed is not None:
        _scheme(fields.distributed, line)


def _communication(cell: Cell, _home: Path, line: Line) -> None:
    from deep_bench.distributed.collectives.study import BACKENDS
    from deep_bench.distributed.collectives.study import BenchmarkSettings as Settings

    fields = cell.fields
    assert isinstance(fields, CommunicationFields)
    for name in fields.over:
        if name not in BACKENDS:
            _check_registered(communicators, name, line("over"))
    first, second = fields.pair
    settings = Settings(
        tuple(fields.collectives), fields.sizes, fields.dtype, fields.budget, fields.ci_width, fields.seed, (first, second)
    )
    settings.check_ranks(fields.ranks)


def _scaling(cell: Cell, home: Path, line: Line) -> None:
    from deep_bench.training.recipes import Recipe

    fields = cell.fields
    assert isinstance(fields, ScalingFields)
    if fields.on is not None:
        _frameworks([fields.on], line)
    Recipe(training_content(cell, home))
    _scheme(fields.distributed, line)
    has_costs = fields.latency is not None and fields.bandwidth is not None
    if has_costs == (fields.machine is not None) or (fields.latency is None) != (fields.bandwidth is None):
        raise _fault_at(
            line("machine") or line("latency"), "what messages cost is not clear", "machine: FILE, or latency with bandwidth"
        )
    if fields.over is not None and fields.machine is None:
        raise _fault_at(line("over"), "over without machine", "a machine file, whose communicator it is")


_CHECKS: dict[str, Callable[[Cell, Path, Line], None]] = {
    "operators": _operators,
    "network": _network,
    "training": _training,
    "communication": _communication,
    "scaling": _scaling,
}


def _frameworks(names: Sequence[str], line: Line) -> None:
    visited: dict[object, str] = {}
    for name in names:
        framework, environment, _ = name.partition("@")
        if not environment or framework not in lean_frameworks:
            _check_registered(frameworks, framework, line("on"))
        try:
            identity = _identity(name)
        except FrameworkMissing:
            identity = name  # whether it is installed is a matter of where the cell runs
        except DeepBenchError as error:
            raise _fault_at(line("on"), error.came, error.expected, error.advice) from error
        if identity in visited:
            raise _fault_at(line("on"), f"on {visited[identity]} and {name}", "each once")
        visited[identity] = name


def _identity(name: str) -> object:
    """What is the same for two variants that are; the order of options makes no difference. Nothing is imported."""
    head = re.split("[:@]", name, maxsplit=1)[0]
    if head == name or (head not in frameworks and head not in lean_frameworks):
        return name  # without options, or an import path: others' code
    variant = Variant.parse(name)
    return variant.framework, variant.environment, tuple(sorted(variant.options.items()))


def _check_registered(registry: Registry, name: str, line: int | None) -> None:
    """See that a name is registered, its options apart, or an import path; nothing is imported."""
    head = name.partition(":")[0]
    if head not in registry and not is_path(name):
        error = UnknownName(registry.kind, head, registry)
        raise _fault_at(line, error.came, error.expected, error.advice)


def _scheme(text: str, line: Line) -> None:
    from deep_bench.distributed.training.train import name_of, settings_of

    name = name_of(text)
    _check_registered(distributed_optimizers, name, line("distributed"))
    if name in distributed_optimizers:  # others' code is not imported to look at a recipe
        settings_of(text)


def _fault_at(line: int | None, came: str, expected: str, advice: str = "") -> InvalidArgument:
    return InvalidArgument(f"{at_line(line)}{came}", expected, advice)
