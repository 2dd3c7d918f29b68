"""Hyperparameters in logs are those of what ran: what nobody tells is asked for, what is known is not stated otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.mlperf.training.callback import MlperfLog, kept_caches
from deep_bench.mlperf.training.hyperparameters import hyperparameters, of_optimizer
from deep_bench.mlperf.training.logs import Submission, read_log
from deep_bench.mlperf.training.runs import planned
from deep_bench.training.compose import accumulate
from deep_bench.training.optimizer import Optimizer
from deep_bench.training.recipes import Recipe
from deep_bench.training.workload import train


def mlperf_log(path: Path, **options: Any) -> MlperfLog:
    return MlperfLog(path, Submission("digits-mlp"), clear=kept_caches, **options)


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
    monkeypatch.setattr("deep_bench.mlperf.training.hyperparameters.optimizers", {"adam": lambda **_: Native("SGD", lr)})
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


def test_what_nobody_tells_is_asked_for(recipe: Recipe) -> None:
    trainer = train(recipe, on="reference")
    trainer.loader.sampler = object()  # type: ignore[assignment]
    with pytest.raises(InvalidArgument, match="does not tell its batch size"):
        hyperparameters(trainer)
    assert hyperparameters(trainer, {"global_batch_size": 7})["micro_batch_size"] == 7
    trainer.taker.device = object()
    with pytest.raises(InvalidArgument, match="the precision that nobody tells of a framework"):
        hyperparameters(trainer, {"global_batch_size": 7})
    found = hyperparameters(trainer, {"global_batch_size": 7, "precision": "tf32"})
    assert found["lowest_numerical_precision_in_attn"] == "tf32"
    assert "precision" not in found


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        ({"global_batch_size": 7}, "global_batch_size stated as 7, which is 64"),
        ({"opt_name": "sgd"}, "opt_name stated as sgd, which is adam"),
        ({"opt_base_learning_rate": 5}, "opt_base_learning_rate stated as 5, which is 0.002"),
        ({"opt_momentum": 0.9}, "opt_momentum stated of adam, which has none"),
        ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps stated as 2, which is 1"),
        ({"tensor_parallelism": 8}, "tensor_parallelism stated as 8, which is 1"),
        ({"global_batch_size": "many"}, "a whole number above 0"),
    ],
)
def test_what_is_known_is_not_stated_otherwise(stated: dict[str, Any], why: str, recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=why):
        planned(recipe, "reference", seeds=[0], output=tmp_path / "lab", hyperparameters=stated)
    assert not (tmp_path / "lab").exists()


def test_what_is_stated_as_it_is_changes_nothing(recipe: Recipe) -> None:
    trainer = train(recipe, on="reference")
    known = hyperparameters(trainer)
    assert hyperparameters(trainer, {"global_batch_size": 64, "precision": "fp32", "opt_adam_correct_bias": "true"}) == known
    for stated in ({"precision": "fp8"}, {"micro_batch_size": 32}, {"lowest_numerical_precision_in_comm": "int8"}):
        with pytest.raises(InvalidArgument, match=f"{next(iter(stated))} stated as"):
            hyperparameters(trainer, stated)
    scheduled = recipe.changed("optimizer.schedule={name: cosine, warm_up: 5}")
    with pytest.raises(InvalidArgument, match=r"opt_base_learning_rate stated as 0\.1"):
        planned(scheduled, "reference", seeds=[0], output="nowhere", hyperparameters={"opt_base_learning_rate": 0.1})
