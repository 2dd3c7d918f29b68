"""Trackers get every step once; those that are not installed are refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import FrameworkMissing, InvalidArgument, UnknownName
from deep_bench.training.timeline import Timeline
from deep_bench.training.timeline.trackers import trackers

NAMES = {"step", "data", "forward", "not in any region", "samples per second"}


class Writer:
    """What the hook for TensorBoard asks of a writer."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.rows.append((name, value, step))


def epoch(t: Timeline, clock: Any, n: int = 4) -> None:
    for _ in t.over([np.zeros((8, 2))] * n):
        with t.region("forward"):
            clock.ms(2)


def test_every_step_is_sent_once(clock: Any) -> None:
    writer = Writer()
    with db.timeline() as t:
        sent = []
        for _ in range(3):
            epoch(t, clock)
            sent.append(t.log_to("tensorboard", writer))
    assert sent == [3, 4, 4]  # the first is kept apart
    assert {name for name, _, _ in writer.rows} == {f"training/{name}" for name in NAMES}
    assert [row for row in writer.rows if row[0] == "training/step"] == [("training/step", 0.002, i) for i in range(1, 12)]
    assert ("training/samples per second", 4000.0, 5) in writer.rows


def test_tensorboard_files(clock: Any, tmp_path: Path) -> None:
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2", reason="tensorboardX is not installed")
    with db.timeline() as t:
        epoch(t, clock)
    assert t.log_to("tensorboard", tmp_path) == 3
    (file,) = tmp_path.iterdir()
    data, found = file.read_bytes(), {}
    while data:  # length, its checksum, the event, its checksum
        (length,) = struct.unpack("<Q", data[:8])
        event = event_pb2.Event.FromString(data[12 : 12 + length])
        found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
        data = data[12 + length + 4 :]
    assert len(found) == 3 * len(NAMES)
    assert found["training/forward", 2] == pytest.approx(0.002)


def test_mlflow(clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with db.timeline() as t:
        epoch(t, clock, 300)
    with pytest.raises(InvalidArgument, match="no MLflow run"):
        t.log_to("mlflow")
    with mlflow.start_run() as run:
        assert t.log_to("mlflow") == 299
    found = mlflow.MlflowClient().get_metric_history(run.info.run_id, "training/forward")
    assert [(metric.step, metric.value) for metric in found] == [(i, 0.002) for i in range(1, 300)]
    assert t.log_to("mlflow", run.info.run_id) == 299


def test_wandb(clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": str(tmp_path)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    with db.timeline() as t:
        epoch(t, clock)
    with pytest.raises(InvalidArgument, match="no run of Weights & Biases"):
        t.log_to("wandb")
    with wandb.init(project="timeline", dir=str(tmp_path)) as run:
        assert t.log_to("wandb") == 3
        assert t.log_to("wandb", run) == 3
        assert run.summary["training/forward"] == pytest.approx(0.002)
        assert run.summary["training/number"] == 3
    assert list(tmp_path.rglob("*.wandb"))


def test_trackers_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_bench.training.timeline import trackers as tensorboard

    with db.timeline() as t:
        pass
    with pytest.raises(UnknownName, match="did you mean 'tensorboard'"):
        t.log_to("tensorbord", "runs")
    with pytest.raises(InvalidArgument, match="a folder, or a SummaryWriter"):
        t.log_to("tensorboard")
    for registry in (trackers, tensorboard._writers):
        monkeypatch.setattr(registry, "_requires", dict.fromkeys(registry, ("not_installed",)))
    with pytest.raises(FrameworkMissing, match="pip install 'wandb'"):
        t.log_to("wandb")
    monkeypatch.setattr(trackers, "_requires", {})
    with pytest.raises(FrameworkMissing, match="pip install tensorboardX"):
        t.log_to("tensorboard", "runs")
