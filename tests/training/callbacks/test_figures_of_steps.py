"""Callbacks that measure: gradient norms, labels, energy, memory, the worst samples, bars and pictures."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.events import Moment
from deep_bench.measure.metrics import EnergyMeter
from deep_bench.training.callbacks import (
    Curves,
    GradientNorm,
    LabelDistribution,
    ProgressBar,
    TrainingEnergy,
    TrainingMemory,
    WorstSamples,
)
from deep_bench.training.checkpoint import read_checkpoint, write_checkpoint
from deep_bench.training.plots import history_figure
from deep_bench.training.scores import Accuracy, SampleLosses, cross_entropies
from tests.training import small


@pytest.mark.parametrize("on", ["reference", "torch"])
def test_gradient_norms(on: str, tmp_path: Path) -> None:
    if on != "reference":
        pytest.importorskip(on)
    expected: list[float] = []

    def keep(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_GRADIENTS:
            to_numpy = data.trainer.taker.device.to_numpy
            every = np.concatenate([to_numpy(g).astype(np.float64).ravel() for g in data.gradients.values()])
            expected.append(float(np.linalg.norm(every)))

    norms = GradientNorm()
    run = small.trainer(on, callbacks=[norms, keep])
    run.run(steps=3)
    path = write_checkpoint(tmp_path / "run.h5", run.snapshot())
    again = GradientNorm()
    resumed = small.trainer(on, callbacks=[again, keep])
    resumed.restore(read_checkpoint(path))
    resumed.run(steps=6)
    found = again.measurement()
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)
    assert (found.name, found.unit, found.direction) == ("gradient norm", "", "lower")


def test_labels_as_sampled(tmp_path: Path) -> None:
    points = small.data()
    labels = points[np.arange(len(points))]["label"]
    watching = LabelDistribution(expected=np.bincount(labels))
    run = small.trainer(callbacks=[watching])
    run.run(steps=2)
    path = write_checkpoint(tmp_path / "run.h5", run.snapshot())
    again = LabelDistribution(expected=np.bincount(labels))
    resumed = small.trainer(callbacks=[again])
    resumed.restore(read_checkpoint(path))
    resumed.run(epochs=1)
    np.testing.assert_array_equal(again.counts, np.bincount(labels))
    found = again.measurement()
    assert found.values == (0.0,)
    assert "0: " in found.remark
    shares = watching.counts / watching.counts.sum()
    apart = np.abs(shares - np.bincount(labels) / len(labels)).sum() / 2
    assert watching.measurement().values == pytest.approx((apart,))


def test_labels_that_are_none() -> None:
    with pytest.raises(InvalidInput, match="samples without 'class'"):
        small.trainer(callbacks=[LabelDistribution("class")]).run(steps=1)
    with pytest.raises(InvalidInput, match="'x' of type float32"):
        small.trainer(callbacks=[LabelDistribution("x")]).run(steps=1)
    for bad in ([0, 0], [[1]], [-1, 2]):
        with pytest.raises(InvalidArgument):
            LabelDistribution(expected=bad)


class Counter:
    """A counter of energy that goes on by 2 J each time that it is read."""

    name, wrap = "made up", 10.0

    def __init__(self) -> None:
        self.joules = 0.0

    def read(self) -> float:
        self.joules += 2
        return self.joules % 10


def test_energy_and_what_was_taken_before(tmp_path: Path) -> None:
    energy = TrainingEnergy(EnergyMeter([Counter()]))
    assert energy.measurement().unavailable == "not available: no run was watched"
    run = small.trainer(callbacks=[energy], evaluated=False)
    run.run(steps=3)
    first = energy.measurement()
    assert (first.values, first.unit, first.direction) == ((4.0,), "J", "lower")  # after the first step, and at the end
    path = write_checkpoint(tmp_path / "run.h5", run.snapshot())
    again = TrainingEnergy(EnergyMeter([Counter()]))
    resumed = small.trainer(callbacks=[again], evaluated=False)
    resumed.restore(read_checkpoint(path))
    resumed.run(steps=6)
    assert again.measurement().values == (6.0 + 4.0,)  # the snapshot read it once more
    none = TrainingEnergy(EnergyMeter([], "no counters"))
    small.trainer(callbacks=[none], evaluated=False).run(steps=1)
    assert none.measurement().unavailable == "not available: no counters"


def test_memory() -> None:
    memory = TrainingMemory()
    assert memory.measurement().unavailable
    small.trainer(callbacks=[memory], evaluated=False).run(steps=1)
    found = memory.measurement()
    assert found.unit == "B"
    assert found.values[0] > 10 * 2**20


def test_the_worst_samples(tmp_path: Path) -> None:
    made = [lambda: Accuracy("logits", "label"), lambda: SampleLosses(cross_entropies("logits", "label"))]
    run = small.trainer(scores=made, callbacks=[WorstSamples(tmp_path / "worst.h5", 5)])
    run.run(epochs=1)
    saved = read_checkpoint(tmp_path / "worst.h5")
    losses = run.evaluation.scores["loss of a sample"].losses
    assert np.array_equal(saved["numbers"], np.argsort(-losses, kind="stable")[:5])
    assert np.array_equal(saved["losses"], np.sort(losses)[::-1][:5])
    held_out = small.data(20, seed=4)
    assert np.array_equal(saved["samples"]["x"], held_out[saved["numbers"]]["x"])
    assert saved["step"] == 4


def test_a_loss_that_is_nan_is_the_worst(tmp_path: Path) -> None:
    losses = np.array([1.0, np.nan, np.inf, 3.0, np.nan, 3.0])

    def made(outputs: Any, batch: Any) -> np.ndarray:
        return np.resize(losses, len(batch["x"]))

    callback = WorstSamples(tmp_path / "worst.h5", 4)
    small.trainer(scores=[lambda: SampleLosses(made)], callbacks=[callback], held_out=small.data(6)).run(epochs=1)
    assert read_checkpoint(tmp_path / "worst.h5")["numbers"].tolist() == [1, 4, 2, 3]


def test_worst_samples_need_losses(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="one of 0 losses"):
        small.trainer(callbacks=[WorstSamples(tmp_path / "w.h5")]).run(steps=1)
    with pytest.raises(InvalidArgument, match="'accuracy', a Accuracy"):
        small.trainer(callbacks=[WorstSamples(tmp_path / "w.h5", score="accuracy")]).run(steps=1)
    with pytest.raises(InvalidArgument, match="at least 1"):
        WorstSamples(tmp_path / "w.h5", 0)


class Terminal(io.StringIO):
    """Something that says it is a terminal, or not."""

    def __init__(self, is_one: bool) -> None:
        super().__init__()
        self.is_one = is_one

    def isatty(self) -> bool:
        return self.is_one


def test_a_bar_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal(True))
    small.trainer(callbacks=[ProgressBar()]).run(epochs=2)
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "epoch 1:" in shown
    assert "epoch 2:" in shown
    assert "loss" in shown
    monkeypatch.setattr("sys.stderr", Terminal(False))
    small.trainer(callbacks=[ProgressBar()]).run(epochs=1)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_a_bar_of_an_epoch_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal(True))
    points = small.data()
    endless = db.samplers["infinite"](db.samplers["shuffled"](points, batch_size=16))
    executor = db.frameworks["reference"]().prepare(small.network(dropout=False), mode="train")
    sgd = db.optimizers["sgd"](lr=0.1)
    run = small.Trainer(executor, sgd, points, endless, callbacks=[ProgressBar()])
    run.run(steps=6)
    assert "epoch 1: 0 steps, loss" in sys.stderr.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("end", ["png", "svg", "pdf"])
def test_curves(end: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / f"run.{end}"
    seen: list[bytes] = []

    def look(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_EPOCH:
            seen.append(file.read_bytes())

    run = small.trainer(callbacks=[Curves(file), look])
    run.run(epochs=2)
    assert len(seen) == 2
    assert seen[0][:4] in (b"\x89PNG", b"%PDF", b"<?xm")
    assert file.read_bytes() != seen[0]  # the last picture has all of it
    assert [p.name for p in tmp_path.iterdir()] == [file.name]


def test_the_curves_show_the_losses() -> None:
    pytest.importorskip("matplotlib")
    run = small.trainer()
    history = run.run(epochs=2)
    figure = history_figure(history, run.evaluation.scores, "loss")
    assert all(float(tick).is_integer() for tick in figure.axes[0].get_xticks())
    loss, accuracy = figure.axes
    assert loss.lines[0].get_ydata().tolist() == history.losses.tolist()
    assert list(loss.lines[1].get_ydata()) == history.figures("loss")
    assert list(accuracy.lines[0].get_xdata()) == [4, 8]
    assert accuracy.get_ylabel() == "accuracy, higher is better"
    history.losses = type(history.losses)("d", range(5000))
    loss = history_figure(history, run.evaluation.scores, "loss").axes[0]
    assert len(loss.lines[0].get_ydata()) == 400
    assert loss.lines[0].get_ydata()[0] == 6.0  # the median of 0 to 12


def test_pictures_that_cannot_be(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(InvalidArgument, match=r"a picture in run\.txt"):
        Curves(tmp_path / "run.txt")
    with pytest.raises(InvalidArgument, match="no folder"):
        Curves(tmp_path / "nowhere" / "run.png")
