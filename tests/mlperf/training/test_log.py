"""The log that the callback writes: in order, whole only if the run was a success, and aborted or not ended otherwise."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import InvalidArgument, WorkerDied
from deep_bench.events import Moment
from deep_bench.mlperf.training.callback import Cleared, MlperfLog, clear_caches, kept_caches
from deep_bench.mlperf.training.check import examined, faults, scored
from deep_bench.mlperf.training.logs import Log, RunLog, Submission, close_unfinished, read_log
from deep_bench.mlperf.training.runs import Timed, planned
from deep_bench.training.recipes import Recipe
from deep_bench.training.record import RunRecord
from deep_bench.training.runs import RunPlan
from deep_bench.training.runs import train as train_once
from deep_bench.training.workload import train


def mlperf_log(path: Path, **options: Any) -> MlperfLog:
    return MlperfLog(path, Submission("digits-mlp"), clear=kept_caches, **options)


def run(recipe: Recipe, log: MlperfLog, *others: Any, **ends: Any) -> Log:
    train(recipe, on="reference", seed=0, callbacks=[log, *others]).run(**ends)
    return read_log(log.path)


def test_events_come_in_the_order_of_the_rules(made: Timed) -> None:
    log = read_log(made.layout.log(0))
    keys = [event.key for event in log.events]
    assert keys[:9] == [
        "submission_benchmark",
        "submission_division",
        "submission_org",
        "submission_platform",
        "submission_status",
        "cache_clear",
        "init_start",
        "init_stop",
        "run_start",
    ]
    loop = [key for key in keys if key.startswith(("epoch_", "block_", "eval_s", "eval_a")) and key != "eval_samples"]
    assert loop[:6] == ["block_start", "epoch_start", "block_stop", "eval_start", "eval_accuracy", "eval_stop"]
    assert loop[6] == "block_start"
    assert loop[-5:] == ["block_stop", "eval_start", "eval_accuracy", "eval_stop", "epoch_stop"]
    assert keys[-1] == "run_stop"
    assert log.status == "success"
    assert faults(log) == []


def test_a_log_says_who_what_and_how(made: Timed) -> None:
    log = read_log(made.layout.log(1))
    assert [log.value(f"submission_{key}") for key in ("org", "platform", "status", "division")] == [
        "A lab",
        "Box 1",
        "research",
        "open",
    ]
    assert "no benchmark of MLPerf" in log.all("submission_benchmark")[0].metadata["note"]
    assert (log.value("seed"), log.value("global_batch_size"), log.value("opt_base_learning_rate")) == (1, 64, 0.002)
    assert (log.value("train_samples"), log.value("eval_samples"), log.value("eval_target")) == (1442, 355, 0.9)
    assert log.value("cache_clear") is False
    assert log.all("cache_clear")[0].metadata["how"] == "not asked for"
    assert all("/" not in event.metadata["file"].partition("/")[0] for event in log.events)
    assert {event.metadata["file"].split("/")[0] for event in log.events} == {"deep_bench"}


def test_epochs_count_from_one_and_samples_as_seen(recipe: Recipe, tmp_path: Path) -> None:
    log = run(recipe.changed("evaluation.every=0", "target.accuracy=1.0"), mlperf_log(tmp_path / "log"), epochs=2)
    assert [event.metadata["epoch_num"] for event in log.all("epoch_start")] == [1, 2]
    assert [event.metadata["epoch_num"] for event in log.all("eval_accuracy")] == [1, 2]
    assert [event.metadata["samples_count"] for event in log.all("eval_accuracy")] == [1442, 2884]
    keys = [event.key for event in log.events]
    first = keys.index("eval_start")
    assert keys[first - 2 : first] == ["epoch_stop", "block_stop"]
    assert keys[first + 3 : first + 5] == ["block_start", "epoch_start"]


def test_evaluations_amid_epochs_are_parts_of_epochs(made: Timed) -> None:
    log = read_log(made.layout.log(0))
    first = log.all("eval_accuracy")[0].metadata
    assert (first["samples_count"], first["epoch_num"]) == (256, pytest.approx(256 / 1442, abs=1e-6))


def test_a_run_that_misses_its_target_is_aborted(recipe: Recipe, tmp_path: Path) -> None:
    log = run(recipe.changed("target.accuracy=1.0"), mlperf_log(tmp_path / "log"), epochs=1)
    assert (log.status, log.reason) == ("aborted", "epochs done")
    assert faults(log) == []


def test_a_run_that_diverges_is_aborted(recipe: Recipe, tmp_path: Path) -> None:
    log = mlperf_log(tmp_path / "log")
    bad = recipe.changed("optimizer={name: sgd, lr: 1.0e30}")
    history = train(bad, on="reference", seed=0, callbacks=[log]).run(epochs=1)
    assert history.lost_from is not None
    assert read_log(log.path).status == "aborted"
    assert faults(read_log(log.path)) == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RuntimeError("no more memory"), "RuntimeError: no more memory"), (KeyboardInterrupt(), "interrupted")],
)
def test_a_run_that_breaks_off_is_aborted(error: BaseException, reason: str, recipe: Recipe, tmp_path: Path) -> None:
    def fail(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_STEP and index == 5:
            raise error

    log = mlperf_log(tmp_path / "log")
    trainer = train(recipe, on="reference", seed=0, callbacks=[log, fail])
    if isinstance(error, KeyboardInterrupt):
        trainer.run(epochs=1)
    else:
        with pytest.raises(RuntimeError):
            trainer.run(epochs=1)
    found = read_log(log.path)
    assert (found.status, found.reason) == ("aborted", reason)
    assert faults(found) == []


def test_an_error_after_the_target_is_no_success(recipe: Recipe, tmp_path: Path) -> None:
    def fail(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_EVALUATION and data.evaluated.figures["accuracy"] >= 0.9:
            raise OSError("no space for the checkpoint")

    log = mlperf_log(tmp_path / "log")
    trainer = train(recipe, on="reference", seed=0, callbacks=[log, fail])
    with pytest.raises(OSError, match="no space"):
        trainer.run(epochs=20)
    assert read_log(log.path).status == "aborted"


def test_success_is_withheld_if_the_log_is_not_as_it_should_be(recipe: Recipe, tmp_path: Path) -> None:
    log = mlperf_log(tmp_path / "log")
    log._run.event("seed", 7)
    found = run(recipe, log, epochs=20)
    assert found.status == "aborted"
    assert "the target was reached, but the log is not as it should be: seed comes 2 times" in found.reason


def test_what_fails_before_it_begins_is_aborted(recipe: Recipe, tmp_path: Path) -> None:
    bad = recipe.changed("network.hidden=[64]", "data.split.train=nothing")
    timed = planned(bad, "reference", seeds=[3], output=tmp_path, clear=kept_caches)
    with pytest.raises(InvalidArgument):
        timed.run(progress=False)
    found = read_log(timed.layout.log(0))
    assert found.status == "aborted"
    assert faults(found) == []


def test_a_with_statement_ends_what_never_ran(tmp_path: Path) -> None:
    with mlperf_log(tmp_path / "log") as log:
        pass
    assert read_log(log.path).reason == "the program went on without it"


def test_the_log_of_a_killed_run_does_not_look_whole_and_can_be_closed(recipe: Recipe, tmp_path: Path) -> None:
    """What another process finds in the file amid a step is what a killed one leaves."""
    path = tmp_path / "result_0.txt"

    def killed(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_STEP and index == 5:
            shutil.copyfile(log.path, path)

    log = mlperf_log(tmp_path / "log")
    run(recipe, log, killed, steps=6)
    left = read_log(path)
    assert (left.status, left.events[-1].key) == ("not ended", "block_start")  # the one after an evaluation
    assert "no run_stop: the run did not end, or was killed" in faults(left)
    path.write_text(path.read_text() + ':::MLLOG {"namespace": "", "time_')  # the kernel may cut a line
    assert close_unfinished(path, "its process was killed")
    closed = read_log(path)
    assert (closed.status, closed.reason) == ("aborted", "its process was killed; the time is that of its last sign of life")
    assert closed.events[-1].time_ms == left.events[-1].time_ms
    assert "it is no JSON, or cut off" in faults(closed)[0]
    assert not close_unfinished(path, "again")
    assert not close_unfinished(tmp_path / "nothing", "none")


def test_the_log_of_a_killed_run_is_closed_before_the_next_run_begins(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = recipe.changed("target.accuracy=0.3")
    timed = planned(soon, "reference", seeds=[0, 1], output=tmp_path, clear=kept_caches)
    seen: list[Log] = []

    def killed(make: Any, seed: int, plan: RunPlan) -> RunRecord:
        if seed == 0:
            log = next(c for c in make(seed, plan.callbacks()).callbacks if isinstance(c, MlperfLog))
            log._run._handler.close()
            seen.append(read_log(timed.layout.log(0)))
            raise WorkerDied("the run of seed 0 was ended by SIGKILL")
        seen.append(read_log(timed.layout.log(0)))
        return train_once(make, seed, plan)

    monkeypatch.setattr("deep_bench.training.runs.train", killed)
    timed.run(progress=False)
    left, closed = seen
    assert (left.status, closed.status) == ("not ended", "aborted")
    assert closed.events[-1].time_ms == left.events[-1].time_ms
    assert closed.reason == "the run of seed 0 was ended by SIGKILL; the time is that of its last sign of life"
    (found,) = scored(timed.layout.results)
    assert [time is None for time in found.times] == [True, False]


def test_a_full_disk_is_told_as_such(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handler: logging.FileHandler) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    timed = planned(recipe, "reference", seeds=[0], output=tmp_path, clear=kept_caches)
    monkeypatch.setattr("deep_bench.mlperf.training.logs._LogFile.flush", full)
    with pytest.raises(InvalidArgument, match=r"cannot write the log .*result_0\.txt: No space left on device"):
        timed.run(progress=False)


def test_a_worker_that_is_killed_leaves_an_aborted_log(recipe: Recipe, tmp_path: Path) -> None:
    timed = planned(recipe, "deep_bench.adapters.nothing:Here", seeds=[0], output=tmp_path, clear=kept_caches)
    with pytest.raises(Exception, match="nothing"):
        timed.run(progress=False)
    assert read_log(timed.layout.log(0)).status == "aborted"


def test_logs_are_never_written_over(made: Timed, recipe: Recipe) -> None:
    with pytest.raises(InvalidArgument, match="is there already"):
        planned(recipe, "reference", seeds=[9], output=made.layout.root, facts=made.facts)
    with pytest.raises(InvalidArgument, match="never written over"):
        RunLog(made.layout.log(0))


def test_a_run_without_a_target_or_from_amid_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    trainer = train(recipe, on="reference", stop_at_target=False, callbacks=[mlperf_log(tmp_path / "a")])
    with pytest.raises(InvalidArgument, match="without a target"):
        trainer.run(steps=1)
    log = mlperf_log(tmp_path / "b", target=("accuracy", 1.0))
    trainer = train(recipe, on="reference", stop_at_target=False, callbacks=[log])
    trainer.run(steps=1)
    with pytest.raises(InvalidArgument, match="a run from its beginning"):
        trainer.run(steps=2)


def test_recipes_that_cannot_be_are_refused_before_anything_is_written(recipe: Recipe, tmp_path: Path) -> None:
    for bad, options, why in (
        (recipe.changed("target={}"), {}, "without a target"),
        (recipe.changed("name=resnet"), {}, "as a benchmark of MLPerf is"),
        (recipe, {"benchmark": "../up"}, "the benchmark"),
        (recipe, {"seeds": [1, 1]}, "seeds"),
        (recipe, {"facts": {"colling": "air"}}, "did you mean 'cooling'"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            planned(bad, "reference", **{"seeds": [0], "output": tmp_path / "x", **options})
    assert not (tmp_path / "x").exists()


def test_caches_are_cleared_where_that_is_permitted(tmp_path: Path) -> None:
    file = tmp_path / "drop_caches"
    assert clear_caches(file) == Cleared(True, "page cache, dentries and inodes of this machine")
    assert file.read_text() == "3"
    assert not clear_caches(tmp_path / "no folder" / "drop_caches").done


def test_an_aborted_log_says_as_much_as_a_success_once_training_began(log_lines: list[str], tmp_path: Path) -> None:
    """So that a log whose run was aborted at its end for what it lacks is no good log."""
    kept = [line for line in log_lines if '"key": "opt_name"' not in line]
    path = tmp_path / "result_0.txt"
    path.write_text("\n".join(kept).replace('"status": "success"', '"status": "aborted"'), encoding="utf-8")
    assert faults(read_log(path)) == ["no opt_name"]
    (found,) = examined(path)
    assert (found.fine, found.passed) == (False, True)
    assert list(found.lines())[1:3] == [
        "  no opt_name",
        f"  the run was aborted: {read_log(path).reason}",
    ]
    begun = next(i for i, line in enumerate(kept) if '"key": "block_start"' in line)
    path.write_text("\n".join([*kept[:begun], kept[-1]]).replace('"success"', '"aborted"'), encoding="utf-8")
    assert faults(read_log(path)) == []
