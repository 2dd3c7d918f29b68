"""Callbacks that end a run, and what they keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import leaves
from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.events import Moment
from deep_bench.training.callbacks import (
    EarlyStopping,
    EvaluateEvery,
    NonFinite,
    Schedule,
    TargetReached,
    TimeLimit,
)
from deep_bench.training.checkpoint import read_checkpoint, write_checkpoint
from deep_bench.training.scores import Score
from deep_bench.training.sets import ArrayDataset
from tests.training import small


class Scripted(Score):
    """A score that takes values from a list, one for each evaluation."""

    name = "scripted"

    def __init__(self, values: list[float], direction: Any = "higher") -> None:
        self.values, self.direction = values, direction
        self.asked = False

    def add(self, outputs: Any, batch: Any) -> None:
        self.asked = True

    def value(self) -> float:
        return self.values.pop(0)


def scripted(values: list[float], *callbacks: Any, direction: Any = "higher", **options: Any) -> Any:
    """A trainer whose score is known beforehand, evaluated after each step."""
    return small.trainer(scores=[lambda: Scripted(values, direction)], every=1, callbacks=callbacks, **options)


def test_the_target_ends_a_run() -> None:
    target = TargetReached("scripted", 0.5)
    history = scripted([0.1, float("nan"), 0.5, 0.9], target).run(epochs=9)
    assert history.steps == 3
    assert history.stopped_because == "scripted 0.5 reached its target 0.5"
    assert target.reached is history.evaluations[2] is history.reached("scripted", 0.5)


def test_what_has_ended_goes_no_further_when_resumed() -> None:
    for callback in (lambda: TargetReached("scripted", 0.5), lambda: EarlyStopping("scripted", patience=1)):
        first = scripted([0.6, 0.5, 0.4], callback())
        first.run(epochs=9)
        again = scripted([], callback())
        again.restore(first.snapshot())
        assert again.run(epochs=9).steps == first.history.steps
        assert again.history.stopped_because == first.history.stopped_because


def test_a_target_to_fall_to() -> None:
    history = scripted([3.0, 2.0, 1.0], TargetReached("scripted", 2.5), direction="lower").run(epochs=9)
    assert history.steps == 2


def test_scores_that_are_not_there() -> None:
    for callback in (TargetReached("acuracy", 0.9), EarlyStopping("acuracy")):
        with pytest.raises(UnknownName, match="did you mean 'accuracy'"):
            small.trainer(callbacks=[callback]).run(steps=1)
        with pytest.raises(InvalidArgument, match="nothing is evaluated"):
            small.trainer(callbacks=[callback], evaluated=False).run(steps=1)
    with pytest.raises(InvalidArgument, match="target nan"):
        TargetReached("accuracy", float("nan"))


@pytest.mark.parametrize(
    ("values", "direction", "min_delta", "steps", "best"),
    [
        ([1, 2, 2, 2, 9], "higher", 0, 4, 2),
        ([3, 2, 2.5, 1, 1, 1, 0], "lower", 0, 6, 1),
        ([1, 1.05, 1.15, 1.2, 1.2, 9], "higher", 0.1, 5, 1.15),
        ([float("nan"), float("nan"), 5], "higher", 0, 2, float("nan")),
        ([5, float("nan"), 6, float("nan"), 6, 7], "higher", 0, 5, 6),
    ],
)
def test_early_stopping(values: list[float], direction: str, min_delta: float, steps: int, best: float) -> None:
    stopping = EarlyStopping("scripted", patience=2, min_delta=min_delta)
    history = scripted(list(values), stopping, direction=direction).run(epochs=9)
    assert history.steps == steps
    assert np.array_equal(stopping.value, best, equal_nan=True)
    assert "got no better in 2 evaluations" in history.stopped_because


def test_early_stopping_keeps_the_best_parameters(tmp_path: Path) -> None:
    seen: list[Any] = []

    def keep(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_STEP:
            seen.append(data.trainer.taker.snapshot())

    stopping = EarlyStopping("scripted", patience=3, file=tmp_path / "best.h5")
    run = scripted([1.0, 3.0, 2.0, 2.0, 2.0], stopping, keep)
    run.run(epochs=9)
    assert stopping.step == 2
    for tree in (stopping.best, read_checkpoint(tmp_path / "best.h5")):
        assert sorted(tree) == ["parameters", "statistics"]
        for path, array in leaves(tree).items():
            assert np.array_equal(array, leaves(seen[1])[path])
            assert array.size == 0 or path[0] == "statistics" or not np.array_equal(array, leaves(seen[4])[path])
    assert run.form.trained(stopping.best["parameters"], stopping.best["statistics"]).name == run.form.source.name


def test_early_stopping_is_resumed_with_what_it_knew(tmp_path: Path) -> None:
    values = [1.0, 3.0, 2.0, 2.0, 2.0, 9.0]
    first = scripted(list(values), EarlyStopping("scripted", patience=3))
    first.run(steps=3)
    path = write_checkpoint(tmp_path / "run.h5", first.snapshot())
    stopping = EarlyStopping("scripted", patience=3)
    second = scripted(values[3:], stopping)
    second.restore(read_checkpoint(path))
    assert second.run(epochs=9).steps == 5
    assert (stopping.value, stopping.step) == (3.0, 2)


def test_the_time_limit_counts_from_the_beginning() -> None:
    run = small.trainer(callbacks=[TimeLimit(3600)], evaluated=False)
    assert run.run(steps=2).stopped_because == "steps done"
    run.history.stamps[-1] = int(3600e9)
    history = run.run(steps=9)
    assert history.steps == 2
    assert history.stopped_because == "the time limit of 3600 s is over"
    hasty = small.trainer(callbacks=[TimeLimit(1e-9)], evaluated=False).run(epochs=2)
    assert hasty.steps == 1
    assert hasty.stopped_because == "the time limit of 1e-09 s is over"
    for bad in (0, float("nan")):
        with pytest.raises(InvalidArgument):
            TimeLimit(bad)


class Snapshots:
    """Takes one after each step."""

    moments = (Moment.AFTER_STEP,)

    def __init__(self) -> None:
        self.trees: list[Any] = []

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        self.trees.append(data.trainer.snapshot())


def test_evaluations_by_samples() -> None:
    history = small.trainer(callbacks=[EvaluateEvery(40)]).run(epochs=2)
    # an epoch is 16 + 16 + 16 + 2 samples
    assert [e.samples for e in history.evaluations] == [48, 82]
    again = small.trainer(callbacks=[EvaluateEvery(40)])
    first = small.trainer(callbacks=[EvaluateEvery(40)])
    first.run(steps=4)
    again.restore(first.snapshot())
    assert [e.samples for e in again.run(epochs=2).evaluations] == [48, 82]
    # a checkpoint that is written before the evaluation of its step
    early = small.trainer(callbacks=[snapshots := Snapshots(), EvaluateEvery(40)])
    early.run(steps=3)
    kept = snapshots.trees[-1]
    assert len(kept["history"]["evaluations"]) == 0
    late = small.trainer(callbacks=[Snapshots(), EvaluateEvery(40)])
    late.restore(kept)
    assert [e.figures for e in late.run(epochs=2).evaluations] == [e.figures for e in history.evaluations]
    assert [e.samples for e in late.history.evaluations] == [48, 82]
    with pytest.raises(InvalidArgument, match="nothing to evaluate with"):
        small.trainer(callbacks=[EvaluateEvery(40)], evaluated=False).run(steps=1)


def poisoned(
    callback: NonFinite, value: float, on: str = "reference", optimizer: Any = None, others: Any = (), **options: Any
) -> Any:
    """A trainer whose third batch has a bad value."""
    points = small.data()
    batch = points[np.arange(50)]
    batch["x"][40, 1] = value
    data = ArrayDataset(batch)
    sampler = db.samplers["sequential"](data, batch_size=16)
    adapter = db.frameworks[on]()
    rule = optimizer or db.optimizers["adam"](lr=0.01)
    network = small.network(normalized=False)
    return small.Trainer.on(adapter, network, rule, dataset=data, sampler=sampler, callbacks=[callback, *others], **options)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("on", ["reference", "torch"])
def test_a_step_that_is_not_finite_is_saved(on: str, tmp_path: Path) -> None:
    if on != "reference":
        pytest.importorskip(on)
    watching = NonFinite(tmp_path / "faults")
    before: list[Any] = []

    def keep(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.BEFORE_STEP:
            before.append(data.trainer.taker.snapshot()["parameters"])

    run = poisoned(watching, np.inf, on, others=[keep])  # of the loss nothing is seen in this step
    history = run.run(epochs=1)
    assert history.steps == 3
    assert "is not finite; the step is in" in history.stopped_because
    assert watching.file is not None
    saved = read_checkpoint(watching.file)
    assert saved["step"] == 2
    assert np.array_equal(saved["indices"], np.arange(32, 48))
    assert np.isinf(saved["batch"]["x"][8, 1])
    assert not np.isfinite(saved["gradients"]["w1"]).all()
    for name, array in saved["parameters"].items():
        assert np.array_equal(array, before[2][name])
        assert np.isfinite(array).all()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_the_loss_alone_is_looked_at_where_all_is_one_graph(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="NonFinite asks for gradients"):
        poisoned(NonFinite(tmp_path), np.nan, fused=True)
    watching = NonFinite(tmp_path, gradients=False)
    history = poisoned(watching, np.nan, fused=True).run(epochs=1)
    assert history.stopped_because.startswith("the loss of step 2 is nan")
    assert watching.file is not None
    assert sorted(read_checkpoint(watching.file)) == ["batch", "epoch", "indices", "seed", "step"]


class Watching:
    """Notes the learning rate of each step."""

    moments = (Moment.AFTER_STEP,)

    def __init__(self) -> None:
        self.seen: list[float] = []

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        self.seen.append(data.trainer.taker.optimizer.lr)


def test_a_setting_changes_from_outside() -> None:
    sgd = db.optimizers["sgd"](lr=0.1)
    watching = Watching()
    run = small.trainer(optimizer=sgd, evaluated=False, callbacks=[Schedule("lr", {2: 0.05, 4: 0.0}), watching])
    run.run(steps=4)
    kept = run.snapshot()
    assert watching.seen == [0.1, 0.1, 0.05, 0.05]
    run.run(steps=6)
    assert watching.seen[4:] == [0.0, 0.0]
    for name, array in run.snapshot()["step"]["parameters"].items():
        assert np.array_equal(array, kept["step"]["parameters"][name])
    resumed = small.trainer(optimizer=sgd, evaluated=False, callbacks=[Schedule("lr", {2: 0.05, 4: 0.0}), Watching()])
    resumed.restore(kept)
    assert resumed.run(steps=6).losses == run.history.losses


def test_a_schedule_from_outside_is_the_one_from_inside() -> None:
    def falling(step: int) -> float:
        return 0.1 / (1 + step)

    inside = db.optimizers["sgd"](lr=lambda steps, xp: 0.1 / (1 + xp.cast(steps, np.float64)))
    outside = small.trainer(optimizer=db.optimizers["sgd"](lr=0.5), evaluated=False, callbacks=[Schedule("lr", falling)])
    expected = small.trainer(optimizer=inside, evaluated=False).run(steps=5).losses
    assert np.allclose(outside.run(steps=5).losses, expected, rtol=1e-6)


def test_settings_that_cannot_be_set() -> None:
    with pytest.raises(UnknownName, match="did you mean 'lr'"):
        small.trainer(callbacks=[Schedule("lrr", {0: 1.0})], evaluated=False).run(steps=1)
    with pytest.raises(Unsupported, match="set from outside"):
        small.trainer(callbacks=[Schedule("lr", {0: 1.0})], evaluated=False, fused=True).run(steps=1)
    with pytest.raises(InvalidArgument):
        small.trainer(callbacks=[Schedule("lr", {0: -1.0})], evaluated=False).run(steps=1)
    with pytest.raises(InvalidArgument, match="no values"):
        Schedule("lr", {})


def test_what_a_callback_raises_ends_the_run_when_all_is_safe() -> None:
    def broken(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_STEP and index == 2:
            raise ZeroDivisionError("own fault")

    run = small.trainer(callbacks=[broken], evaluated=False)
    with pytest.raises(ZeroDivisionError) as caught:
        run.run(epochs=1)
    assert "raised by the callback broken, after step" in caught.value.__notes__
    assert len(run.history.losses) == run.history.steps == 3
