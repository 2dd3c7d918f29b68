"""The log that the callback writes: in order, whole only if the run was a success, and aborted or not ended otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.events import Moment
from deep_bench.mlperf.training.caches import Cleared, clear_caches, kept_caches
from deep_bench.mlperf.training.callback import MlperfLog
from deep_bench.mlperf.training.check import faults
from deep_bench.mlperf.training.events import Log, read_log
from deep_bench.mlperf.training.examine import examined
from deep_bench.mlperf.training.hyperparameters import hyperparameters
from deep_bench.mlperf.training.optimizer import of_optimizer
from deep_bench.mlperf.training.runs import Timed, planned
from deep_bench.mlperf.training.submission import Submission
from deep_bench.mlperf.training.writer import RunLog, close_unfinished
from deep_bench.training.compose import accumulate
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.recipes import Recipe
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
    assert (closed.status, closed.reason) == ("aborted", "its process was killed")
    assert "it is no JSON, or cut off" in faults(closed)[0]
    assert not close_unfinished(path, "again")
    assert not close_unfinished(tmp_path / "nothing", "none")


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


def test_hyperparameters_are_those_of_the_optimizer_and_all_around_it(recipe: Recipe) -> None:
    changed = recipe.changed(
        "optimizer.name=adamw",
        "optimizer.weight_decay=0.1",
        "optimizer.schedule={name: cosine, warm_up: 5, last: 0.0001}",
        "chain=[{name: clip-norm, limit: 2.0}, {name: accumulate, steps: 4}]",
    )
    found = hyperparameters(train(changed, on="reference", seed=1))
    wanted = {
        "opt_name": "adamw",
        "opt_base_learning_rate": 0.002,
        "opt_adamw_weight_decay": 0.1,
        "opt_adamw_beta_1": 0.9,
        "opt_learning_rate_warmup_steps": 5,
        "opt_learning_rate_decay_schedule": "cosine",
        "opt_end_learning_rate": 0.0001,
        "opt_gradient_clip_norm": 2.0,
        "gradient_accumulation_steps": 4,
        "global_batch_size": 256,
        "micro_batch_size": 64,
        "lowest_numerical_precision_in_linear": "fp32",
    }
    assert {key: found[key] for key in wanted} == wanted


def test_an_optimizer_that_is_part_of_one_graph_has_its_name_and_settings(recipe: Recipe) -> None:
    changed = recipe.changed("chain=[{name: clip-norm, limit: 2.0}]")
    fused = train(changed, on="reference", seed=1, fused=True)
    assert not fused.taker.tells_gradients
    assert hyperparameters(fused) == hyperparameters(train(changed, on="reference", seed=1))


@dataclass(frozen=True)
class Native(Optimizer[Any, Any]):
    """As those of frameworks are."""

    kind: str
    lr: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    framework = "torch"  # type: ignore[assignment]
    init = update = None  # type: ignore[assignment]


def test_optimizers_of_frameworks_have_their_own_names_and_settings() -> None:
    found = of_optimizer(accumulate(2)(Native("AdamW", 0.1, {"betas": (0.8, 0.9), "eps": 1e-8, "weight_decay": 0.2})))
    assert found == {
        "gradient_accumulation_steps": 2,
        "opt_name": "adamw",
        "opt_base_learning_rate": 0.1,
        "opt_adamw_beta_1": 0.8,
        "opt_adamw_beta_2": 0.9,
        "opt_adamw_epsilon": 1e-8,
        "opt_adamw_weight_decay": 0.2,
    }


@pytest.mark.parametrize("lr", [None, lambda steps, xp: 0.1])
def test_a_learning_rate_that_nobody_tells_is_asked_for_before_anything_is_made(
    lr: Any, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_bench.mlperf.training.runs.optimizers", {"adam": lambda **_: Native("SGD", lr)})
    with pytest.raises(InvalidArgument, match="sgd with a learning rate that nobody tells"):
        planned(recipe, "reference", seeds=[0], output=tmp_path / "lab")
    assert not (tmp_path / "lab").exists()
    stated = {"opt_base_learning_rate": 0.1}
    timed = planned(recipe, "reference", seeds=[0], output=tmp_path / "lab", hyperparameters=stated, clear=kept_caches)
    assert timed.hyperparameters == stated


def test_a_step_that_does_not_tell_its_optimizer_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    log = mlperf_log(tmp_path / "log")
    trainer = train(recipe, on="reference", callbacks=[log])
    trainer.taker.rule = None
    with pytest.raises(InvalidArgument, match="does not tell its optimizer"):
        trainer.run(epochs=1)
    assert trainer.history.steps == 0
    assert read_log(log.path).status == "aborted"


def test_what_is_stated_is_a_hyperparameter(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'precision'"):
        planned(recipe, "reference", seeds=[0], output=tmp_path / "lab", hyperparameters={"presicion": "fp32"})
    assert not (tmp_path / "lab").exists()


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


def test_what_nobody_tells_is_asked_for(recipe: Recipe) -> None:
    trainer = train(recipe, on="reference")
    trainer.loader.sampler = object()  # type: ignore[assignment]
    with pytest.raises(InvalidArgument, match="does not tell its batch size"):
        hyperparameters(trainer)
    assert hyperparameters(trainer, {"global_batch_size": 7, "precision": "tf32"})["micro_batch_size"] == 7
