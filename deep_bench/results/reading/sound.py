"""Whether a record that its schema allows hangs together: what all verbs refuse alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidRecord, on_a_line
from deep_bench.measure.record import Record, VerdictRecord
from deep_bench.operators.studies.quantities import QUANTITIES
from deep_bench.training.record import TrainingRecord

WORDS = ("right", "reduced precision", "wrong", "cannot tell", "no information", "failed")
"""What a verdict may say; *failed* where gradients could not be had."""


def see_measurement(record: Record, path: Path, communication: bool) -> None:
    """Look at what was timed.

    Raises:
        InvalidRecord: A record of operators or of communication without systems, a verdict that is none, or a quantity of
            operators or a number of bytes that there is not.
    """
    if record.suite is not None and not record.systems:
        _refuse(path, "systems", "none", "at least one")
    for place, verdict in _verdicts(record):
        if verdict.verdict not in WORDS:
            _refuse(path, f"{place}.verdict", repr(verdict.verdict), f"one of {', '.join(WORDS)}")
    for number, case in enumerate(record.suite.cases if record.suite is not None and communication else ()):
        see_count(case.attributes.get("bytes"), path, f"suite.cases.{number}.attributes.bytes")
    if record.suite is not None and not communication:
        _see_quantities(record, path)


def see_training(record: TrainingRecord, path: Path) -> None:
    """Look at runs.

    Raises:
        InvalidRecord: An evaluation has a score that its run does not name.
    """
    for number, run in enumerate(record.runs):
        for at, evaluated in enumerate(run.evaluations):
            for name in evaluated.figures:
                if name not in run.scores:
                    place = f"runs.{number}.evaluations.{at}.figures"
                    _refuse(path, place, repr(name), f"one of the run's scores: {', '.join(run.scores) or 'none'}")


def see_count(value: Any, path: Path, place: str, least: int = 0) -> None:
    """Refuse what is no whole number of at least so many.

    Raises:
        InvalidRecord: It is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        _refuse(path, place, repr(value), f"a whole number of at least {least}")


def _see_quantities(record: Record, path: Path) -> None:
    for i, system in enumerate(record.systems):
        for k, trial in enumerate(system.trials):
            for j, samples in enumerate(trial.samples):
                if samples.quantity not in QUANTITIES:
                    place = f"systems.{i}.trials.{k}.samples.{j}.quantity"
                    _refuse(path, place, repr(samples.quantity), f"one of {', '.join(QUANTITIES)}")


def _verdicts(record: Record) -> Iterator[tuple[str, VerdictRecord]]:
    for i, system in enumerate(record.systems):
        if system.verdict is not None:
            yield f"systems.{i}.verdict", system.verdict
        for k, trial in enumerate(system.trials):
            for name, verdict in (("verdict", trial.verdict), ("gradients", trial.gradients)):
                if verdict is not None:
                    yield f"systems.{i}.trials.{k}.{name}", verdict


def _refuse(path: Path, place: str, came: str, expected: str) -> None:
    raise InvalidRecord(f"{on_a_line(path)}: {place}: {came}", expected)
