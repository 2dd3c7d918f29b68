"""``deep-bench data``."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
    assert f"{small}: 6 samples, tar, 20.5 kB" in output
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
