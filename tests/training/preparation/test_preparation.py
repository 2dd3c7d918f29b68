"""Pipelines: the same for a sample wherever it comes, plain data, and refused where they are wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import FrameworkMissing, InvalidArgument, InvalidData, UnknownName
from deep_bench.training.loader import Loader
from deep_bench.training.preparation import STEPS, Draws, Preparation, philox
from deep_bench.training.samplers import Shuffled

CHANCE: list[dict[str, Any]] = [
    {"step": "scale", "divisor": 255.0},
    {"step": "flip", "layout": "CHW"},
    {"step": "flip", "direction": "vertical", "probability": 0.3, "layout": "CHW"},
    {"step": "random_crop", "size": [5, 6], "padding": 2, "mode": "reflect", "layout": "CHW"},
    {"step": "brightness", "most": 0.4},
    {"step": "noise", "std": 0.1},
]
ONE_OF_EACH: dict[str, dict[str, Any]] = {
    "argmax": {},
    "brightness": {"most": 0.1},
    "cast": {"dtype": "bfloat16"},
    "colour": {"source": "RGB", "into": "BGR", "layout": "HWC"},
    "crop": {"size": [2, 3], "at": [1, 0], "layout": "CHW"},
    "decode": {"mode": "L"},
    "flip": {"probability": 0.25, "layout": "CHW"},
    "layout": {"source": "HWC", "into": "CHW"},
    "noise": {"std": 0.5},
    "normalise": {"mean": [0.5], "std": [0.25], "layout": "CHW"},
    "offset": {"add": -1},
    "one_hot": {"classes": 10},
    "random_crop": {"size": [4, 4], "padding": 1, "fill": 0.5, "layout": "CHW"},
    "rename": {"into": "input"},
    "resize": {"size": 32, "method": "bicubic", "layout": "HWC"},
    "scale": {"factor": 2.0},
    "top_k": {"k": 3},
}


def images(count: int = 12) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 3, 8, 9)).astype(np.uint8)


@given(
    numbers=st.lists(st.integers(0, 2**40), min_size=1, max_size=12),
    seed=st.integers(0, 2**65),
    epoch=st.integers(0, 50),
)
def test_a_sample_comes_out_the_same_in_any_batch(numbers: list[int], seed: int, epoch: int) -> None:
    prepare = Preparation(CHANCE, seed=seed)
    pixels, whole = images(len(numbers)), np.array(numbers)
    together = prepare({"image": pixels}, whole, epoch)["image"]
    for row in range(len(numbers)):
        alone = prepare({"image": pixels[row : row + 1]}, whole[row : row + 1], epoch)["image"]
        assert np.array_equal(alone[0], together[row])


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 1, "processes": True}])
def test_a_sample_comes_out_the_same_from_any_worker(options: dict[str, Any]) -> None:
    digits = db.datasets["digits"]("test")
    prepare = Preparation(
        [{"step": "random_crop", "size": [8, 8], "padding": 1, "layout": "CHW"}, {"step": "noise", "std": 0.1}], seed=3
    )
    numbers = np.arange(len(digits))
    expected = prepare(digits[numbers], numbers, 2)["image"]
    with Loader(digits, Shuffled(digits, 50), preparation=prepare, **options) as loader:
        for chosen, batch in loader.epoch(2):
            assert np.array_equal(batch["image"], expected[chosen])


def test_epoch_seed_and_place_of_the_step_change_what_is_drawn() -> None:
    numbers = np.arange(12)

    def drawn(steps: list[dict[str, Any]], seed: int, epoch: int) -> bytes:
        return Preparation(steps, seed=seed)({"image": images()}, numbers, epoch)["image"].tobytes()

    twice = [CHANCE[0], CHANCE[1], CHANCE[1]]
    assert len({drawn(CHANCE, 0, 0), drawn(CHANCE, 1, 0), drawn(CHANCE, 0, 1)}) == 3
    assert drawn(twice, 0, 0) != drawn([CHANCE[0]], 0, 0)  # two flips drawn alike would undo each other


def test_images_of_different_sizes_are_drawn_as_those_of_one_size_are() -> None:
    same = images()
    mixed = np.empty(13, object)
    mixed[:] = [*same, np.zeros((3, 20, 30), np.uint8)]
    steps = [CHANCE[1], {"step": "random_crop", "size": [5, 6], "layout": "CHW"}]
    one, other = (Preparation(steps)({"image": x}, np.arange(len(x)))["image"] for x in (same, mixed))
    assert other.shape == (13, 3, 5, 6)
    assert np.array_equal(one, other[:12])


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0,) * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_answers_its_authors_publish(counter: tuple[int, ...], key: tuple[int, int], words: str) -> None:
    assert " ".join(f"{word:08x}" for word in philox(np.array(counter, np.uint64), key).tolist()) == words


def test_draws_have_their_distributions() -> None:
    from scipy.stats import kstest

    draws = Draws(1, 2, 3, np.arange(2000))
    uniform, normal = draws.uniform(7).ravel(), draws.normal(7).ravel()
    assert kstest(uniform, "uniform").pvalue > 1e-3
    assert kstest(normal, "norm").pvalue > 1e-3
    columns = np.corrcoef(draws.uniform(8), rowvar=False) - np.eye(8)
    assert abs(columns).max() < 5 / np.sqrt(2000)
    assert uniform.min() > 0
    assert uniform.max() < 1


@pytest.mark.parametrize("name", STEPS)
def test_every_step_is_plain_data(name: str) -> None:
    made = Preparation([{"step": name, **ONE_OF_EACH[name]}], seed=5)
    plain = json.loads(json.dumps(made.to_json()))
    again = Preparation.from_json(plain)
    assert again.steps == made.steps
    assert again.to_json() == plain
    assert again.seed == 5
    assert set(plain["steps"][0]) == {"step", *STEPS[name].model_fields}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"step": "resize", "size": [0, 3], "layout": "HWC"}, r"step 1 \(resize\): size: \[0, 3\]"),
        ({"step": "resize", "size": 3, "layout": "HWC", "methd": "box"}, "methd: Extra inputs"),
        ({"step": "resize", "size": 3, "layout": "HWC", "method": "cubic"}, "method: Input should be 'nearest'"),
        ({"step": "resize", "size": 3}, "layout: Field required"),
        ({"step": "crop", "size": [3, True], "layout": "HW"}, "size"),
        ({"step": "crop", "size": [3, 3], "at": "center", "layout": "HW"}, "at: 'center' is not 'centre'"),
        ({"step": "scale", "divisor": 0}, "divisor must not be 0"),
        ({"step": "scale", "factor": float("nan")}, "factor"),
        ({"step": "noise", "std": "3"}, "std"),
        ({"step": "noise", "std": -1}, "std"),
        ({"step": "flip", "probability": 1.5, "layout": "HW"}, "probability"),
        ({"step": "cast", "dtype": "float31"}, "'float31' is no type of numbers"),
        ({"step": "cast", "dtype": "str"}, "'str' is no type of numbers"),
        ({"step": "normalise", "mean": [0.0], "std": [0.0], "layout": "HW"}, r"std\.0"),
        ({"step": "normalise", "mean": [0.0], "std": [1.0, 1.0], "layout": "CHW"}, "1 means and 2"),
        ({"step": "normalise", "mean": [0.0, 0.0], "std": [1.0, 1.0], "layout": "HW"}, "one channel"),
        ({"step": "one_hot", "classes": 0}, "classes"),
        ({"size": 3}, "name of a step"),
        ("flip", "name of a step"),
    ],
)
def test_wrong_parameters_are_refused_by_name_when_built(step: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Preparation([step])


def test_unknown_steps_and_other_json_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'flip'"):
        Preparation([{"step": "flop"}])
    with pytest.raises(InvalidArgument, match="'seed' and 'steps'"):
        Preparation.from_json({"steps": []})
    with pytest.raises(InvalidArgument, match="seed -1"):
        Preparation([], seed=-1)


def test_a_missing_library_is_refused_when_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_bench.training.preparation.find_spec", lambda name: None)
    with pytest.raises(FrameworkMissing, match="pip install pillow"):
        Preparation([{"step": "decode"}])


def test_a_batch_is_left_as_it_is() -> None:
    before = images()
    batch = {"image": before.copy(), "label": np.arange(12)}
    Preparation([*CHANCE, {"step": "rename", "into": "x"}])(batch, np.arange(12))
    assert list(batch) == ["image", "label"]
    assert np.array_equal(batch["image"], before)


def test_a_step_names_the_array_it_does_not_find() -> None:
    with pytest.raises(InvalidArgument, match=r"step 1 \(scale\) on 'image'"):
        Preparation([{"step": "scale"}])({"x": images()}, np.arange(12))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"step": "crop", "size": [9, 9], "layout": "CHW"}], r"sample 30, 'image': step 1 \(crop\) got an image of shape"),
        ([{"step": "crop", "size": [8, 8], "at": [1, 1], "layout": "CHW"}], "too small for this crop"),
        ([{"step": "random_crop", "size": [9, 9], "layout": "CHW"}], "height 8 with its padding"),
        ([{"step": "flip", "layout": "HW"}], "3 axes for the layout HW"),
        ([{"step": "noise", "std": 1}], "elements of type uint8"),
        ([{"step": "cast", "dtype": "float64"}, {"step": "resize", "size": 3, "layout": "CHW"}], "type float64"),
        ([{"step": "normalise", "mean": [0], "std": [1], "layout": "CHW"}], "elements of type uint8"),
        ([{"step": "scale"}, {"step": "normalise", "mean": [0], "std": [1], "layout": "CHW"}], "3 channels for 1 means"),
        ([{"step": "colour", "source": "L", "into": "RGB", "layout": "CHW"}], "3 channels, where L has 1"),
        ([{"step": "decode"}], "a ndarray, no bytes"),
        ([{"step": "one_hot", "field": "image", "classes": 3}], "of 3 classes"),
        ([{"step": "scale"}, {"step": "one_hot", "field": "image", "classes": 3}], "whole numbers"),
        ([{"step": "top_k", "field": "image", "k": 10}], "at least 10"),
    ],
)
def test_samples_that_a_step_cannot_take_are_named(steps: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        Preparation(steps)({"image": images()}, np.arange(30, 42))


def test_mixed_sizes_are_named_where_one_size_is_needed() -> None:
    mixed = np.empty(3, object)
    mixed[:] = [np.zeros((3, 2, 2)), np.zeros((3, 2, 2)), np.zeros((3, 4, 4))]
    with pytest.raises(InvalidData, match=r"sample 9, .*\(scale\) got shape \(3, 4, 4\) beside \(3, 2, 2\)"):
        Preparation([{"step": "scale"}])({"image": mixed}, np.array([7, 8, 9]))
