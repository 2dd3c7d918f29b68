"""Several runs: their outcomes, their record, and that what is finished is kept."""

from __future__ import annotations

import json
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import leaves
from deep_bench.errors import InvalidArgument, InvalidRecord, UnknownName
from deep_bench.events import Moment
from deep_bench.training import runs as several_runs
from deep_bench.training.callbacks import EvaluateEvery, TargetReached, TimeLimit
from deep_bench.training.figures import throughput, to_target
from deep_bench.training.record import TargetRecord, write_training
from deep_bench.training.results import Runs
from deep_bench.training.run_state import History
from deep_bench.training.runs import kept, recorded, several
from tests.training import small
from tests.training.runs import makers

TARGET = ("accuracy", 0.75)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Four runs: two that reach the target, one that does not, and one that breaks."""
    output = tmp_path_factory.mktemp("records")
    seeds = [1, 2, 3, 4]
    return several(
        makers.some_fail, seeds, target=TARGET, every=32, epochs=6, label="reference", output=output, progress=False
    )


def test_outcomes(runs: Runs) -> None:
    assert [t.reached for t in runs.to_target] == [True, True, False, False]
    assert [run.seed for run in runs.runs] == [1, 2, 3, 4]
    assert runs.success.reached == 2
    assert runs.runs[2].stopped_because == "epochs done"
    broken = runs.runs[3].error
    assert broken is not None
    assert (broken.kind, broken.message) == ("ZeroDivisionError", "broken in step 2")
    assert runs.runs[3].steps == len(runs.runs[3].losses) == 2
    for run, found in zip(runs.runs, runs.to_target, strict=True):
        history = run.history()
        if found.reached:
            assert history.evaluations[-1].samples == found.samples
            assert history.evaluations[-1].figures["accuracy"] >= TARGET[1]
            assert "reached its target" in run.stopped_because
        else:
            assert found.seconds == history.wall_ns / 1e9


def test_evaluated_by_samples(runs: Runs) -> None:
    # an epoch is 16 + 16 + 16 + 2 samples
    assert [e.samples for e in runs.runs[2].evaluations[:4]] == [32, 66, 98, 132]


def test_the_median_is_that_of_all_runs(runs: Runs) -> None:
    found = runs.survival()
    assert (found.n, found.reached) == (4, 2)
    assert found.interval is None
    samples = sorted(t.samples for t in runs.to_target if t.reached)
    assert set(runs.survival("samples").times) == set(samples)
    assert runs.mlperf.seconds is None
    assert "2 of 4 runs missed" in runs.mlperf.reason


def test_the_report_says_it(runs: Runs) -> None:
    text = runs.report(200)
    for part in (
        "perceptron on ",
        "target: accuracy ≥ 0.75 · evaluated every 32 samples",
        "reached the target: 2 of 4, 50.0 %; too few runs for an interval: it takes 6",
        "as MLPerf scores it: – (not valid: 2 of 4 runs missed the target, and one may)",
        "ZeroDivisionError: broken in step 2",
        "accuracy: higher is better",
        "loss: lower is better",
        "evaluation",
        "the same bits",
        "gradient norm: ",
    ):
        assert part in text, part


def test_the_record_gives_the_same_report(runs: Runs) -> None:
    assert runs.path is not None
    assert json.loads(runs.path.read_text())["arrays"] is None
    again = Runs.load(runs.path)
    assert again.report(200) == runs.report(200)
    assert again.record.complete
    assert again.record.target == runs.record.target
    for mine, theirs in zip(again.runs, runs.runs, strict=True):
        assert mine.losses.tobytes() == theirs.losses.tobytes()


def test_long_arrays_lie_beside(runs: Runs, tmp_path: Path) -> None:
    copy = runs.record.model_copy(deep=True)
    run = copy.runs[0]
    n = 1000
    run.steps = n
    run.losses, run.sizes, run.stamps = np.full(n, np.nan), np.full(n, 8), np.arange(5 * n)
    path = Runs(copy).save(tmp_path)
    beside = list(tmp_path.glob("*.h5"))
    assert len(beside) == 1
    assert Runs.load(path).report() == Runs(copy, path).report()
    write_training(copy, path)  # again: the old file of arrays goes
    assert len(list(tmp_path.glob("*.h5"))) == 1
    beside = list(tmp_path.glob("*.h5"))
    beside[0].write_bytes(b"x")
    with pytest.raises(InvalidRecord, match="was altered"):
        Runs.load(path)
    beside[0].unlink()
    with pytest.raises(InvalidRecord, match="is missing"):
        Runs.load(path)


def test_files_that_are_no_record(tmp_path: Path, runs: Runs) -> None:
    assert runs.path is not None
    for text in (
        "",
        "[]",
        "{}",
        runs.path.read_text()[:-20],
        runs.path.read_text().replace('"steps":2,"eval', '"steps":9,"eval'),
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InvalidRecord):
            Runs.load(tmp_path / "bad.json")
    with pytest.raises(InvalidRecord, match="cannot read"):
        Runs.load(tmp_path / "nowhere.json")


def test_labels(runs: Runs) -> None:
    assert len(Runs(runs.record, label="reference").runs) == 4
    with pytest.raises(UnknownName, match="torch"):
        Runs(runs.record, label="torch")


@pytest.mark.long
def test_in_processes_of_their_own(runs: Runs) -> None:
    make = partial(makers.dies, lr=0.03)
    apart = several(make, [1, 2], target=TARGET, every=32, epochs=6, label="reference", apart=True, progress=False)
    assert apart.runs[0].process
    assert apart.runs[0].losses.tobytes() == runs.runs[0].losses.tobytes()
    assert apart.runs[0].evaluations[0].figures == runs.runs[0].evaluations[0].figures
    assert "lr=0.03" in apart.runs[0].optimizer
    assert apart.runs[1].error is not None  # a process that dies is an outcome
    assert apart.runs[1].error.kind == "WorkerDied"
    assert [t.reached for t in apart.to_target] == [True, False]


def test_a_trainer_that_cannot_be_made() -> None:
    def make(seed: int, callbacks: Any) -> Any:
        if seed == 2:
            raise InvalidArgument("no such data")
        return makers.make(seed, callbacks)

    found = several(make, [1, 2, 5], steps=1, progress=False)
    assert [run.steps for run in found.runs] == [1, 0, 1]
    assert found.runs[1].error is not None
    with pytest.raises(InvalidArgument, match="no such data"):  # the first of all: nothing is begun yet
        several(make, [2, 1], steps=1, progress=False)


def test_ctrl_c_keeps_finished_runs(tmp_path: Path) -> None:
    def make(seed: int, callbacks: Any) -> Any:
        def interrupt(moment: Moment, index: int, time_ns: int, data: Any) -> None:
            if seed == 3 and moment is Moment.AFTER_STEP and index == 1:
                raise KeyboardInterrupt

        return makers.make(seed, [*callbacks, interrupt])

    found = several(make, [1, 2, 3, 4], target=TARGET, every=32, epochs=6, output=tmp_path, progress=False)
    assert [run.seed for run in found.runs] == [1, 2, 3]
    assert [run.seed for run in found.finished] == [1, 2]
    assert found.success.n == 2
    assert found.path is not None
    again = Runs.load(found.path)
    assert again.record.interrupted
    assert not again.record.complete
    assert len(again.finished) == 2
    assert "interrupted" in again.report()


def test_ctrl_c_while_a_process_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def apart(make: bytes, seed: int, plan: Any, folder: Path) -> Any:
        calls.append(seed)
        if seed == 2:
            raise KeyboardInterrupt
        return several_runs.train(makers.make, seed, plan)

    monkeypatch.setattr("deep_bench.training.runs._apart", apart)
    found = several(makers.make, [1, 2, 3], target=TARGET, steps=2, apart=True, output=tmp_path, progress=False)
    assert calls == [1, 2]
    assert [run.seed for run in Runs.load(found.path).runs] == [1]  # type: ignore[arg-type]


def test_what_cannot_be_begun() -> None:
    for options, message in (
        ({"seeds": [1], "target": TARGET}, "runs without a limit"),
        ({"seeds": [], "steps": 1}, "seeds"),
        ({"seeds": [1, 1], "steps": 1}, "each of them once"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            several(makers.make, progress=False, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="without the callbacks"):
        several(lambda seed, callbacks: makers.make(seed, []), [1], target=TARGET, steps=1, progress=False)
    with pytest.raises(InvalidArgument, match="by samples twice"):
        several(lambda seed, c: makers.make(seed, [*c, EvaluateEvery(8)]), [1], every=8, steps=1, progress=False)
    with pytest.raises(InvalidArgument, match="runs without a target"):
        _ = several(makers.make, [1], steps=1, progress=False).success


def test_a_target_that_is_not_a_score_is_refused_before_the_first_step() -> None:
    with pytest.raises(UnknownName, match=r"unknown score 'acuracy'(.*\n)*.*did you mean 'accuracy'"):
        several(makers.make, [1], target=("acuracy", 0.9), steps=1, progress=False)


def test_runs_without_a_target_have_a_report() -> None:
    found = several(makers.make, [1, 2], steps=2, progress=False)
    text = found.report()
    assert "time to target" not in text
    assert "steps done" in text


def test_several_frameworks_in_one_record(tmp_path: Path) -> None:
    first = several(makers.make, [1, 2], target=TARGET, every=32, epochs=6, label="a", output=tmp_path, progress=False)
    slow = partial(makers.make, lr=1e-9)
    both = several(slow, [1, 2, 3], target=TARGET, every=32, epochs=1, label="b", into=first, progress=False)
    assert both.path == first.path
    again = Runs.load(both.path)  # type: ignore[arg-type]
    assert [run.label for run in again.runs] == ["a", "a", "b", "b", "b"]
    assert [Runs(again.record, label=label).success.reached for label in "ab"] == [2, 0]
    text = again.report()
    assert "a: reached the target: 2 of 2" in text
    assert "b: reached the target: 0 of 3" in text
    for options in ({"label": "b"}, {"label": "c", "target": ("accuracy", 0.5)}, {"label": "c", "target": None}):
        with pytest.raises(InvalidArgument, match="into a record"):
            several(makers.make, [1], steps=1, into=both, **{"target": TARGET, "every": 32, **options})  # type: ignore
    pytest.importorskip("matplotlib")
    assert both.plot(tmp_path / "both.png").exists()


def test_nan_in_scores_and_metrics_is_kept(runs: Runs, tmp_path: Path) -> None:
    copy = runs.record.model_copy(deep=True)
    copy.runs[0].evaluations[0].figures["accuracy"] = float("nan")
    copy.runs[0].losses[:2] = [np.inf, np.nan]
    copy.runs[0].metrics = [copy.runs[0].metrics[0].model_copy(update={"values": (float("nan"), -float("inf"))})]
    again = Runs.load(Runs(copy).save(tmp_path)).runs[0]
    assert np.isnan(again.evaluations[0].figures["accuracy"])
    assert again.losses.tobytes() == copy.runs[0].losses.tobytes()
    assert np.isnan(again.metrics[0].values[0])
    assert again.metrics[0].values[1] == -np.inf


def test_the_picture(runs: Runs, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert runs.plot(tmp_path / "runs.png").stat().st_size > 10_000
    with pytest.raises(InvalidArgument, match="cannot be written"):
        runs.plot(tmp_path / "runs.nothing")


def test_a_run_of_ones_own(tmp_path: Path) -> None:
    trainer = makers.make(1, [TargetReached("loss", 0.2)])
    trainer.run(epochs=3)
    found = recorded(trainer, label="reference")
    assert found.record.target == TargetRecord(score="loss", value=0.2, direction="lower")
    assert found.record.complete
    again = Runs.load(found.save(tmp_path))
    assert again.report() == found.report()
    run = again.runs[0]
    assert run.network is not None
    assert run.network.sha256 == trainer.form.source.sha256  # type: ignore[union-attr]
    assert (run.data["train"]["samples"], run.data["held out"]["samples"]) == (50, 20)
    assert run.data["sampler"]["seed"] == 1
    assert run.every is None
    assert "target: loss ≤ 0.2" in found.report()
    assert recorded(makers.make(1, [])).record.complete is False


def test_one_run_alone() -> None:
    trainer = makers.make(1, [])
    trainer.run(epochs=2)
    run = kept(trainer, label="reference")
    assert run.metrics[0].name == "gradient norm"
    assert len(run.metrics[0].values) == 8
    found = throughput(trainer.history)
    assert found is not None
    assert found.overall == pytest.approx(100 / (trainer.history.step_ns().sum() / 1e9))
    target = TargetRecord(score="loss", value=-1.0, direction="lower")
    assert to_target(run, target).samples == 100


def steps_of(sizes: list[int], ms: list[int]) -> History:
    starts = np.cumsum([0, *ms[:-1]]) * 1_000_000
    stamps = np.stack([starts, *[starts + np.array(ms) * 1_000_000] * 4], axis=1)
    return History(sizes=array("q", sizes), stamps=array("q", stamps.ravel().tolist()))


def test_throughput_is_that_of_whole_batches() -> None:
    found = throughput(steps_of([16, 16, 2] * 40, [2, 2, 1] * 40))
    assert found is not None
    assert found.median == 8000
    assert found.overall == pytest.approx(34 / 5e-3)
    assert found.interval is not None
    assert found.interval.low <= 8000 <= found.interval.high


def test_throughput_of_steps_that_drift_stays_between_its_ends() -> None:
    found = throughput(steps_of([16] * 200, list(range(5, 205))))
    assert found is not None
    assert found.interval is not None
    assert 16 / 0.204 <= found.interval.low < found.median < found.interval.high <= 16 / 0.005


@pytest.mark.parametrize("on", ["reference", "torch"])
def test_determinism_holds_where_it_is_promised(on: str) -> None:
    if on != "reference":
        pytest.importorskip(on)
    one, two = (makers.make(7, [], on) for _ in range(2))
    assert one.run(epochs=2).losses == two.run(epochs=2).losses
    for path, value in leaves(one.snapshot()["step"]).items():
        assert np.asarray(value).tobytes() == np.asarray(leaves(two.snapshot()["step"])[path]).tobytes()
    found = kept(one, label=on).determinism
    assert found.same_again == "bitwise"
    assert found.seeds == {"draws": 7, "sampler": 7}


@pytest.mark.parametrize("on", ["reference", "onnxruntime"])
def test_the_optimizer_is_in_the_record_also_where_it_is_in_the_graph(on: str) -> None:
    if on != "reference":
        pytest.importorskip(on)
    assert kept(small.trainer(on), label=on).optimizer == repr(db.optimizers["adam"](lr=0.03))


def test_what_is_not_deterministic_is_said() -> None:
    limited = makers.make(1, [TimeLimit(100)])
    found = kept(limited, label="reference").determinism
    assert found.same_again == "not promised"
    assert any("time limit" in remark for remark in found.remarks)
    other = kept(makers.make(1, []), label="tensorflow").determinism
    assert other.same_again == "not promised"
    assert other.remarks[0].startswith("tensorflow: it does not promise")
