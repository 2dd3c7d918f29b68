"""``deep-bench diverge`` and ``deep-bench reduce``: exit status, files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deep_bench.cli import main
from deep_bench.testing.adapter import X, small_network


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return small_network().save(tmp_path / "small.onnx")


@pytest.fixture
def fed(tmp_path: Path) -> Path:
    np.savez(tmp_path / "in.npz", x=X)
    return tmp_path / "in.npz"


def test_nothing_diverges(network: Path, fed: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("matplotlib")
    words = ("--on", "reference", "--input", fed, "--plot", tmp_path / "p.png", "--json", tmp_path / "d.json")
    assert deep_bench("diverge", network, *words) == 0
    assert "first divergence: none" in capsys.readouterr().out
    (facts,) = json.loads((tmp_path / "d.json").read_text())
    assert (facts["system"], facts["first"]) == ("reference", None)
    assert (tmp_path / "p.png").stat().st_size > 0


@pytest.mark.long
def test_reduced_precision_diverges_and_is_reduced(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("torch")
    low = "torch:dtype=bfloat16"
    assert deep_bench("diverge", network, "--on", "reference", "--on", low, "--size", "batch=2", "--all") == 1
    assert "reduced precision" in capsys.readouterr().out
    assert deep_bench("reduce", network, "--on", low, "--size", "batch=2", "--output", tmp_path / "small") == 0
    printed = capsys.readouterr().out
    assert "smallest" in printed
    assert {f.name for f in (tmp_path / "small").iterdir()} >= {"model.onnx", "inputs.npz", "reproduce.py"}


@pytest.mark.long
def test_gradients_that_are_right(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("torch")
    scored = small_network().with_loss("Sum", output=small_network().outputs[0].name).save(tmp_path / "scored.onnx")
    words = (scored, "--size", "batch=2", "--gradients", "loss")
    assert deep_bench("diverge", *words, "--on", "torch", "--on", "reference") == 0
    assert "the gradients of" in capsys.readouterr().out
    for system in ("torch", "reference"):
        assert deep_bench("reduce", *words, "--on", system, "--output", tmp_path / "out") == 2
        assert "does not show it" in capsys.readouterr().err


@pytest.mark.long
def test_ctrl_c_keeps_what_was_found(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("deep_bench.network.candidate.Search.holds", interrupted)
    words = ("--on", "torch:dtype=bfloat16", "--size", "batch=2", "--output", tmp_path / "out")
    assert deep_bench("reduce", network, *words) == 130
    assert "interrupted" in capsys.readouterr().out
    assert (tmp_path / "out" / "model.onnx").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "reference"), "does not show it"),
        (("--on", "reference", "--while", "slower=2x"), "what the first is slower than"),
        (("--on", "reference", "--while", "odd"), "wrong, crashes, or slower=2x"),
        (("--on", "reference", "--on", "torch"), "one --on"),
    ],
    ids=["right", "slower than nothing", "unknown", "two"],
)
def test_bad_usage(
    words: tuple[str, ...], message: str, network: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert deep_bench("reduce", network, *words, "--output", tmp_path / "out") == 2
    assert message in capsys.readouterr().err
