"""Trainings against the oracle's: right ones are right for as long as that can be told, wrong ones are caught."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.training.form import training_form
from deep_bench.training.steps import SeparateStep, StepTaker, step_on
from deep_bench.training.validation import Chaos, Distance, Trained, Validation, batches_of, validate_training
from tests.training import small

ADAM = db.optimizers["adam"](lr=0.03)


def batches() -> Any:
    from deep_bench.training.loader import Loader

    points = small.data()
    return batches_of(Loader(points, db.samplers["shuffled"](points, batch_size=16, seed=2)))


def validated(on: Any, steps: int = 6, optimizer: Any = ADAM, **options: Any) -> Validation:
    return validate_training(small.network(), optimizer, batches(), on, steps=steps, samples=4, **options)


def one(optimizer: Any, on: str = "reference", **options: Any) -> StepTaker[Any]:
    return step_on(db.frameworks[on](), training_form(small.network()), optimizer, **options)


@pytest.mark.parametrize("on", list(db.frameworks))
def test_frameworks_take_the_right_steps(on: str) -> None:
    if missing := db.frameworks.missing(on):
        pytest.skip(f"{', '.join(missing)} is not installed")
    found = validated([on], steps=8)
    assert found.ok
    assert found[on].word == "right"
    assert found.parts is None
    assert found.chaos[0].drowned == ("b1",), "a bias before a normalization has no gradient but rounding"


WRONG = {
    "another rate": db.optimizers["adam"](lr=0.0301),
    "another beta1": db.optimizers["adam"](lr=0.03, beta1=0.89),
    "another beta2": db.optimizers["adam"](lr=0.03, beta2=0.9),
    "another rule": db.optimizers["momentum"](lr=0.03),
}


@pytest.mark.long
@pytest.mark.parametrize("wrong", WRONG)
def test_another_update_is_wrong(wrong: str) -> None:
    found = validated({"wrong": one(WRONG[wrong])})
    assert found["wrong"].word == "wrong"
    assert found["wrong"].first is not None
    assert found["wrong"].first <= 3
    assert "rounding explains" in found["wrong"].reason


class Scaled(SeparateStep[Any]):
    """Gradients of one parameter are slightly too large."""

    def __call__(self, inputs: Any, told: Any = None) -> Any:
        plain = self.executor.gradients

        def off(*arguments: Any, **options: Any) -> Any:
            outputs, gradients = plain(*arguments, **options)
            return outputs, {n: g * np.float32(1.001 if n == "w2" else 1) for n, g in gradients.items()}

        self.executor.gradients = off  # type: ignore[method-assign]
        try:
            return super().__call__(inputs, told)
        finally:
            self.executor.gradients = plain  # type: ignore[method-assign]


def test_a_gradient_that_is_nearly_right_is_wrong() -> None:
    form, sgd = training_form(small.network()), db.optimizers["sgd"](lr=0.1)
    executor = db.frameworks["reference"]().prepare(form.training, mode="train")
    found = validated({"scaled": Scaled(executor, sgd, form=form)}, optimizer=sgd)
    assert found["scaled"].word == "wrong"


def test_an_update_forgotten_once_is_wrong_from_that_step_on() -> None:
    step = one(db.optimizers["sgd"](lr=0.1))
    plain, calls = step.snapshot, iter(range(10))
    del plain

    class Forgetful(StepTaker[Any]):
        device, loss = step.device, step.loss

        def __call__(self, inputs: Any, told: Any = None) -> Any:
            before = step.snapshot()
            outputs = step(inputs, told)
            if next(calls) == 3:
                step.restore(before)
            return outputs

        parameters = property(lambda _: step.parameters)
        statistics = property(lambda _: step.statistics)
        snapshot, restore = step.snapshot, step.restore

    found = validated({"forgetful": Forgetful()}, optimizer=db.optimizers["sgd"](lr=0.1))
    assert (found["forgetful"].word, found["forgetful"].first) == ("wrong", 4)


def test_where_rounding_parts_the_trajectories_nothing_is_told() -> None:
    """Lion takes the sign of what is nearly zero: at a large rate, rounding soon decides."""
    found = validated(["reference"], steps=32, optimizer=db.optimizers["lion"](lr=0.5))
    assert found.parts is not None
    assert found["reference"].word in ("right", "no information")
    assert f"From step {found.parts} on" in str(found)


def test_it_is_shown_and_kept(tmp_path: Path) -> None:
    found = validated(["reference"], steps=3)
    assert "reference" in str(found)
    assert "rounding alone" in found.about_chaos()
    kept = json.loads(found.save(tmp_path / "found.json").read_text())
    assert len(kept["systems"][0]["distances"]) == 3
    pytest.importorskip("matplotlib")
    assert found.plot(tmp_path / "found.png").stat().st_size > 5000


def test_the_worst_that_is_shown_is_from_before_trajectories_part() -> None:
    distances = tuple(Distance(n, "w", 1.0, 1.0, ratio, 0.5) for n, ratio in ((1, 0.5), (2, 2.0), (3, 90.0)))
    trained = Trained("torch", "right", "", None, distances)
    found = Validation((trained,), tuple(Chaos(n, 0.1 * n, ()) for n in (1, 2, 3)), 3, 8)
    assert " 2 " in str(found)
    assert "90" not in str(found)


def spoilt(begin: int, value: float = float("nan")) -> Any:
    """Batches with one number that is not finite, from one of them on."""
    for number, batch in enumerate(batches()):
        x = np.array(batch["x"])
        x[0, 0] = value if number >= begin else x[0, 0]
        yield {**batch, "x": x}


@pytest.mark.parametrize("on", ["reference", "torch:threads=1", "onnxruntime:threads=1"])
def test_where_nothing_is_finite_nothing_is_told(on: str) -> None:
    if missing := db.frameworks.missing(on.partition(":")[0]):
        pytest.skip(f"{', '.join(missing)} is not installed")
    for value in (float("nan"), float("inf")):
        found = validate_training(small.network(), ADAM, spoilt(0, value), [on], steps=2, samples=2)
        assert (found.ok, found[on].word, found.lost) == (True, "no information", 1), found.table()
        assert found[on].reason == "the loss or the data are not finite from step 1 on"
    later = validate_training(small.network(), ADAM, spoilt(2), [on], steps=4, samples=4)
    assert (later[on].word, later.lost) == ("right", 3), later.table()
    assert "From step 3 on neither the oracle's loss" in str(later)


class Spoilt(SeparateStep[Any]):
    """One element of a parameter is set after each step."""

    value = float("nan")

    def __call__(self, inputs: Any, told: Any = None) -> Any:
        outputs = super().__call__(inputs, told)
        spoilt = np.array(self.executor.parameters["w2"])
        spoilt[0, 0] = self.value
        self.executor.parameters["w2"] = spoilt
        return outputs


def test_what_is_finite_in_one_only_is_wrong_and_told(tmp_path: Path) -> None:
    form, adapter = training_form(small.network()), db.frameworks["reference"]()
    step = Spoilt(adapter.prepare(form.training, mode="train"), ADAM, form=form)
    found = validated({"lacking": step}, steps=1)["lacking"]
    assert (found.word, found.first) == ("wrong", 1)
    assert found.reason == "after step 1, w2 is not finite in 1 of 24 elements where the oracle's is"
    step = Spoilt(adapter.prepare(form.training, mode="train"), ADAM, form=form)
    step.value = 0.0
    both = validate_training(small.network(), ADAM, spoilt(0), {"beyond": step}, steps=1, samples=2)
    assert both["beyond"].reason == "after step 1, w2 is finite in 1 of 24 elements where the oracle's is not"
    pytest.importorskip("matplotlib")
    assert both.plot(tmp_path / "found.png").stat().st_size > 5000


def test_what_cannot_be_validated() -> None:
    with pytest.raises(InvalidArgument, match="at least one framework"):
        validated([])
    with pytest.raises(InvalidArgument, match="at least 1 and 2"):
        validate_training(small.network(), ADAM, batches(), ["reference"], samples=1)
    with pytest.raises(InvalidArgument, match=r"steps 2\.5"):
        validated(["reference"], steps=2.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="no batches"):
        validate_training(small.network(), ADAM, [], ["reference"])
