"""Whether there is what a recipe names, and whether it makes sense; without looking whether it is installed here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deep_bench import communicators, distributed_optimizers, frameworks, networks, suites
from deep_bench.environments import Declarations
from deep_bench.errors import DeepBenchError, FrameworkMissing, InvalidArgument, UnknownName
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.code import is_path
from deep_bench.experiments.fields import CommunicationFields, NetworkFields, OperatorsFields, ScalingFields, TrainingFields
from deep_bench.experiments.files import is_file_name, suite_of_cases
from deep_bench.experiments.refusal import at_line, nearest
from deep_bench.experiments.schema import ExperimentModel
from deep_bench.experiments.training import training_content
from deep_bench.registry import Registry
from deep_bench.variant import Variant, lean_frameworks

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
        raise _told(line("on") or line("suite"), "nobody takes part", "frameworks (on: [torch]), or kernels of your own")
    _frameworks(fields.on, line)
    if written and (fields.suite is not None or len(written) < len(fields.cases)):
        raise _told(line("cases"), "cases written out beside a suite or labels", "one or the other")
    if not written and fields.suite is None:
        raise _told(None, "a recipe of operators without cases", "a suite, or cases written out")
    if written:
        suite_of_cases(cell)
    elif fields.suite is not None and Path(fields.suite).suffix not in (".toml", ".onnx"):
        _known(suites, fields.suite, line("suite"))
        if ":" not in fields.suite:
            suite = suites[fields.suite]
            for label in fields.cases:
                suite.case(label)


def _network(cell: Cell, home: Path, line: Line) -> None:
    from deep_bench.network.transform.steps import Step

    fields = cell.fields
    assert isinstance(fields, NetworkFields)
    _frameworks(fields.on, line)
    if isinstance(fields.network, dict):
        _built(fields.network, line("network"))
    else:
        _named(fields.network, home, line("network"))
    for text in fields.transform:
        Step.parse(text)


def _built(settings: dict[str, Any], line: int | None) -> None:
    """See that there is what makes a network, and that it takes these settings."""
    name = settings.get("name")
    if not isinstance(name, str):
        raise _told(line, f"the network {settings}", "its name in db.networks, and its settings")
    _known(networks, name, line)
    if name not in networks:
        return  # others' code is not imported to look at a recipe
    parameters = list(inspect.signature(networks[name]).parameters)
    for setting in settings:
        if setting != "name" and setting not in parameters:
            came = f"the network {name} has no setting {setting!r}"
            raise _told(line, came, f"one of {', '.join(parameters)}", nearest(setting, parameters))


def _named(network: str, home: Path, line: int | None) -> None:
    """See that a word that looks like no file is the name of a network that ships."""
    from deep_bench.graph.load import DATA

    shipped = sorted(file.stem for file in DATA.glob("*.onnx"))
    if network not in shipped and not is_file_name(network) and not (home / network).exists():
        error = UnknownName("network", network, shipped, "or name an .onnx file")
        raise _told(line, error.came, f"{error.expected}, or an .onnx file", error.advice)


def _training(cell: Cell, home: Path, line: Line) -> None:
    from deep_bench.training.recipes import Recipe

    fields = cell.fields
    assert isinstance(fields, TrainingFields)
    if len(fields.on) != 1:
        raise _told(
            line("on"),
            f"a training on {', '.join(fields.on) or 'nothing'}",
            "one framework; several are a factor: matrix.on",
        )
    _frameworks(fields.on, line)
    recipe = Recipe(training_content(cell, home))
    if fields.runs > len(recipe.fields.seeds):
        raise _told(
            line("runs"), f"{fields.runs} runs with {len(recipe.fields.seeds)} seeds", "a seed for each: seeds: [0, 1, …]"
        )
    if fields.checkpoint_every is not None and not fields.checkpoints:
        raise _told(line("checkpoint_every"), "checkpoint_every without checkpoints", "checkpoints: true")
    if fields.distributed is not None:
        _scheme(fields.distributed, line)


def _communication(cell: Cell, _home: Path, line: Line) -> None:
    from deep_bench.distributed.collectives.settings import Settings
    from deep_bench.distributed.collectives.systems import BACKENDS

    fields = cell.fields
    assert isinstance(fields, CommunicationFields)
    for name in fields.over:
        if name not in BACKENDS:
            _known(communicators, name, line("over"))
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
        raise _told(
            line("machine") or line("latency"), "what messages cost is not clear", "machine: FILE, or latency with bandwidth"
        )
    if fields.over is not None and fields.machine is None:
        raise _told(line("over"), "over without machine", "a machine file, whose communicator it is")


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
            _known(frameworks, framework, line("on"))
        try:
            identity = _identity(name)
        except FrameworkMissing:
            identity = name  # whether it is installed is a matter of where the cell runs
        except DeepBenchError as error:
            raise _told(line("on"), error.came, error.expected, error.advice) from error
        if identity in visited:
            raise _told(line("on"), f"on {visited[identity]} and {name}", "each once")
        visited[identity] = name


def _identity(name: str) -> object:
    """What is the same for two variants that are; the order of options makes no difference. Nothing is imported."""
    head = re.split("[:@]", name, maxsplit=1)[0]
    if head == name or (head not in frameworks and head not in lean_frameworks):
        return name  # without options, or an import path: others' code
    variant = Variant.parse(name)
    return variant.framework, variant.environment, tuple(sorted(variant.options.items()))


def _known(registry: Registry, name: str, line: int | None) -> None:
    """See that a name is registered, its options apart, or an import path; nothing is imported."""
    head = name.partition(":")[0]
    if head not in registry and not is_path(name):
        error = UnknownName(registry.kind, head, registry)
        raise _told(line, error.came, error.expected, error.advice)


def _scheme(text: str, line: Line) -> None:
    from deep_bench.distributed.training.scheme import name_of, settings_of

    name = name_of(text)
    _known(distributed_optimizers, name, line("distributed"))
    if name in distributed_optimizers:  # others' code is not imported to look at a recipe
        settings_of(text)


def _told(line: int | None, came: str, expected: str, advice: str = "") -> InvalidArgument:
    return InvalidArgument(f"{at_line(line)}{came}", expected, advice)
