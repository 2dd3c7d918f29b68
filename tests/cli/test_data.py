"""``deep-bench data``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deep_bench.cli import main
from deep_bench.training.containers import KINDS, memory, open_container, write_container

pytest.importorskip("PIL")


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["data", *map(str, words)])
    captured = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, captured.out, captured.err


@pytest.fixture
def small(tmp_path: Path) -> Path:
    labels = np.array([0, 0, 1, 2, 2, 2])
    return write_container(tmp_path / "small.tar", memory({"image": np.zeros((6, 4, 4), np.uint8), "label": labels}), "tar")


def test_the_help_names_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _ = run(capsys, "--help")
    assert status == 0
    assert all(kind in output for kind in KINDS)


def test_what_a_set_holds(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    status, output, _ = run(capsys, "digits/test", small)
    assert status == 0
    assert "digits/test: 355 samples" in output
    assert "image: float32[1, 8, 8]" in output
    assert f"{small}: 6 samples, tar, 20 KiB" in output
    assert "3 classes, from 1 samples (1) to 3 (2)" in output
    assert "0: 2, 1: 1, 2: 3" in output


def test_sizes_in_containers_as_json(capsys: pytest.CaptureFixture[str], small: Path, tmp_path: Path) -> None:
    words = ("--container", "npy", "--container", "cifar", "--root", tmp_path, "--json")
    status, output, _ = run(capsys, small, *words)
    (found,) = json.loads(output)["sets"]
    assert status == 1  # CIFAR's files cannot hold it
    assert found["classes"] == {"0": 2, "1": 1, "2": 3}
    assert found["containers"] == {"npy": {"bytes": 6 * 16 + 6 * 8 + 2 * 128}}
    assert "uint8[3, 32, 32]" in found["refused"]["cifar"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.tar", "small.tar.deep_bench.json"]


def test_measuring(capsys: pytest.CaptureFixture[str], small: Path, tmp_path: Path) -> None:
    words = ("--measure", "--batch", 2, "--budget", "500ms", "--ci-width", 0.9, "--in-process", "--root", tmp_path)
    status, output, _ = run(capsys, small, "--container", "npy", "--container", "memory", *words)
    assert status == 0
    for line in ("samples/s", "sequential", "random", "memory: not read from the disk: it has no files"):
        assert line in output
    status, output, _ = run(capsys, small, *words, "--json")
    (found,) = json.loads(output)["latencies"]
    assert {"sequential", "random", "fetching", "decoding"} <= set(found["calls"])


def test_converting(capsys: pytest.CaptureFixture[str], small: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.h5"
    status, output, _ = run(capsys, small, "--convert", "hdf5:layout=chunked", "--output", target)
    assert (status, f"written: {target}" in output) == (0, True)
    with open_container(target, verify=True) as found:
        assert found.labels.tolist() == [0, 0, 1, 2, 2, 2]
    assert run(capsys, target, "--verify")[0] == 0
    status, _, error = run(capsys, small, "--convert", "hdf5", "--output", target)
    assert (status, "exists" in error) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("digitz",), "did you mean 'digits'"),
        (("nowhere/set.tar",), "no such file"),
        (("digits/middle",), "middle"),
        (("digits", "digits"), "comes 2 times"),
        (("digits", "--container", "tarr"), "did you mean 'tar'"),
        (("digits", "--convert", "npy"), "both, or none"),
        (("digits", "--convert", "memory", "--output", "x"), "memory"),
        (("digits", "mnist", "--convert", "npy", "--output", "x"), "one by one"),
        (("digits", "--verify"), "the path of a container"),
        ((), "Missing argument"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str) -> None:
    status, output, error = run(capsys, *words)
    assert (status, output) == (2, "")
    assert told in error


def test_a_damaged_container(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    os.truncate(small, 1000)
    status, _, error = run(capsys, small)
    assert status == 2
    assert f"{small} has 1000 bytes" in error


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder of PNG files of different sizes, two classes."""
    from PIL import Image

    folder = tmp_path / "pictures"
    for number in range(6):
        place = folder / ("cat", "dog")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6 + number, 9, 3), 40 * number, np.uint8)).save(place / f"{number}.png")
    return folder


@pytest.mark.parametrize("left", [0, 40, 50])
def test_an_image_that_is_cut_off_is_refused(capsys: Any, pictures: Path, tmp_path: Path, left: int) -> None:
    damaged = pictures / "dog" / "3.png"
    damaged.write_bytes(damaged.read_bytes()[:left])
    for kind in ("tar", "recordio", "tfrecord", "webdataset", "folder"):
        status, output, error = run(capsys, pictures, "--convert", kind, "--output", tmp_path / "copy")
        assert (status, output) == (2, "")
        assert f"{damaged} (sample 4) is damaged" in error
        assert [path.name for path in tmp_path.iterdir()] == ["pictures"]


def test_images_of_different_sizes_are_brought_to_one(capsys: Any, pictures: Path, tmp_path: Path) -> None:
    target = tmp_path / "pictures.h5"
    words = (pictures, "--convert", "hdf5", "--output", target)
    status, _, error = run(capsys, *words)
    assert (status, "--resize 32x32" in error, target.exists()) == (2, True, False)
    status, output, error = run(capsys, *words, "--resize", "8x4", "--container", "npy", "--root", tmp_path)
    assert status == 0, error
    assert "in npy:" in output
    with open_container(target, verify=True) as found:
        assert [str(spec) for spec in found.specs] == ["image: uint8[8, 4, 3]", "label: int64[]"]
        assert found.classes == ("cat", "dog")
        assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert found[np.arange(6)]["image"][:, 0, 0, 0].tolist() == [0, 80, 160, 40, 120, 200]


@pytest.mark.parametrize("words", [("--resize", "8"), ("--resize", "8x0", "--container", "npy"), ("--resize", "8x8")])
def test_resizing_that_makes_no_sense(capsys: Any, words: tuple[str, ...]) -> None:
    status, output, error = run(capsys, "digits", *words)
    assert (status, output, "--resize" in error) == (2, "", True)


def test_what_has_no_images_is_not_resized(capsys: Any, tmp_path: Path) -> None:
    status, _, error = run(capsys, "digits", "--convert", "npy", "--output", tmp_path / "x", "--resize", "4x4")
    assert (status, "images of uint8" in error) == (2, True)
