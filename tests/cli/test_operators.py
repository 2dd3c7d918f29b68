"""``deep-bench operators``: what it accepts, writes and exits with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.operators import Study

KERNELS = Path(__file__).parents[1] / "operators" / "studies" / "kernels.py"
SUITE = """
name = "sums"
[[cases]]
operator = "Add"
inputs = [[8], [8]]
[[cases]]
operator = "Add"
inputs = [[64, 4], [64, 4]]
count = 3
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")  # else names fold
    Path("sums.toml").write_text(SUITE, encoding="utf-8")
    return tmp_path


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["operators", *words])
    return int(ended.value.code or 0)


QUICK = ("--budget", "200ms", "--ci-width", "0.9", "--in-process", "--suite", "sums.toml")


def test_right_ones_exit_with_zero_and_write_what_was_asked_for(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    pytest.importorskip("matplotlib")
    written = ("--json", "found.json", "--plot", "--output", "out")
    assert run(f"{KERNELS}:Doubled", *QUICK, "--on", "reference", "--base", "Doubled", *written) == 0
    table = capsys.readouterr().out
    for words in ("Add 64x4 64x4 (x 3)", "2 right", "time over Doubled", "picture: sums.png", "figures: found.json"):
        assert words in table, words
    assert (place / "sums.png").stat().st_size > 5_000
    figures = json.loads((place / "found.json").read_text(encoding="utf-8"))
    assert figures["base"] == "Doubled"
    assert len(figures["trials"]) == 4
    assert Study.load(place / "out").contestants == ("Doubled", "reference")


def test_the_twin_and_launches(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    once = (*QUICK, "--on", "reference", "--case", "8 8", "--check", "off")
    assert run(*once, "--launches", "2", "--output", "two") == 0
    table = capsys.readouterr().out
    assert "A/A: reference against itself" in table
    assert "2 launches: " in table
    assert Study.load(place / "two").launches == 2
    assert run(*once, "--no-twin") == 0
    assert "A/A" not in capsys.readouterr().out


def test_wrong_ones_exit_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{KERNELS}:Off", *QUICK, "--case", "8 8") == 1
    table = capsys.readouterr().out
    assert "wrong" in table
    assert "64x4" not in table


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--suite", "sums.toml"), "name an operator (my_kernels.py:FastGelu), a framework"),
        (("--on", "reference"), "Missing option '--suite'"),
        (("--on", "reference", "--suite", "deepbench/gem/device"), "did you mean 'deepbench/gemm/device'?"),
        (("--on", "reference", "--suite", "sums.toml", "--case", "8x8"), "did you mean '8 8'?"),
        (("--on", "refrence", "--suite", "sums.toml"), "did you mean 'reference'?"),
        (("--on", "reference", "--suite", "sums.toml", "--base", "torch"), "unknown contestant 'torch'"),
        (("--on", "reference", "--on", "reference", "--suite", "sums.toml"), "each system once"),
        (("kernels.py:Doubled", "--suite", "sums.toml"), "there is no file"),
        ((f"{KERNELS}:Doubld", "--suite", "sums.toml"), "one of its operators: Doubled"),
        (("--on", "reference", "--suite", "sums.toml", "--json", "nowhere/x.json"), "does not exist"),
        (("--on", "reference", "--suite", "sums.toml", "--plot", "x.txt"), "is no picture"),
        (("--on", "reference", "--suite", "sums.toml", "--output", "sums.toml/x"), "cannot be made"),
        (("--on", "reference", "--suite", "sums.toml", "--dtype", "float33"), "element type 'float33'"),
        (("--on", "reference", "--suite", "sums.toml", "--ci-width", "2"), "ci_width=2.0"),
    ],
)
def test_bad_usage_exits_with_two(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    assert run(*words) == 2
    assert message in capsys.readouterr().err


def test_a_wrong_field_of_a_suite_is_named(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    (place / "sums.toml").write_text(SUITE.replace("count", "cuont"), encoding="utf-8")
    assert run("--on", "reference", *QUICK) == 2
    assert "there is no field 'cases[1].cuont'" in capsys.readouterr().err


def test_a_sample_is_drawn_by_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--on", "reference", *QUICK, "--sample", "1", "--seed", "5", "--check", "off") == 0
    table = capsys.readouterr().out
    assert ("Add 8 8" in table) != ("64x4" in table)
    assert "inputs: seed 5" in table


@pytest.mark.long
def test_ctrl_c_keeps_what_was_measured(place: Path) -> None:
    words = ["operators", "--on", "reference", "--suite", "sums.toml", "--budget", "60s", "--ci-width", "0.000001"]
    process = subprocess.Popen(
        [sys.executable, "-m", "deep_bench", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 60
    while not any(place.glob("results/*.json")) and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(2)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert re.search("interrupted after [01] of 2 cases", out)
    assert Study.load(place / "results").interrupted


def test_an_operator_that_cannot_be_made_fails_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{KERNELS}:InitRaises", "--on", "reference", *QUICK) == 1
    shown = capsys.readouterr()
    assert "OSError: no licence for it" in shown.out
    assert "Traceback" not in shown.err
