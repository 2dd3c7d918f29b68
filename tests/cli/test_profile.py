"""``deep-bench profile``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import deep_bench as db
from deep_bench.cli import main
from deep_bench.network.profile_result import Profile

SHY = """
from deep_bench.errors import Unsupported
from deep_bench.reference.network import ReferenceAdapter
class Shy(ReferenceAdapter):
    name = "shy"
    def prepare(self, network, **options):
        raise Unsupported("it is shy")
"""


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


def test_a_table_a_file_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    given = ["digits-cnn", "--on", "reference", "--repeat", "2", "--batch", "1", "--in-process", "--top", "3"]
    assert deep_bench("profile", *given, "--json", tmp_path / "p.json", "--plot", tmp_path / "p.png") == 0
    printed = capsys.readouterr().out
    assert "between the nodes" in printed
    assert "19 more rows" in printed
    found = Profile.load(tmp_path / "p.json")
    assert found.repeat == 2
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_backward_needs_an_output(capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("profile", "digits-cnn", "--on", "reference", "--in-process", "--backward", "loss") == 2
    assert "no output 'loss'" in capsys.readouterr().err


def test_a_framework_that_cannot_be_profiled_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "shy.py").write_text(SHY, encoding="utf-8")
    import sys

    sys.path.append(str(tmp_path))
    try:
        assert deep_bench("profile", "digits-cnn", "--on", "shy:Shy", "--repeat", "1", "--in-process") == 1
    finally:
        sys.path.remove(str(tmp_path))
    assert "it is shy" in capsys.readouterr().out


def test_algorithms_are_a_line_for_each_node(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ["profile", "digits-cnn", "--on", "reference", "--on", "reference:algorithms=Conv/fft", "--batch", "1"]
    assert deep_bench(*words, "--algorithms", "--json", tmp_path / "a.json") == 0
    lines = capsys.readouterr().out.splitlines()
    nodes = len(db.load("digits-cnn").nodes)
    assert [lines[0], lines[nodes + 1]] == ["reference:", "reference:algorithms=Conv/fft:"]
    assert lines[1].split() == ["stem", "Conv", "im2col"]
    assert lines[nodes + 2].split() == ["stem", "Conv", "fft"]
    assert len(lines) == 2 * (nodes + 1) + 1
    found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert found["algorithms"]["reference"]["stem"] == ["im2col"]
    assert found["failed"] == {}


@pytest.mark.long
def test_algorithms_of_a_framework(capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("torch")
    assert deep_bench("profile", "digits-cnn", "--on", "torch:threads=1", "--batch", "8", "--algorithms") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "torch:threads=1:"
    assert any(line.split()[:2] == ["flatten", "Flatten"] and "does not say its algorithm" in line for line in lines)


def test_algorithms_that_cannot_be_asked_for_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "shy.py").write_text(SHY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # for the process that is asked
    words = ["--on", "shy:Shy", "--on", "reference", "--batch", "1", "--algorithms"]
    assert deep_bench("profile", "digits-cnn", *words) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "reference:"
    assert any(line.startswith("shy:Shy: ") and "it is shy" in line for line in lines)


@pytest.mark.skipif(bool(db.frameworks.missing("onnxruntime")), reason="onnxruntime is not installed")
def test_a_framework_that_tells_nothing_says_so_once(capsys: pytest.CaptureFixture) -> None:
    assert deep_bench("profile", "digits-cnn", "--on", "onnxruntime", "--batch", "1", "--algorithms") == 0
    assert capsys.readouterr().out.splitlines() == [
        "onnxruntime: OnnxRuntimeExecutor does not tell which algorithms its kernels use"
    ]


@pytest.mark.parametrize("words", [("--plot", "x.png"), ("--repeat", "3"), ("--backward", "loss"), ("--all",)])
def test_algorithms_have_no_times(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert deep_bench("profile", "digits-cnn", "--on", "reference", "--algorithms", *words) == 2
    assert f"{words[0]} beside --algorithms" in capsys.readouterr().err
