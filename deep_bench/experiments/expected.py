"""What the results of a cell can hold: its figures, verdicts and labels, known before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from deep_bench.experiments.cell import Cell
from deep_bench.experiments.fields import (
    CaseFields,
    CommunicationFields,
    NetworkFields,
    OperatorsFields,
    ScalingFields,
    TrainingFields,
)
from deep_bench.experiments.training import training_content
from deep_bench.experiments.words import with_threads
from deep_bench.results.reading.labels import OWN, text_of

if TYPE_CHECKING:
    from deep_bench.results.result import Direction

VERDICTS = ("right", "reduced precision", "wrong", "cannot tell", "no information", "unchecked")

FACTOR = "factor."
"""Before the label of a factor that has the name of another label."""

Values = frozenset[str] | None
"""Of a label; ``None`` for any, where it is not known before."""


class Kind(NamedTuple):
    """The unit of a figure, and which is better."""

    unit: str
    direction: Direction


_TIME = Kind("s", "lower")
_BYTES_A_SECOND = Kind("B/s", "higher")
_SHARE = Kind("", "higher")

_SYSTEM = ("system", "framework", "version", "device", "option.")
_RANKS = ("ranks", "nodes", "communicator")
_LABELS: Mapping[str, Sequence[str]] = {
    "operators": (*_SYSTEM, "suite", "case", "operator", "dtype", "seed"),
    "network": (*_SYSTEM, "network", "size.", "dtype", "seed"),
    "training": (
        *(*_SYSTEM, *_RANKS, "network", "data", "batch", "optimizer", "scheme"),
        *("seed", "epochs", "steps", "target"),
    ),
    "communication": (*_SYSTEM, *_RANKS, "case", "operator", "dtype", "bytes", "seed"),
    "scaling": (*_SYSTEM, "ranks", "network", "scheme", "scaling", "machine", "batch"),
}
"""Level to the labels of its results; a dot at the end stands for all that begin so. What is said more closely of a label
has a dot after its name: ``network.sha256``, ``optimizer.lr``."""


def figures_of(cell: Cell, home: Path, metrics: Iterable[str] = ()) -> dict[str, Kind]:
    """The figures that the results of a cell can have.

    Args:
        cell: The cell.
        home: The folder that names of files are relative to.
        metrics: What else is to be found out of operators.

    Example:
        >>> from deep_bench.experiments import load_experiment
        >>> figures_of(load_experiment("small-communication").cells[0], Path())["bus bandwidth"]
        Kind(unit='B/s', direction='higher')
    """
    fields = cell.fields
    if isinstance(fields, OperatorsFields):
        return _of_operators(fields, metrics)
    if isinstance(fields, NetworkFields):
        times = dict.fromkeys(("forward", "from NumPy", "first call", "setup"), _TIME)
        return {**times, "peak memory": Kind("B", "lower")}
    if isinstance(fields, CommunicationFields):
        return _of_communication(fields)
    if isinstance(fields, TrainingFields):
        return _of_training(cell, home)
    simulated = ("predicted step, simulated",) if fields.replay_up_to else ()
    times = dict.fromkeys(("predicted step", "predicted computing", "predicted messages", *simulated), _TIME)
    return {**times, "predicted speed-up": _SHARE, "predicted efficiency": _SHARE}


def _of_operators(fields: OperatorsFields, metrics: Iterable[str]) -> dict[str, Kind]:
    from deep_bench.measure.metric import builtin_metrics
    from deep_bench.operators.studies import quantities as q

    timed = {q.FORWARD, q.DISPATCH, "first call", "setup"}
    timed |= {q.BOTH, q.BACKWARD} if fields.backward else set()
    timed |= {q.COLD} if fields.cold else set()
    timed |= {q.NUMPY} if fields.numpy else set()
    classes = builtin_metrics()
    instances = [classes[name]() for name in metrics if name in classes]
    return {
        **dict.fromkeys(timed, _TIME),
        **{metric.name: Kind("s" if metric.unit == "ns" else metric.unit, metric.direction) for metric in instances},
    }


def _of_communication(fields: CommunicationFields) -> dict[str, Kind]:
    from deep_bench.distributed.collectives.kinds import KINDS

    sized = any(name not in KINDS or KINDS[name].sized for name in fields.collectives)
    return {"time": _TIME, **(dict.fromkeys(("algorithm bandwidth", "bus bandwidth"), _BYTES_A_SECOND) if sized else {})}


def _of_training(cell: Cell, home: Path) -> dict[str, Kind]:
    from deep_bench.training.recipes import Recipe

    recipe = Recipe(training_content(cell, home))
    scores = {name: Kind(score.unit, score.direction) for name, score in recipe.scores.items()}
    target = {"time to target": _TIME} if recipe.fields.target else {}
    return {**target, **scores, "throughput": Kind("samples/s", "higher"), "time": _TIME, "setup": _TIME}


_NEEDED: Mapping[str, Mapping[str, str]] = {
    "operators": {
        "forward and backward": "backward: true",
        "backward": "backward: true",
        "forward, cold caches": "cold: true",
        "from NumPy": "numpy: true",
    },
    "training": {"time to target": "a target, such as {accuracy: 0.9}"},
    "scaling": {"predicted step, simulated": "replay_up_to above 0"},
}


def needed(level: str, figure: str) -> str:
    """What a recipe has to say so that there is a figure; empty where saying something does not help.

    Example:
        >>> needed("operators", "backward"), needed("network", "backward")
        ('backward: true', '')
    """
    from deep_bench.measure.metric import builtin_metrics

    if level == "operators" and figure in builtin_metrics():
        return f"metrics: [{figure}]"
    return _NEEDED.get(level, {}).get(figure, "")


def verdicts_of(cell: Cell) -> tuple[str, ...]:
    """The verdicts that the results of a cell can have.

    Example:
        >>> from deep_bench.experiments import load_experiment
        >>> verdicts_of(load_experiment("small-training").cells[0])
        ('unchecked',)
    """
    checked = cell.level == "communication" or getattr(cell.fields, "check", "off") != "off"
    return VERDICTS if checked else ("unchecked",)


def has_bits(cell: Cell) -> bool:
    """Whether significant bits are found out."""
    return getattr(cell.fields, "check", "off") != "off"


def labels_of(cell: Cell) -> dict[str, Values]:
    """The labels that the results of a cell have, and their values; a factor's name stands for the factor.

    Example:
        >>> from deep_bench.experiments import load_experiment
        >>> found = labels_of(load_experiment("small-network").cells[1])
        >>> sorted(found["system"]), sorted(found["batch"]), found["device"]
        (['onnxruntime', 'reference'], ['64'], None)
    """
    labels: dict[str, Values] = dict.fromkeys((*_LABELS[cell.level], "host", "launches"))
    labels |= {name: frozenset(values) for name, values in _known(cell).items()}
    labels |= {"kind": frozenset([cell.level]), "recipe": frozenset([cell.recipe]), "cell": frozenset([cell.id])}
    for name, value in cell.factors.items():
        labels[name] = frozenset([text_of(value)])
        if name in OWN:
            labels[f"{FACTOR}{name}"] = labels[name]
    return labels


def _known(cell: Cell) -> dict[str, Iterable[str]]:
    """Labels whose values a recipe tells."""
    fields = cell.fields
    systems = _systems(fields)
    labels: dict[str, Iterable[str]] = {}
    if systems and not any("@" in name for name in systems):
        labels = {"system": systems, "framework": [name.partition(":")[0] for name in systems]}
    if isinstance(fields, CommunicationFields):
        labels |= {"operator": fields.collectives, "ranks": [str(fields.ranks)]}
    if isinstance(fields, TrainingFields):
        labels["ranks"] = [str(fields.ranks)]
    if isinstance(fields, OperatorsFields) and (
        written := [candidate for candidate in fields.cases if isinstance(candidate, CaseFields)]
    ):
        labels["operator"] = [case.operator for case in written]
        if all(case.label for case in written):
            labels["case"] = [str(case.label) for case in written]
    return labels


def _systems(fields: object) -> list[str]:
    """The systems under test as results call them; empty where that is not known."""
    if isinstance(fields, CommunicationFields):
        return [] if any(":" in name for name in fields.over) else list(fields.over)
    assert isinstance(fields, OperatorsFields | NetworkFields | TrainingFields | ScalingFields)
    if getattr(fields, "kernels", ()):
        return []
    declared = [fields.on] if isinstance(fields.on, str) else fields.on or []
    return [with_threads(name, fields.threads) for name in declared]


def is_known(name: str, labels: Mapping[str, Values]) -> bool:
    """Whether there is such a label, or one of which it says more.

    Example:
        >>> [is_known(name, {"option.": None, "network": None}) for name in ("option.threads", "network.sha256", "sytem")]
        [True, True, False]
    """
    head, dot, _ = name.partition(".")
    return name in labels or (bool(dot) and (f"{head}." in labels or head in labels))
