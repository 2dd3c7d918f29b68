"""The command line: exit status, messages, JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from deep_bench.cli import main
from deep_bench.testing.adapter import X, small_network

QUICK = ["--on", "reference", "--budget", "500ms", "--ci-width", "0.5", "--no-twin"]


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return small_network().save(tmp_path / "small.onnx")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def test_run_and_show(network: Path, results: Path, capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("run", network, *QUICK, "--output", results, "--size", "batch=2") == 0
    printed = capsys.readouterr().out
    assert "right" in printed
    (record,) = results.glob("*.json")
    assert f"record: {record}" in printed
    assert deep_bench("show", record) == 0
    assert capsys.readouterr().out == printed


def test_json_only(network: Path, results: Path, capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("run", network, *QUICK, "--output", results, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["systems"]["reference"]["verdict"] == "right"
    assert deep_bench("show", printed["record"], "--json") == 0
    assert json.loads(capsys.readouterr().out) == printed


def test_given_inputs(network: Path, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    np.savez(tmp_path / "in.npz", x=X)
    assert deep_bench("run", network, *QUICK, "--output", results, "--input", tmp_path / "in.npz") == 0
    assert "batch=2" in capsys.readouterr().out


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "deep_bench", "list", "--json"], capture_output=True, text=True, check=True)
    assert "reference" in done.stdout
    wrong = subprocess.run([sys.executable, "-m", "deep_bench", "lst"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "deep-bench" in wrong.stderr


def test_list_names_every_framework(capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("list", "--json") == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(listed) >= {"onnxruntime", "reference", "tensorflow", "torch"}
    assert listed["reference"]["version"]


def test_doctor(capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["environment"]["logical_cpus"] == os.cpu_count()
    assert deep_bench("doctor") == 0
    assert "cpu" in capsys.readouterr().out


def broken(tmp_path: Path) -> dict[str, tuple[list, str]]:
    """Command-line words, and what the message must contain."""
    (tmp_path / "text.onnx").write_text("hello")
    (tmp_path / "empty.onnx").touch()
    whole = small_network().to_proto().SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    new = small_network().to_proto()
    new.opset_import[0].version = 99
    onnx.save(new, tmp_path / "new.onnx")
    good = small_network().save(tmp_path / "good.onnx")
    np.savez(tmp_path / "name.npz", z=X)
    np.savez(tmp_path / "shape.npz", x=X[:, :2])
    np.savez(tmp_path / "type.npz", x=X.astype(np.float64))
    np.savez(tmp_path / "rank.npz", x=X[0])
    (tmp_path / "bad.npz").write_bytes(b"PK")
    (tmp_path / "bad.json").write_text("{}")
    return {
        "no file": (["run", tmp_path / "none.onnx"], "no file"),
        "folder": (["run", tmp_path], "folder"),
        "text": (["run", tmp_path / "text.onnx"], "not an ONNX file"),
        "empty": (["run", tmp_path / "empty.onnx"], "empty.onnx"),
        "truncated": (["run", tmp_path / "cut.onnx"], "truncated"),
        "new opset": (["run", tmp_path / "new.onnx"], "opset 99"),
        "input name": (["run", good, "--input", tmp_path / "name.npz"], "'z'"),
        "input shape": (["run", good, "--input", tmp_path / "shape.npz"], "[2, 2]"),
        "input type": (["run", good, "--input", tmp_path / "type.npz"], "float64"),
        "input rank": (["run", good, "--input", tmp_path / "rank.npz"], "[3]"),
        "input file": (["run", good, "--input", tmp_path / "bad.npz"], "npz"),
        "no input file": (["run", good, "--input", tmp_path / "none.npz"], "does not exist"),
        "framework": (["run", good, "--on", "torsh"], "did you mean 'torch'"),
        "option": (["run", good, "--on", "reference:thread=1", "--no-twin"], "no option 'thread'"),
        "option form": (["run", good, "--on", "reference:threads"], "name=value"),
        "dimension": (["run", good, "--size", "length=3"], "batch"),
        "size": (["run", good, "--size", "batch=many"], "batch=many"),
        "budget": (["run", good, "--budget", "soon"], "soon"),
        "check": (["run", good, "--check", "hard"], "hard"),
        "verb": (["walk"], "walk"),
        "record": (["show", tmp_path / "bad.json"], "schema version"),
        "no record": (["show", tmp_path / "none.json"], "none.json"),
        "sweep": (["run", good, "--sweep", "batch"], "batch"),
    }


@pytest.mark.parametrize("name", range(23))
def test_bad_input(name: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    words, message = list(broken(tmp_path).values())[name]
    if words[0] == "run" and "--on" not in words:
        words = [*words, "--on", "reference"]
    assert deep_bench(*words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_debug_shows_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("run", tmp_path / "none.onnx", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    assert deep_bench("run", network, *QUICK, "--output", tmp_path / "locked") == 2
    assert "read-only" in capsys.readouterr().err


def test_an_output_that_is_a_file(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").touch()
    assert deep_bench("run", network, *QUICK, "--output", tmp_path / "file") == 2
    assert "output folder" in capsys.readouterr().err
