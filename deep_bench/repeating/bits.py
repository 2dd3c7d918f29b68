"""Whether two records of one run have the same results, to the last bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deep_bench.arrays import digest
from deep_bench.measure.record import Record, VerdictRecord
from deep_bench.measure.storage import load
from deep_bench.results.reading.files import kind_of
from deep_bench.results.reading.kinds import MEASUREMENT
from deep_bench.training.record import TrainingRecord
from deep_bench.training.runs import storage as training


def digests(files: Iterable[Path]) -> dict[str, str]:
    """What was computed in the runs of some records, by digest: outputs of systems, losses and scores of training.

    Records of other kinds compute nothing that could be compared.

    Args:
        files: The records of one run, or of several alike.

    Returns:
        A name for each result to its SHA-256. Those of one name in several records are numbered, in the records' order.
    """
    found: dict[str, str] = {}
    for file in files:
        kind = kind_of(file)
        if kind == MEASUREMENT:
            record = load(file)
            _add(found, _measured(record), _which(record))
        elif kind == "training":
            trained = training.load(file)
            _add(found, _trained(trained), _which(trained))
    return found


def _add(found: dict[str, str], more: Iterable[tuple[str, str]], which: str) -> None:
    for name, value in more:
        whole, number = f"{name}{which}", 1
        while (key := whole if number == 1 else f"{whole} ({number})") in found:
            number += 1
        found[key] = value


def _which(record: Record | TrainingRecord) -> str:
    """What tells a record from others of the same systems: sizes, and the factors of the cell that it is of."""
    network = record.network if isinstance(record, Record) else None
    cell = record.recipe.options.get("cell")
    factors = cell.get("factors") if isinstance(cell, dict) else None
    parts = {**(network.sizes if network is not None else {}), **(factors if isinstance(factors, dict) else {})}
    return f" [{', '.join(f'{name}={value}' for name, value in sorted(parts.items()))}]" if parts else ""


def fed(files: Iterable[Path]) -> dict[str, str]:
    """What the runs of some records were given, by digest: networks, and the arrays that they were fed."""
    found: dict[str, str] = {}
    for file in files:
        kind = kind_of(file)
        if kind == MEASUREMENT:
            record = load(file)
            networks = {record.network.name: record.network.sha256} if record.network is not None else {}
            inputs = record.data.sha256 if record.data is not None else {}
            named = {f"the network {name}": value for name, value in networks.items()}
            _add(found, (named | {f"the input {name}": value for name, value in inputs.items()}).items(), _which(record))
        elif kind == "training":
            trained = training.load(file)
            ran = {f"the network {r.network.name}": r.network.sha256 for r in trained.runs if r.network is not None}
            _add(found, ran.items(), _which(trained))
    return found


def _measured(record: Record) -> Iterator[tuple[str, str]]:
    where = record.network.name if record.network is not None else "its network"
    for system in record.systems:
        if system.twin_of is not None:
            continue
        yield from _outputs(f"{system.label} on {where}", system.verdict)
        for trial in system.trials:
            yield from _outputs(f"{system.label} on {trial.case}", trial.verdict)


def _outputs(what: str, verdict: VerdictRecord | None) -> Iterator[tuple[str, str]]:
    for name, facts in (verdict.outputs if verdict is not None else {}).items():
        if isinstance(found := facts.get("sha256"), str):
            yield f"{what}: {name}", found


def _trained(record: TrainingRecord) -> Iterator[tuple[str, str]]:
    for run in record.runs:
        what = f"{run.label}, seed {run.seed}"
        yield f"{what}: losses", digest(run.losses)
        for evaluation in run.evaluations:
            for name, value in evaluation.figures.items():
                yield f"{what}: {name} after step {evaluation.step}", float(value).hex()


@dataclass(frozen=True)
class Bits:
    """Results by name, compared.

    Args:
        same: Equal to the last bit.
        differ: Not so.
        missing: Not there any more.
    """

    same: tuple[str, ...]
    differ: tuple[str, ...]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, before: Mapping[str, str], after: Mapping[str, str]) -> Bits:
        """Compare what `digests` found.

        Example:
            >>> Bits.of({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
            Bits(same=('a',), differ=('b',), missing=())
        """
        both = [name for name in before if name in after]
        same = tuple(name for name in both if before[name] == after[name])
        return cls(same, tuple(n for n in both if n not in same), tuple(n for n in before if n not in after))
