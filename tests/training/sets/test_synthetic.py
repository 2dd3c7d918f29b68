"""Sets drawn like others, and ImageNet in the containers that users have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidData, Unsupported
from deep_bench.training.dataset import Description, content_sha256, facts, labels_of
from deep_bench.training.loader import Loader
from deep_bench.training.preparation import Preparation
from deep_bench.training.samplers import Sequential
from deep_bench.training.sets import ArrayDataset, Subset, synthetic


def gaussian(count: int, dtype: str = "float32") -> ArrayDataset:
    """Two classes of different size and mean, with correlated elements."""
    draws = np.random.default_rng(5)
    labels = (draws.random(count) < 0.2).astype(np.int64)
    mixing = np.array([[20, 0, 0], [15, 10, 0], [0, 5, 8.0]])
    x = draws.standard_normal((count, 3)) @ mixing.T + np.array([[100, 120, 140], [160, 90, 110.0]])[labels]
    x = np.rint(x).clip(0, 255) if dtype == "uint8" else x
    return ArrayDataset({"x": x.astype(dtype), "label": labels}, description=Description("real", "us", "free"))


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_means_covariances_and_classes_are_those_of_the_real_set(dtype: str) -> None:
    real = gaussian(4000, dtype)
    drawn = synthetic(real, 6000, seed=3, measured=3000)
    assert np.array_equal(np.bincount(labels_of(drawn)), np.rint(np.bincount(labels_of(real)) / 4000 * 6000))
    for label in (0, 1):
        one, other = (s[np.flatnonzero(labels_of(s) == label)]["x"].astype(np.float64) for s in (real, drawn))
        spread = one.std(axis=0)
        assert (abs(one.mean(axis=0) - other.mean(axis=0)) < 0.15 * spread).all()
        ratio = np.cov(other, rowvar=False) / np.outer(spread, spread)
        assert abs(ratio - np.corrcoef(one, rowvar=False)).max() < 0.15


def test_a_synthetic_set_says_so_and_its_parts_too() -> None:
    drawn = db.datasets["synthetic"](gaussian(100), 50)
    described = facts(drawn, contents=False)
    assert described["synthetic"] is True
    assert (described["name"], described["source"], described["licence"]) == ("synthetic/real", "drawn like: us", "free")
    assert facts(Subset(drawn, [1, 2]), contents=False)["synthetic"] is True
    assert drawn.specs == gaussian(100).specs


def test_the_seed_decides_what_is_drawn() -> None:
    sums = [content_sha256(synthetic(gaussian(100), 20, seed=seed)) for seed in (0, 0, 1)]
    assert sums[0] == sums[1] != sums[2]


def test_classes_do_not_come_in_order() -> None:
    labels = labels_of(synthetic(gaussian(1000), 200))
    assert labels.tolist() != sorted(labels.tolist())


def test_whole_numbers_come_from_those_that_are_there() -> None:
    tokens = np.random.default_rng(0).choice([3, 70, 900], (500, 4), p=[0.7, 0.2, 0.1])
    tokens[:, 2] = 5
    drawn = synthetic(ArrayDataset({"input": tokens}), 4000)[np.arange(4000)]["input"]
    assert set(np.unique(drawn)) == {3, 5, 70, 900}
    assert (drawn[:, 2] == 5).all()
    assert abs((drawn[:, 0] == 3).mean() - (tokens[:, 0] == 3).mean()) < 0.05


def test_what_cannot_be_drawn_is_refused() -> None:
    objects = np.empty(3, object)
    with pytest.raises(Unsupported, match="like x"):
        synthetic(ArrayDataset({"x": objects}), 3)
    with pytest.raises(InvalidArgument, match="2 measured samples of 2 classes"):
        synthetic(gaussian(100), 10, measured=2)
    with pytest.raises(InvalidArgument, match="samples 0"):
        synthetic(gaussian(100), 0)


def test_an_image_that_cannot_be_decoded_is_named_with_its_file(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed")
    for number in range(4):
        (tmp_path / "train" / f"class{number}").mkdir(parents=True)
        (tmp_path / "train" / f"class{number}" / "image.png").write_bytes(b"no image")
    train = db.datasets["imagenet"](tmp_path, "train", mode="RGB", decode=False)
    part = Subset(train, [3, 2])
    loader = Loader(part, Sequential(part, 2), preparation=Preparation([{"step": "decode"}]))
    with pytest.raises(InvalidData, match=r"sample 0, 'image': step 1 .*class3/image\.png"):
        next(loader.epoch(0))


def picture(number: int) -> np.ndarray:
    return np.full((4, 5, 3), number, np.uint8)


@pytest.mark.parametrize("kind", ["folder", "tar", "tfrecord", "hdf5"])
def test_imagenet_is_read_from_what_the_user_has(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed")
    from deep_bench.training.containers import write_container

    own = ArrayDataset({"image": np.stack([picture(n) for n in range(6)]), "label": np.array([0, 0, 1, 1, 2, 2])})
    write_container(tmp_path / ("val" if kind == "folder" else f"val.{kind}"), own, kind)
    validation = db.datasets["imagenet"](tmp_path, "val")
    assert labels_of(validation).tolist() == [0, 0, 1, 1, 2, 2]
    assert np.array_equal(validation[[4, 1]]["image"], [picture(4), picture(1)])
    assert facts(validation, contents=False)["name"] == "imagenet/val"
    with pytest.raises(InvalidData, match="has nothing for the part 'train'"):
        db.datasets["imagenet"](tmp_path, "train")
