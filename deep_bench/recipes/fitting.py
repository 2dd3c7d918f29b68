"""What of a recipe does not fit together on this machine, found without running it: options, sizes, files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import chdir
from functools import cache
from pathlib import Path

from deep_bench import frameworks
from deep_bench.environments import place_of
from deep_bench.errors import DeepBenchError
from deep_bench.graph import Network, as_network
from deep_bench.recipes.cell import is_file_name, made_network
from deep_bench.recipes.levels import CommunicationFields, Fields, NetworkFields, OperatorsFields, ScalingFields
from deep_bench.recipes.recipe import Experiment, canonical
from deep_bench.variant import Variant, lean_frameworks
from deep_bench.workers.evidence import cause

_LONGEST_S = 300.0


def wrong_here(experiment: Experiment) -> list[str]:
    """What would end in an error, each once: options that a framework does not take here, files that are damaged, sizes and
    inputs that do not fit the network, environments that are not there.

    What is missing is told by `deep_bench.recipes.requirements.missing_here`. Frameworks with options are imported for it,
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
                _check_cell(cell.fields, load)
            except DeepBenchError as error:
                faults[f"the cell {cell.name}: {_error_line(error)}" if cell.factors else _error_line(error)] = None
        variants = _variants(experiment)
        faults |= dict.fromkeys(_environments(variants, experiment.fields.environments))
        faults |= dict.fromkeys(_options(variants))
    return list(faults)


def _check_cell(fields: Fields, load: Callable[[str], Network]) -> None:
    """See that what a cell names can be read, and fits."""
    if isinstance(fields, NetworkFields):
        _network(fields, load)
    elif isinstance(fields, OperatorsFields):
        _operators(fields)
    elif isinstance(fields, CommunicationFields):
        _communication(fields)
    elif isinstance(fields, ScalingFields):
        _scaling(fields)


def _network(fields: NetworkFields, load: Callable[[str], Network]) -> None:
    from deep_bench.graph.drawing import choose_sizes
    from deep_bench.network.problem import make_problem

    if any(isinstance(file, str) and _is_missing(file) for file in (fields.network, fields.inputs)):
        return
    network = load(canonical(fields.network))
    if fields.inputs is None:
        choose_sizes(network, fields.sizes, batch=fields.batch)
    else:
        make_problem(network, inputs=fields.inputs, sizes=fields.sizes, batch=fields.batch, seed=fields.seed)


def _load_network(text: str) -> Network:
    """The network that a recipe states, in JSON."""
    content = json.loads(text)
    return as_network(content) if isinstance(content, str) else made_network(content)


def _operators(fields: OperatorsFields) -> None:
    from deep_bench.operators.suites.from_network import suite_of

    if fields.suite is not None and Path(fields.suite).suffix in (".toml", ".onnx") and not _is_missing(fields.suite):
        suite = suite_of(fields.suite)
        for label in fields.cases:
            suite.case(str(label))


def _communication(fields: CommunicationFields) -> None:
    from deep_bench.distributed.machine import load_machine

    if fields.machine is not None and not _is_missing(fields.machine):
        load_machine(Path(fields.machine))


def _scaling(fields: ScalingFields) -> None:
    from deep_bench.distributed.scaling.study import machine_of_file as of_file

    if fields.machine is not None and not _is_missing(fields.machine):
        of_file(Path(fields.machine), fields.over)


def _is_missing(file: str) -> bool:
    """Whether a file is not there, which is told elsewhere."""
    return is_file_name(file) and not Path(file).is_file()


# Frameworks


def _variants(experiment: Experiment) -> dict[str, None]:
    """The systems of all cells, as they are written."""
    variants: dict[str, None] = {}
    for cell in experiment.cells:
        if not isinstance(fields := cell.fields, CommunicationFields):
            declared = [fields.on] if isinstance(fields.on, str) else fields.on or []
            variants |= dict.fromkeys(declared)
    return variants


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
    requested = [name for name in names if ":" in name and "@" not in name and not _lacks(name)]
    if not requested:
        return
    command = [sys.executable, "-P", "-m", "deep_bench.recipes.fitting", *requested]
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


def _lacks(name: str) -> bool:
    """Whether a registered framework is not installed; that is told elsewhere."""
    return _is_registered(name) and bool(frameworks.missing(name.partition(":")[0]))


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


if __name__ == "__main__":
    if not all(map(_is_registered, sys.argv[1:])):
        sys.path.append(str(Path.cwd()))  # for adapters that are named by the import path of a file right here
    sys.stdout.write(f"\n{json.dumps(_refusals(sys.argv[1:]))}\n")
