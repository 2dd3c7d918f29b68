"""What Python reads of stored records: results with their labels, verdicts and figures, to the last of twelve digits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stored.stored import Texts, among_records, public, stored

gather = public("deep_bench.results", "gather")

FOLDERS = (
    "after", "before", "communication", "experiment", "inference", "launches", "mlperf", "network", "operators", "scaling",
    "sweep", "training",
)  # fmt: skip


def _digits(value: float) -> float | str:
    """A number of twelve digits; a word where JSON has none for it."""
    return float(f"{value:.12g}") if abs(value) < float("inf") else str(value)


def _figure(figure: Any) -> dict[str, Any]:
    interval = figure.interval
    return {
        "unit": figure.unit,
        "direction": figure.direction,
        "launches": len(figure.launches),
        "count": figure.count,
        "median": _digits(figure.median),
        "interval": None if interval is None else [_digits(interval.low), _digits(interval.high)],
        "without interval": figure.without_interval,
        "remark": figure.remark,
        "censored": list(figure.censored),
        "aside": [len(times) for times in figure.aside],
    }


def _result(result: Any) -> dict[str, Any]:
    environment = result.environment
    return {
        "file": result.file.as_posix(),
        "created": result.created.isoformat(),
        "kind": result.kind,
        "name": result.name,
        "labels": dict(result.labels),
        "outcome": result.outcome,
        "verdict": None if result.verdict is None else result.verdict.model_dump(mode="json"),
        "errors": [error.model_dump(mode="json") for error in result.errors],
        "complete": result.complete,
        "notes": list(result.notes),
        "machine": None if environment is None else [environment.hostname, environment.cpu_model, environment.python],
        "figures": {name: _figure(figure) for name, figure in result.figures.items()},
    }


def _results(folder: str) -> str:
    results = gather(folder)
    found = {
        "refused": [str(refused) for refused in results.refused],
        "labels": {name: list(values) for name, values in results.labels().items()},
        "results": [_result(result) for result in results],
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def texts() -> Texts:
    """The results of each folder of records as they are read now."""
    return {f"results/{folder}.json": lambda folder=folder: _results(folder) for folder in FOLDERS}


@pytest.fixture(autouse=True)
def _records(tmp_path: Path) -> Iterator[None]:
    with among_records(tmp_path / "records"):
        yield


@pytest.mark.parametrize("folder", FOLDERS)
def test_results_are_as_stored(folder: str) -> None:
    assert _results(folder) == stored(f"results/{folder}.json")


def test_results_of_all_folders_are_those_of_each() -> None:
    everything = gather(".")
    assert sorted(r.name for r in everything) == sorted(r.name for folder in FOLDERS for r in gather(folder))
    assert [refused.file.name for refused in everything.refused] == ["repetition.json"]
