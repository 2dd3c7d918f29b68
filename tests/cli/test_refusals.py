"""An output that is an input, an option that comes twice, a name or file that cannot be read: refused before any work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from deep_bench.cli import main
from deep_bench.graph import load
from deep_bench.testing.adapter import X, small_network


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network, its inputs, and other names of both."""
    small_network().save(tmp_path / "small.onnx")
    np.savez(tmp_path / "in.npz", x=X)
    (tmp_path / "link.png").symlink_to("small.onnx")
    os.link(tmp_path / "small.onnx", tmp_path / "same.json")
    shutil.copy(tmp_path / "small.onnx", tmp_path / "net.1.onnx")
    shutil.copy(tmp_path / "small.onnx", tmp_path / "p-reference.png")
    (tmp_path / "old").mkdir()
    shutil.copy(tmp_path / "small.onnx", tmp_path / "old" / "model.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("profile small.onnx --on reference --json small.onnx", "the NETWORK"),
        ("profile small.onnx --on reference --json same.json", "the NETWORK"),
        ("profile small.onnx --on reference --plot link.png", "the NETWORK"),
        ("profile --json in.npz --on reference --input in.npz small.onnx", "read as --input"),
        ("diverge small.onnx --on reference --input in.npz --json in.npz", "read as --input"),
        ("diverge p-reference.png --on reference --on torch --plot p.png", "the NETWORK"),
        ("transform small.onnx --fold --output small.onnx", "the NETWORK"),
        ("transform net.1.onnx --cut 2 --output net.onnx", "the NETWORK"),
        ("operators --suite small.onnx --on reference --json small.onnx", "read as --suite"),
        ("reduce old/model.onnx --on reference --output old --force", "the NETWORK"),
    ],
)
def test_no_output_is_an_input(words: str, message: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    if "torch" in words:
        pytest.importorskip("torch")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert deep_bench(*words.split()) == 2
    assert message in capsys.readouterr().err
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_no_output_is_where_a_network_has_its_tensors(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    model = onnx.load(small_network().save(tmp_path / "whole.onnx"))
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    assert deep_bench("transform", tmp_path / "net.onnx", "--fold", "--output", tmp_path / "net.data") == 2
    assert "has its tensors" in capsys.readouterr().err
    assert load(tmp_path / "net.onnx").initializers["w"].shape == (3, 2)


def test_stages_may_be_called_after_the_network(folder: Path) -> None:
    assert deep_bench("transform", "small.onnx", "--sizes", "batch=2", "--cut", "2", "--output", "small.onnx") == 0
    assert (folder / "small.2.onnx").is_file()


def test_another_file_may_be_replaced(folder: Path) -> None:
    words = ("diverge", "small.onnx", "--on", "reference", "--size", "batch=2", "--json", "d.json")
    assert deep_bench(*words) == 0
    assert deep_bench(*words) == 0
    assert (folder / "d.json").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run small.onnx --seed 1 --seed 1", "--seed is given 2 times"),
        ("profile small.onnx --json a --json b", "--json is given 2 times"),
        ("diverge small.onnx --on reference --size batch=9 --size batch=10", "batch is given 2 times (9, 10)"),
        ("diverge small.onnx --on reference:threads=1,threads=2", "threads more than once"),
        ("transform small.onnx --sizes batch=3,batch=4 --output o.onnx", "'batch' more than once"),
        ("transform small.onnx --batch 3,x=0,x=1 --output o.onnx", "'x' more than once"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_comes_twice_is_refused(words: str, message: str, capsys: pytest.CaptureFixture) -> None:
    assert deep_bench(*words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "onnxruntime"])
@pytest.mark.usefixtures("folder")
def test_more_threads_than_there_can_be(framework: str, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip(framework)
    assert deep_bench("diverge", "small.onnx", "--on", f"{framework}:threads=99999999999999", "--in-process") == 2
    assert "a whole number from 1 to 4096" in capsys.readouterr().err


@pytest.mark.parametrize("beside", [False, True], ids=["one file", "external data"])
def test_a_name_that_the_locale_has_not(beside: bool, tmp_path: Path) -> None:
    model = onnx.load(small_network().save(tmp_path / "whole.onnx"))
    onnx.save(model, tmp_path / "na mé.onnx", save_as_external_data=beside, location="data", size_threshold=0)
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    program = "from deep_bench.cli import main; main()"
    words = ["diverge", "na mé.onnx", "--on", "reference", "--size", "batch=2"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert ended.returncode == (2 if beside else 0), ended.stderr
    assert b"set PYTHONUTF8=1" in ended.stderr or not beside


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no such file")
def test_a_file_that_cannot_be_read_says_so(capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("diverge", "/proc/self/mem", "--on", "reference") == 2
    assert "/proc/self/mem cannot be read: Input/output error" in capsys.readouterr().err
