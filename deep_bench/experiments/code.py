"""Which code a recipe names: what is neither a part of deep_bench nor registered with it runs only where that is allowed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from deep_bench import communicators, datasets, frameworks, networks, optimizers, samplers, suites
from deep_bench.errors import DeepBenchError
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.fields import CommunicationFields, NetworkFields, OperatorsFields, ScalingFields, TrainingFields
from deep_bench.experiments.schema import ExperimentModel
from deep_bench.experiments.training import training_content
from deep_bench.registry import Registry

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
        for kind, name in _named(cell, home):
            phrases[f"{kind} {name}"] = None
    return list(phrases)


def _named(cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
    """What each thing is, and its name, of all that is code."""
    fields = cell.fields
    if isinstance(fields, OperatorsFields):
        yield from (("the operator", kernel) for kernel in fields.kernels)
        if fields.suite is not None:
            yield from _in_suite(fields.suite, home)
    if isinstance(fields, NetworkFields) and isinstance(fields.network, dict):
        yield from _foreign("the network", [str(fields.network.get("name", ""))], networks)
    if isinstance(fields, CommunicationFields):
        yield from _foreign("the communicator", fields.over, communicators)
        return
    yield from _foreign("the framework", [fields.on] if isinstance(fields.on, str) else fields.on or (), frameworks)
    if isinstance(fields, TrainingFields | ScalingFields):
        yield from _in_training(cell, home)


def _foreign(kind: str, names: Iterable[str], registry: Registry) -> Iterator[tuple[str, str]]:
    """Those that are import paths, or live in an environment of their own."""
    for name in names:
        head = name.partition(":")[0]
        if "@" in head or (is_path(name) and head not in registry):
            yield kind, name


def _in_suite(suite: str, home: Path) -> Iterator[tuple[str, str]]:
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


def _in_training(cell: Cell, home: Path) -> Iterator[tuple[str, str]]:
    try:
        content = training_content(cell, home)
    except DeepBenchError:
        return  # the check of names says what is wrong
    for part, registry in (("network", networks), ("data", datasets), ("sampler", samplers), ("optimizer", optimizers)):
        declared = content.get(part)
        name = declared.get("name") if isinstance(declared, dict) else declared
        if isinstance(name, str):
            yield from _foreign(f"the {registry.kind}", [name], registry)
