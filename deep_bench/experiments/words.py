"""A cell as the command line that measures it: what a person would type."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_bench import frameworks
from deep_bench.experiments.cell import Cell
from deep_bench.experiments.fields import (
    CommunicationFields,
    Fields,
    NetworkFields,
    OperatorsFields,
    ScalingFields,
    TrainingFields,
)
from deep_bench.experiments.training import assignments

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that set the threads of a process."""

_REFERENCE = "reference"


@dataclass(frozen=True)
class _Asked:
    """What words are wanted for; see `words`."""

    cell: Cell
    folder: Path
    files: Mapping[str, Path]
    metrics: Sequence[str]


def words(cell: Cell, folder: Path, files: Mapping[str, Path], metrics: Sequence[str] = ()) -> list[str]:
    """The words after ``deep-bench``.

    Args:
        cell: What is measured.
        folder: Where its records go.
        files: What was written for it; see `deep_bench.experiments.files.prepared`.
        metrics: What else is to be found out of operators.

    Example:
        >>> from deep_bench.experiments import load_experiment
        >>> words(load_experiment("small-network").cells[0], Path("out"), {})[:4]
        ['run', '--on=reference', '--on=onnxruntime', '--batch=1']
    """
    request, arguments = _Asked(cell, folder, files, metrics), _arguments(cell, files)
    return [*_VERBS[cell.level](request), f"--output={folder}", *(["--", *arguments] if arguments else [])]


def plain_words(cell: Cell) -> list[str]:
    """The words after ``deep-bench`` in a folder with the files that the cell needs.

    Args:
        cell: The cell.
    """
    files = {kind: Path(cell.id, name) for kind, name in _FILES.items() if _is_written(getattr(cell.fields, kind, ...))}
    return words(cell, Path(cell.id), files)


def as_typed(cell: Cell) -> str:
    """The command of a cell as a person would type it, in a folder with the files that it needs.

    Args:
        cell: The cell.

    Example:
        >>> from deep_bench.experiments import load_experiment
        >>> as_typed(load_experiment("small-communication").cells[0])[:46]
        'mpirun -n 2 deep-bench communicate --collectiv'
    """
    ranks = ranks_of(cell.fields)
    started = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    return shlex.join([*started, "deep-bench", *plain_words(cell)])


_FILES = {"suite": "suite.toml", "recipe": "training.yaml", "network": "network.onnx"}
"""Field to the file that is written where it names none; see `deep_bench.experiments.files.prepared`."""


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


def _arguments(cell: Cell, files: Mapping[str, Path]) -> list[str]:
    """What follows the options."""
    fields = cell.fields
    if isinstance(fields, OperatorsFields):
        return list(fields.kernels)
    if isinstance(fields, NetworkFields):
        return [str(files.get("network", fields.network))]
    if isinstance(fields, TrainingFields | ScalingFields):
        return [str(files["recipe"])] if "recipe" in files else [str(fields.recipe), *assignments(cell)]
    return []


def _operators(request: _Asked) -> Iterator[str]:
    from deep_bench.measure.metric import builtin_metrics

    fields = request.cell.fields
    assert isinstance(fields, OperatorsFields)
    yield "operators"
    yield f"--suite={request.files.get('suite', fields.suite)}"
    yield from _each("on", (with_threads(variant, fields.threads) for variant in fields.on))
    yield from _each("case", (case for case in fields.cases if isinstance(case, str)))
    yield from _each("metric", (name for name in request.metrics if name in builtin_metrics()))
    yield from _stated(fields, "sample", "dtype", "base", "seed", "launches", "check")
    yield from _stated(fields, "budget", "limit", "ci_width")
    yield from _flags(fields, "backward", "cold", "numpy", "isolate")
    if not fields.twin:
        yield "--no-twin"


def _network(request: _Asked) -> Iterator[str]:
    fields = request.cell.fields
    assert isinstance(fields, NetworkFields)
    yield "run"
    yield from _each("on", (with_threads(variant, fields.threads) for variant in fields.on))
    yield from _each("size", (f"{name}={size}" for name, size in fields.sizes.items()))
    yield from _each("transform", fields.transform)
    if fields.inputs is not None:
        yield f"--input={fields.inputs}"
    yield from _stated(fields, "batch", "seed", "launches", "check", "budget", "ci_width")
    if not fields.twin:
        yield "--no-twin"


def _training(request: _Asked) -> Iterator[str]:
    fields = request.cell.fields
    assert isinstance(fields, TrainingFields)
    yield "train"
    yield from _each("on", (with_threads(variant, fields.threads) for variant in fields.on))
    yield from _stated(fields, "runs", "steps", "limit")
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
        yield from _stated(fields, "over", "scaling", "samples")


def _communication(request: _Asked) -> Iterator[str]:
    fields = request.cell.fields
    assert isinstance(fields, CommunicationFields)
    yield "communicate"
    yield from _each("collective", fields.collectives)
    yield from _each("over", fields.over)
    yield f"--pair={fields.pair[0]},{fields.pair[1]}"
    yield from _stated(fields, "sizes", "dtype", "budget", "ci_width", "seed", "machine")


def _scaling(request: _Asked) -> Iterator[str]:
    fields = request.cell.fields
    assert isinstance(fields, ScalingFields)
    yield "scale"
    yield f"--ranks={fields.predicted}"
    if fields.on is not None:
        yield f"--on={with_threads(fields.on, fields.threads)}"
    yield from _each("algorithm", (f"{name}={algorithm}" for name, algorithm in fields.algorithms.items()))
    yield f"--network={fields.topology}"
    yield from _stated(fields, "distributed", "scaling", "machine", "over", "latency", "bandwidth")
    yield from _stated(fields, "replay_up_to", "budget", "steps", "seed")


_VERBS: Mapping[str, Callable[[_Asked], Iterator[str]]] = {
    "operators": _operators,
    "network": _network,
    "training": _training,
    "communication": _communication,
    "scaling": _scaling,
}


def _each(option: str, values: Iterable[Any]) -> Iterator[str]:
    yield from (f"--{option}={value}" for value in values)


def _stated(fields: Fields, *names: str) -> Iterator[str]:
    """Options of the same names as fields, of those that have a value."""
    for name in names:
        if (value := getattr(fields, name)) is not None:
            yield f"--{name.replace('_', '-')}={_number(value)}"


def _number(value: Any) -> str:
    """A number without an exponent, which durations on the command line do not have."""
    return f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _flags(fields: Fields, *names: str) -> Iterator[str]:
    yield from (f"--{name}" for name in names if getattr(fields, name))
