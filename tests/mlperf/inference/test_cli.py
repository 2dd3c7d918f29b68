"""``deep-bench mlperf inference`` and ``submission``, as a user runs them."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deep_bench.cli import main

Cli = Callable[..., tuple[int, str, str]]
QUICK = ("--on", "reference", "--scenario", "Offline", "--batch", "8", "--mode", "accuracy", "--target-qps", "400")
QUICK += ("--check", "off")
RIGHT = ("--on", "reference", "--system", "faulty:Right", "--target-latency", "0.004ms", "--min-duration", "100ms")
"""Answers without a network, and takes an instant."""


def _no_space(source: Path, target: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs the command line in an empty folder; gives its exit status, and what it printed and complained of."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["mlperf", *words])
        return int(ended.value.code or 0), *capsys.readouterr()

    return call


@pytest.mark.long
def test_an_accuracy_run_is_printed_shown_and_not_overwritten(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    status, printed, told = cli("inference", "digits-cnn", *QUICK, "-o", "run")
    assert (status, told) == (0, "running under LoadGen; its logs are in run\n")
    assert printed.startswith("VALID: digits-cnn on reference, Offline, accuracy mode")
    assert "0.9972 (354 of 355)" in printed
    assert "unverified. Result not verified by MLCommons Association." in printed
    with pytest.raises(SystemExit) as ended:
        main(["show", "run"])
    assert (ended.value.code or 0, capsys.readouterr().out) == (0, printed)
    status, _, complaint = cli("inference", "digits-cnn", *QUICK, "-o", "run")
    assert status == 2
    assert "has files: " in complaint
    status, _, complaint = cli("inference", "digits-cnn", *QUICK, "-o", "run", "--overwrite", "other")
    assert status == 2
    assert "is not the folder of --output" in complaint
    status, printed, complaint = cli("submission", "run", "-o", "out", "--submitter", "Lab", "--system", "box")
    assert status == 1
    assert "missing: open/Lab/results/box/digits-cnn/Offline/performance/run_1/mlperf_log_detail.txt" in printed
    facts = Path("facts.yaml")
    facts.write_text("submitter: My Lab\nsystem_name: Box 1\n", encoding="utf-8")
    named = ("submission", "run", "--facts", "facts.yaml", "--system", "box", "--submitter")
    status, printed, _ = cli(*named, "My_Lab", "-o", "mine")
    assert status == 1
    assert "submitter" not in printed
    assert json.loads(Path("mine/open/My_Lab/systems/box.json").read_text())["submitter"] == "My_Lab"
    status, _, complaint = cli(*named, "Lab", "-o", "other")
    assert (status, Path("other").exists()) == (2, False)
    assert "the submitter 'Lab', who is 'My Lab' in the facts" in complaint
    status, _, complaint = cli(*named, "My_Lab", "-o", "facts.yaml/out")
    assert status == 2
    assert "facts.yaml/out cannot be made: Not a directory" in complaint
    with monkeypatch.context() as full:
        full.setattr(shutil, "copyfile", _no_space)
        status, _, complaint = cli(*named, "My_Lab", "-o", "full")
    assert status == 2
    assert complaint.startswith("deep-bench: cannot write full/open/My_Lab/results/box/digits-cnn/Offline/accuracy/")
    assert "No space left on device" in complaint
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr("deep_bench.mlperf.inference.running.lasts", lambda scenario, seconds, query_s: "about 9 s")
    status, _, told = cli("inference", "digits-cnn", *RIGHT, "-o", "other")
    assert (status, told.splitlines()[1]) == (0, "this will take about 9 s")
    status, printed, told = cli("inference", "digits-cnn", *RIGHT, "-o", "run", "--overwrite", "run", "--json")
    assert (status, told, json.loads(printed)["judgement"]) == (0, "", {"word": "VALID", "reasons": []})
    assert json.loads(printed)["accuracy"][0]["of"] == "performance mode"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--scenario", "Offline", "--target-latency", "1s"), "target_qps, which LoadGen asks for there"),
        (("--short", "--min-duration", "3s"), "one of the two"),
        (("--audit", "TEST07"), "language models"),
        (("--audit", "TEST01"), "--against FOLDER"),
        (("--mode", "find-peak"), "Server"),
        (("--scenario", "Server", "--workers", "0"), "at least 1"),
        (("--dataset", "digits/tests"), "digits"),
        (("--user-conf", "150.conf"), "150.conf, line 1: SingleStream.target_latency_percentile = 150"),
        (("--system", "no_such_module:Mine"), "'no_such_module:Mine', which is not there"),
        (("--system", "math"), "an import path"),
    ],
)
def test_bad_usage_is_told_before_anything_runs(words: tuple[str, ...], message: str, cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    (tmp_path / "150.conf").write_text("*.SingleStream.target_latency_percentile = 150\n", encoding="utf-8")
    status, printed, complaint = cli("inference", "digits-cnn", "--on", "reference", "-o", "run", *words)
    assert (status, printed) == (2, "")
    assert message in complaint
    assert "running under LoadGen" not in complaint
    assert not (tmp_path / "run").exists()


def test_the_group_lists_its_commands_without_loading_them(cli: Cli) -> None:
    status, printed, _ = cli("--help")
    assert status == 0
    assert {"inference", "submission"} <= set(printed.split())
