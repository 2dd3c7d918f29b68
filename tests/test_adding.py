"""What CONTRIBUTING.md says of where a change belongs is true: each of these is added in the places it names, and works."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench import registry
from deep_bench.distributed.schemes.averaged import AllReduce
from deep_bench.events import Moment
from deep_bench.measure import metrics
from deep_bench.measure.metrics import Metric, MetricRecord
from deep_bench.operators.case import Case
from deep_bench.reference.distributed.averaged import AllReduce as Reference
from deep_bench.reference.network import ReferenceAdapter
from deep_bench.testing.schemes import check_scheme
from deep_bench.training.loader import Loader
from deep_bench.training.sets import ArrayDataset

ROOT = Path(__file__).parents[1]


def test_the_places_that_are_named_are_there() -> None:
    text = (
        (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .partition("## Where a change belongs")[2]
        .partition("\n## ")[0]
    )
    paths = [path for path in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|pyi))`", text) if "/" in path]
    assert len(paths) >= 8
    for path in paths:
        assert any((base / path).exists() for base in (ROOT, ROOT / "deep_bench")), path


class DoublingAdapter(ReferenceAdapter):
    """A framework that is wrong: what an adapter returns is judged, whoever wrote it."""

    name = "doubling"

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        return np.asarray(array) * 2 if np.asarray(array).dtype.kind == "f" else np.asarray(array)


def test_a_framework_is_an_adapter_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.frameworks._builtin, "doubling", f"{__name__}:DoublingAdapter")
    result = db.run("digits-cnn", on=["reference", "doubling"], budget=0.1, twin=False, in_process=True, progress=False)
    assert {label: system.verdict for label, system in result.items()} == {"reference": "right", "doubling": "wrong"}


def ramp() -> ArrayDataset:
    """Four images of rising brightness."""
    return ArrayDataset(
        {"image": np.ones((4, 1, 8, 8), np.float32) * np.arange(4).reshape(4, 1, 1, 1), "label": np.arange(4)}
    )


def test_a_data_set_is_a_function_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.datasets._builtin, "ramp", f"{__name__}:ramp")
    dataset = db.datasets["ramp"]()
    with Loader(dataset, db.samplers["sequential"](dataset, batch_size=3)) as loader:
        assert [batch["label"].tolist() for _, batch in loader.epoch(0)] == [[0, 1, 2], [3]]


@dataclass(frozen=True)
class Plain(AllReduce):
    """All ranks' gradients added up, as in the scheme that it is of."""


def test_a_scheme_is_a_class_with_a_reference_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.distributed_optimizers._builtin, "plain", f"{__name__}:Plain")
    rule = db.optimizers["sgd"](lr=0.1)
    report = check_scheme(lambda comm: db.distributed_optimizers["plain"](rule, comm), Reference(rule), ranks=(1, 2))
    assert report.ok, report


class Calls(Metric):
    """How many calls were watched."""

    name, unit, direction = "calls", "", "higher"

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        self.count += moment is Moment.AFTER_CALL

    def measurement(self) -> MetricRecord:
        return self.found([self.count])


def test_a_metric_is_a_class_and_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin = metrics.builtin_metrics()
    monkeypatch.setattr(metrics, "builtin_metrics", lambda: {**builtin, "calls": Calls})
    case = Case.of("Relu", (4,))
    study = db.operators.study("reference", case, metrics=["calls"], budget=0.1, in_process=True, twin=False, progress=False)
    (trial,) = study.trials
    assert [(metric["name"], metric["values"]) for metric in trial.record.metrics] == [("calls", [10.0])]


def test_an_export_format_is_a_writer_and_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from deep_bench.cli.export import command
    from deep_bench.results import results as module

    choices = next(parameter.type.choices for parameter in command.params if parameter.name == "form")
    assert set(choices) == set(module.FORMATS)

    def write(results: module.Results, path: Path, samples: bool) -> None:
        path.write_text("".join(f"{result.name}\n" for result in results))

    monkeypatch.setattr(module, "FORMATS", {**module.FORMATS, "names": {".txt": write}})
    db.run("digits-cnn", on="reference", budget=0.1, twin=False, in_process=True, progress=False, output=tmp_path)
    file = db.results.gather(tmp_path).export(tmp_path / "names.txt", "names")
    assert file.read_text() == "reference on digits-cnn\n"
