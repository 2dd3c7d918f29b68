"""Numbers that nobody can have measured are refused on reading, with the file, the place and what was expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from deep_bench.errors import InvalidRecord
from deep_bench.network.profile_result import Profile
from deep_bench.records import store
from deep_bench.results import gather

NAN_BITS = int(np.array(np.nan).view(np.int64))
INFINITE_BITS = int(np.array(np.inf).view(np.int64))

WRONG = [
    ("network", "systems.0.samples.0.blocks.0.ns.1", -5),
    ("network", "systems.0.samples.0.blocks.0.ns.1", 0),
    ("network", "systems.0.samples.0.blocks.0.ns.1", NAN_BITS),
    ("network", "systems.0.samples.0.blocks.0.ns.1", INFINITE_BITS),
    ("network", "systems.0.samples.0.blocks.0.ns.1", 1.5),
    ("network", "systems.0.samples.0.blocks.0.start_ns", -1),
    ("network", "systems.0.samples.0.blocks.0.batch", 0),
    ("network", "systems.0.samples.0.warm_up.medians_ns.0", float("nan")),
    ("network", "systems.0.first_call_ns", -1),
    ("network", "systems.0.prepare_ns", -1),
    ("network", "systems.0.peak_memory_bytes", -1),
    ("network", "steal", float("inf")),
    ("operators", "systems.0.trials.1.samples.0.blocks.0.ns.0", -5),
    ("operators", "systems.0.trials.0.setup_ns", -5),
    ("communication", "systems.0.trials.0.samples.0.blocks.0.ns.0", 0),
    ("communication", "systems.0.trials.0.samples.1.blocks.0.ns.0", -1),
    ("training", "runs.1.stamps.0", -5),
    ("training", "runs.0.stamps.1", NAN_BITS),
    ("training", "runs.0.stamps.4", 0),
    ("training", "runs.0.sizes.0", -1),
    ("training", "runs.0.setup_ns", -1),
    ("training", "runs.0.evaluations.0.time_ns", -1),
    ("scaling", "points.0.mean", 0.0),
    ("scaling", "points.0.low", float("nan")),
    ("scaling", "points.1.communicating", -1.0),
    ("scaling", "measured.0.steps.0", "NaN"),
    ("scaling", "alone", "-Infinity"),
    ("network", "systems.0.verdict.significant_bits", -50),
    ("network", "systems.0.verdict.significant_bits", 1e308),
    ("network", "systems.0.verdict.significant_bits", "NaN"),
    ("network", "systems.0.verdict.end_to_end_bits", "Infinity"),
    ("network", "systems.0.verdict.max_abs_error", -1),
    ("network", "systems.0.verdict.replayed", -1),
    ("network", "systems.0.verdict.seconds", -1),
    ("network", "network.sizes.batch", -1),
    ("network", "network.parameters", -1),
    ("network", "network.inputs.0.shape.1", -1),
    ("network", "environment.memory_bytes", -1),
    ("network", "environment.load.0", "NaN"),
    ("network", "created", "0001-01-01T00:00:00"),
    ("network", "created", "9999-01-01T00:00:00Z"),
    ("operators", "systems.0.trials.0.verdict.significant_bits", "-Infinity"),
    ("operators", "suite.cases.0.inputs.0.shape.0", -8),
    ("communication", "created", "0001-01-01T00:00:00Z"),
    ("training", "created", "0001-01-01T00:00:00Z"),
    ("training", "target.value", "NaN"),
    ("training", "runs.0.network.parameters", -1),
    ("scaling", "created", "0001-01-01T00:00:00Z"),
    ("scaling", "environment.cores", -1),
]


def content_of(folder: Path) -> Any:
    """The record of a folder, all of its samples in it."""
    (file,) = (path for path in folder.glob("*.json") if path.name != "machine.json")
    if folder.name in ("network", "operators", "communication"):
        return store.load(file).model_dump(mode="json")
    return json.loads(file.read_text(encoding="utf-8"))


def changed(content: Any, place: str, value: Any) -> None:
    *way, last = (int(part) if part.isdecimal() else part for part in place.split("."))
    for part in way:
        content = content[part]
    content[last] = value


@pytest.mark.parametrize(("kind", "place", "value"), WRONG)
def test_a_number_that_is_no_time_is_refused_with_its_place(
    records: Path, tmp_path: Path, kind: str, place: str, value: Any
) -> None:
    content = content_of(records / kind)
    changed(content, place, value)
    (tmp_path / "bad.json").write_text(json.dumps(content), encoding="utf-8")
    found = gather(tmp_path)
    assert len(found) == 0
    (refused,) = found.refused
    names = [part for part in place.split(".") if not part.isdecimal() and (part, value) != ("significant_bits", -50)]
    assert str(refused.file.name) == "bad.json"
    assert all(name in refused.reason for name in names), refused.reason
    assert "expected" in refused.reason or "should be" in refused.reason, refused.reason


@pytest.fixture
def long(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A record with its samples in the file beside it."""
    monkeypatch.setattr(store, "INLINE_SAMPLES", 1)
    (first,) = (records / "network").glob("*.json")
    file = store.save(store.load(first), tmp_path)
    return file, next(tmp_path.glob("*.h5"))


@pytest.mark.parametrize(
    "samples", [[-5], [0], [NAN_BITS], np.array([np.nan]), np.array([1.5]), np.array([2**63 + 5], np.uint64)]
)
def test_samples_beside_a_record_are_looked_at_as_well(long: tuple[Path, Path], samples: Any) -> None:
    file, beside = long
    with h5py.File(beside, "r+") as opened:
        whole = opened["systems/0/samples/0/ns"][()]
        values = np.asarray(samples)
        del opened["systems/0/samples/0/ns"]
        opened["systems/0/samples/0/ns"] = np.concatenate([values, whole[1:].astype(values.dtype)])
    content = json.loads(file.read_text(encoding="utf-8"))
    content["arrays"]["sha256"] = store.digest(beside)
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidRecord, match="ns"):
        store.load(file)


def test_what_a_metric_found_is_looked_at(records: Path, tmp_path: Path) -> None:
    content = content_of(records / "operators")
    content["systems"][0]["trials"][0]["metrics"] = [{"name": "wait", "unit": "s", "direction": "lower", "values": [-1.0]}]
    (tmp_path / "bad.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidRecord, match=r"trials\.0\.metrics\.0.*a time of -1 s"):
        store.load(tmp_path / "bad.json")


def test_a_profile_is_looked_at(tmp_path: Path) -> None:
    system = {"label": "a", "framework": "a", "plain_ns": [3, 0]}
    needs = dict.fromkeys(("parameters", "inputs", "peak", "all_activations", "unknown"), 0) | {"at": ""}
    content = {"network": "n", "sha256": "0" * 64, "sizes": {}, "inputs": "", "loss": None, "repeat": 2, "nodes": []}
    (tmp_path / "profile.json").write_text(json.dumps({**content, "needs": needs, "systems": [system]}))
    with pytest.raises(InvalidRecord, match=r"profile\.json: systems\.0\.plain_ns\.1: .*greater than or equal to 1"):
        Profile.load(tmp_path / "profile.json")


def test_what_is_written_can_be_read(records: Path) -> None:
    assert gather(records).refused == ()
