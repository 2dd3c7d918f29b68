"""Whether two records of one run have the same results, to the last bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from deep_bench.arrays import digest
from deep_bench.measure.record import Record, VerdictRecord
from deep_bench.repeating.records import AnyRecord, cell_factors
from deep_bench.training.record import TrainingRecord

Named: TypeAlias = Iterator[tuple[str, str]]
"""Names of things and their digests."""


def computed(records: Iterable[AnyRecord]) -> dict[str, str]:
    """What came of some runs, by digest: outputs of systems, losses and scores of training.

    Records of other kinds compute nothing that could be compared.

    Args:
        records: Of one run, or of several alike.

    Returns:
        A name for each result to its SHA-256. Those of one name in several records are numbered, in the records' order.
    """
    return _numbered((name + _which(record), value) for record in records for name, value in _outcomes(record))


def given(records: Iterable[AnyRecord]) -> dict[str, str]:
    """What some runs were given, by digest: networks, and the arrays that they were fed."""
    return _numbered((name + _which(record), value) for record in records for name, value in _inputs(record))


def _numbered(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    by_name: dict[str, str] = {}
    for name, value in pairs:
        key, number = name, 1
        while key in by_name:
            number += 1
            key = f"{name} ({number})"
        by_name[key] = value
    return by_name


def _which(record: AnyRecord) -> str:
    """What tells a record from others of the same systems: sizes, and the factors of the cell that it is of."""
    network = record.network if isinstance(record, Record) else None
    parts = {**(network.sizes if network is not None else {}), **cell_factors(record)}
    return f" [{', '.join(f'{name}={value}' for name, value in sorted(parts.items()))}]" if parts else ""


def _inputs(record: AnyRecord) -> Named:
    if isinstance(record, Record):
        if record.network is not None:
            yield f"the network {record.network.name}", record.network.sha256
        if record.data is not None:
            yield from ((f"the input {name}", value) for name, value in record.data.sha256.items())
    elif isinstance(record, TrainingRecord):
        # Runs of several seeds begin with networks of their own, in the order of the runs.
        networks = (run.network for run in record.runs if run.network is not None)
        yield from ((f"the network {network.name}", network.sha256) for network in networks)


def _outcomes(record: AnyRecord) -> Named:
    if isinstance(record, Record):
        yield from _measured(record)
    elif isinstance(record, TrainingRecord):
        yield from _trained(record)


def _measured(record: Record) -> Named:
    where = record.network.name if record.network is not None else "its network"
    for system in record.systems:
        if system.twin_of is not None:
            continue
        yield from _outputs(f"{system.label} on {where}", system.verdict)
        for trial in system.trials:
            yield from _outputs(f"{system.label} on {trial.case}", trial.verdict)


def _outputs(subject: str, verdict: VerdictRecord | None) -> Named:
    for name, facts in (verdict.outputs if verdict is not None else {}).items():
        if isinstance(checksum := facts.get("sha256"), str):
            yield f"{subject}: {name}", checksum


def _trained(record: TrainingRecord) -> Named:
    for run in record.runs:
        subject = f"{run.label}, seed {run.seed}"
        yield f"{subject}: losses", digest(run.losses)
        for evaluation in run.evaluations:
            for name, value in evaluation.figures.items():
                yield f"{subject}: {name} after step {evaluation.step}", float(value).hex()


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
        """Compare what `computed` or `given` found.

        Example:
            >>> Bits.of({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
            Bits(same=('a',), differ=('b',), missing=())
        """
        both = [name for name in before if name in after]
        identical = tuple(name for name in both if before[name] == after[name])
        return cls(identical, tuple(n for n in both if n not in identical), tuple(n for n in before if n not in after))
