"""What Python reads of stored files that are no records: checkpoints, containers, timelines, bundles, recipes and others.

A stored checkpoint is trained on from, and a stored bundle is unpacked, so that what is read is also of use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from tests.stored.stored import Texts, among_records, command_line, public, stored

Declarations, Lock = public("deep_bench.environments", "Declarations"), public("deep_bench.environments", "Lock")
READY, load_experiment = public("deep_bench.experiments", "READY"), public("deep_bench.experiments", "load_experiment")
Roofline = public("deep_bench.measure.roofline", "Roofline")
load_inference = public("deep_bench.mlperf.inference", "load_inference")
read_manifest, unpack = public("deep_bench.repeating", "read_manifest"), public("deep_bench.repeating", "unpack")
load_timeline = public("deep_bench.training.timeline", "load")
training = db.training

CHECKPOINTS = Path("checkpoints/torch/seed_0")
CONTAINERS = ("cifar", "folder", "hdf5.h5", "idx", "npy", "recordio.rec", "tar.tar", "tfrecord.tfrecord", "webdataset")


def _arrays(tree: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Each array of a tree to its type and shape, and to its values where they are few."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found |= _arrays(value, f"{place}{name}/")
            continue
        array = np.asarray(value)
        few = array.size <= 20 and array.dtype.kind in "iu"
        sum_of_all = None if few else float(f"{np.abs(array.astype(np.float64)).sum():.9g}")
        found[place + name] = [str(array.dtype), list(array.shape), array.tolist() if few else sum_of_all]
    return found


def _checkpoint() -> dict[str, Any]:
    path = training.latest_checkpoint(CHECKPOINTS)
    assert path is not None
    return {"file": path.as_posix(), "arrays": _arrays(training.read_checkpoint(path))}


def _containers() -> dict[str, Any]:
    found = {}
    for name in CONTAINERS:
        with training.open_container(f"containers/{name}", verify=True) as container:
            samples = container[np.arange(len(container))]
            specs = [str(spec) for spec in container.specs]
            found[name] = {"kind": container.kind, "samples": len(container), "specs": specs, "arrays": _arrays(samples)}
    return found


def _timeline() -> dict[str, Any]:
    found = load_timeline("files/timeline.json")
    phases = {
        name: {
            "steps": found[name].n_steps,
            "epochs": len(found[name].epochs),
            "rows": [row.name for row in found[name].rows],
        }
        for name in found
    }
    return {"total ns": found.total_ns, "phases": phases, "text": found.as_text(120).splitlines()}


def _suite() -> dict[str, Any]:
    suite = db.operators.Suite.from_toml(Path("files/suite.toml"))
    cases = [
        {"case": str(c), "label": c.label, "of": [str(a) for a in c.arguments], "tags": sorted(c.tags), "count": c.count}
        for c in suite
    ]
    return {"name": suite.name, "source": suite.source, "licence": suite.licence, "notes": list(suite.notes), "cases": cases}


def _experiment(name: str) -> dict[str, Any]:
    experiment = load_experiment(name)
    cells = [{"id": cell.id, "name": cell.name, "together": list(cell.together)} for cell in experiment.cells]
    return {"level": experiment.level, "conditions": len(experiment.rules), "cells": cells}


def _environments() -> dict[str, Any]:
    declared = Declarations.read(Path("files/environments.yaml"))
    lock = Lock.parse(Path("files/tiny.lock.txt").read_text(encoding="utf-8"), "tiny")
    declarations = {name: vars(declared[name]) | {"prefix": declared[name].prefix} for name in declared}
    return {"declared": declarations, "lock": {"of": lock.declaration, "pins": dict(lock.pins), "hashes": dict(lock.hashes)}}


def _inference() -> dict[str, Any]:
    """The records of MLPerf inference, without the machine, the samples and the text of LoadGen's own logs."""
    found = {}
    for mode in ("performance", "accuracy"):
        assert load_inference(f"inference/{mode}/mlperf.json").valid
        status, output, errors = command_line(["show", f"inference/{mode}", "--json"])
        assert (status, errors) == (0, "")
        found[mode] = {name: value for name, value in json.loads(output).items() if len(json.dumps(value)) < 2000}
    return found


def _roofline() -> dict[str, Any]:
    return Roofline.model_validate_json(Path("files/roofline.json").read_text(encoding="utf-8")).model_dump(mode="json")


CONTENTS: dict[str, Callable[[], Any]] = {
    "bundle": lambda: read_manifest("files/bundle.zip").model_dump(mode="json"),
    "checkpoint": _checkpoint,
    "containers": _containers,
    "environments": _environments,
    "experiments": lambda: {name: _experiment(name) for name in ("files/recipe.yaml", *READY)},
    "inference": _inference,
    "profile": lambda: db.network.Profile.load("files/profile.json").table().splitlines(),
    "recipes": lambda: {name: training.load_recipe(name).resolved() for name in sorted(training.RECIPES)},
    "roofline": _roofline,
    "suite": _suite,
    "timeline": _timeline,
}


def _text(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def texts() -> Texts:
    """What each file holds as it is read now."""
    return {f"contents/{name}.json": lambda read=read: _text(read()) for name, read in CONTENTS.items()}


@pytest.fixture(autouse=True)
def _records(tmp_path: Path) -> Iterator[None]:
    with among_records(tmp_path / "records"):
        yield


@pytest.mark.parametrize("name", CONTENTS)
def test_content_is_as_stored(name: str) -> None:
    assert _text(CONTENTS[name]()) == stored(f"contents/{name}.json")


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_training_goes_on_from_a_stored_checkpoint() -> None:
    words = "train digits --on torch --network mlp --optimizer sgd --every 64 --target accuracy=0.9 --output resumed"
    status, _, errors = command_line([*words.split(), "--steps", "5", "--checkpoints", "checkpoints", "--resume", "--json"])
    assert status == 1, errors  # the target is not reached
    latest = training.latest_checkpoint(CHECKPOINTS)
    assert latest is not None
    assert latest.name == "step_0000000005.h5"
    before, after = training.read_checkpoint(CHECKPOINTS / "step_0000000004.h5"), training.read_checkpoint(latest)
    assert after["step"]["optimizer"]["steps"] == before["step"]["optimizer"]["steps"] + 1
    for name, values in before["step"]["parameters"].items():
        trained = after["step"]["parameters"][name]
        assert (trained.shape, trained.dtype) == (values.shape, values.dtype)
        assert 0 < np.abs(trained - values).max() < 0.1
    assert np.array_equal(after["history"]["losses"][:4], before["history"]["losses"])


def test_a_stored_bundle_is_unpacked_and_damage_is_seen() -> None:
    manifest = unpack("files/bundle.zip", "unpacked")
    assert all(Path("unpacked", file.path).stat().st_size == file.bytes for file in manifest.files)
    archive = bytearray(Path("files/bundle.zip").read_bytes())
    archive[len(archive) // 2] ^= 1
    Path("damaged.zip").write_bytes(archive)
    status, output, errors = command_line(["badges", "damaged.zip"])
    assert status == 2 or "- every file is as it was packed" in output, errors
