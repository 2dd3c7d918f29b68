"""Files and systems that cannot be are refused before any work; nothing stale is left beside what is written."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.cli.verb import one_each, unwritable
from deep_bench.testing.adapter import small_network

VERBS = {
    "profile --json": ["profile", "digits-cnn", "--on", "reference", "--json"],
    "profile --plot": ["profile", "digits-cnn", "--on", "reference", "--plot"],
    "diverge --json": ["diverge", "digits-cnn", "--on", "reference", "--json"],
    "diverge --plot": ["diverge", "digits-cnn", "--on", "reference", "--plot"],
    "transform --output": ["transform", "digits-cnn", "--fold", "--output"],
    "conformance --json": ["conformance", "--on", "reference", "--json"],
}


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever loads a network or runs a case is a failure of the test."""

    def worked(*_: object, **__: object) -> None:
        raise AssertionError("work was begun")

    for module in ("profiling", "divergence", "reduction", "run"):
        monkeypatch.setattr(f"deep_bench.network.{module}.make_problem", worked)
    monkeypatch.setattr("deep_bench.testing.conformance.run_conformance", worked)
    monkeypatch.setattr("deep_bench.graph.load", worked)  # last: what is imported after this would keep it


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("verb", VERBS)
def test_what_cannot_be_written_is_refused_first(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    for path, message in (
        ("none/a.png", "does not exist"),
        ("file/a.png", "is no folder"),
        ("folder.png", "is a folder"),
        (f"{'x' * 250}.png", "name too long"),
    ):
        assert deep_bench(*VERBS[verb], tmp_path / path) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert verb.split()[1] in said
        assert str(tmp_path / path) in said
        assert message in said.lower() if message.startswith("name") else message in said
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder.png"]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", ["picture", "picture.txt", "picture.onnx"])
@pytest.mark.parametrize("verb", ["profile --plot", "diverge --plot"])
def test_a_picture_needs_a_format(verb: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert deep_bench(*VERBS[verb], tmp_path / name) == 2
    assert "is no picture" in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
def test_a_picture_needs_something_to_draw_with(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "matplotlib" else name)
    assert deep_bench(*VERBS["profile --plot"], tmp_path / "p.png") == 2
    assert "deep-bench[report]" in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
def test_one_file_is_not_written_twice(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert deep_bench(*VERBS["diverge --json"], tmp_path / "a.png", "--plot", tmp_path / "." / "a.png") == 2
    assert "is what --json writes" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locked").touch(mode=0o400)
    assert "read-only" in unwritable(tmp_path / "locked")


def test_what_is_no_regular_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        unix.bind("s")
    assert "no regular file" in unwritable(tmp_path / "s")
    assert unwritable(tmp_path / "new") == ""


def test_pictures_of_several_systems_differ() -> None:
    systems = ["torch:threads=1", "torch:threads-1", "reference"]
    names = [path.name for path in one_each(Path("p.png"), systems)]
    assert names == ["p-torch-threads-1-1.png", "p-torch-threads-1-2.png", "p-reference.png"]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("verb", ["profile", "diverge", "conformance", "run", "reduce"])
def test_the_same_system_twice_is_refused(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("torch")
    words = [verb, *(["digits-cnn"] if verb != "conformance" else [])]
    words += ["--output", tmp_path / "out"] if verb in ("run", "reduce") else []
    first, second = "torch:threads=1,device=cpu", "torch:device=cpu,threads=1"
    assert deep_bench(*words, "--on", first, "--on", second) == 2
    assert "each system once" in capsys.readouterr().err
    assert deep_bench(*words, "--on", "reference", "--on", "torsh") == 2
    assert "did you mean 'torch'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_work")
def test_a_run_refuses_its_folder_before_it_transforms(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").touch()
    words = ("--transform", "fold", "--on", "reference", "--output", tmp_path / "file")
    assert deep_bench("run", "digits-cnn", *words) == 2
    assert "output folder" in capsys.readouterr().err


def test_stages_of_an_earlier_cut_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    cut = ("transform", "digits-cnn", "--batch", "1", "--output", tmp_path / "net.onnx", "--cut")
    assert deep_bench(*cut, "3") == 0
    assert deep_bench(*cut, "3") == 0  # the same names again
    assert deep_bench(*cut, "2") == 2
    assert str(tmp_path / "net.3.onnx") in capsys.readouterr().err
    (tmp_path / "net.3.onnx").unlink()
    (tmp_path / "net.2.onnx").unlink()
    (tmp_path / "net.2.onnx").mkdir()
    assert deep_bench(*cut, "2") == 2
    assert "net.2.onnx is a folder" in capsys.readouterr().err


def test_a_used_folder_is_refused_or_cleaned(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("torch")
    network = small_network().save(tmp_path / "small.onnx")
    folder = tmp_path / "out"
    reduce = ("reduce", network, "--size", "batch=2", "--output", folder)
    assert deep_bench(*reduce, "--on", "torch:dtype=bfloat16") == 0
    assert (folder / "actual.npz").is_file()
    (folder / "notes.txt").write_text("mine")
    before = (folder / "model.onnx").read_bytes()
    capsys.readouterr()
    assert deep_bench(*reduce, "--on", "torch:dtype=bfloat16") == 2
    assert "is not empty: actual.npz, expected.npz" in capsys.readouterr().err
    assert (folder / "model.onnx").read_bytes() == before
    crashing = ("--on", "tests.network.misbehaving:Refusing", "--while", "crashes", "--force")
    assert deep_bench(*reduce, *crashing) == 0
    assert "written to" in capsys.readouterr().out
    assert sorted(file.name for file in folder.iterdir()) == [
        "expected.npz",
        "inputs.npz",
        "model.onnx",
        "notes.txt",
        "reproduce.py",
    ]


@pytest.mark.parametrize("factor", ["0x", "1", "-2x", "nan", "inf", "x", "", "2y"])
def test_slower_by_what_is_no_factor(factor: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("--on", "reference", "--on", "onnxruntime", "--while", f"slower={factor}", "--output", tmp_path / "out")
    assert deep_bench("reduce", "digits-cnn", *words) == 2
    assert "another factor above 1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
