"""``deep-bench roofline``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from deep_bench.cli import roofline as verb
from deep_bench.measure import roofline
from deep_bench.measure.roofline import Rate, Roofline

GEMM = Rate(kind="gemm", by="numpy", dtype="float32", threads=1, value=1e11, low=9e10, high=1.1e11, size=960, n=40)
COPY = Rate(kind="copy", by="numpy", dtype="float64", threads=1, value=2e10, size=1 << 27, n=4)
NONE = Rate(kind="gemm", by="torch", dtype="float32", threads=1, unavailable="it was killed")


def run(monkeypatch: pytest.MonkeyPatch, found: Roofline, *words: str) -> tuple[int, str]:
    monkeypatch.setattr("deep_bench.measure.roofline.roofline", lambda on, **options: found)
    result = CliRunner().invoke(verb.command, list(words))
    return result.exit_code, result.output


def test_table_and_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = Roofline(rates=[GEMM, COPY])
    file, picture = tmp_path / "roofs.json", tmp_path / "roofs.png"
    status, output = run(monkeypatch, found, "--json", str(file), "--plot", str(picture))
    assert status == 0
    assert "100 GFLOP/s" in output
    assert "90.0 to 110" in output
    assert "too few" in output
    assert Roofline.model_validate(json.loads(file.read_text())) == found
    assert picture.stat().st_size > 10_000


def test_a_framework_without_roofs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    status, output = run(monkeypatch, Roofline(rates=[GEMM, COPY, NONE]))
    assert status == 1
    assert "it was killed" in output


def test_an_interrupted_measurement_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Roofline(rates=[GEMM, COPY], notes=["interrupted: some of it was not measured to the end"])
    assert run(monkeypatch, found)[0] == 130


@pytest.mark.parametrize("words", [["--threads", "1,x"], ["--threads", "0"], ["--budget", "soon"], ["--budget", "."]])
def test_bad_usage(words: list[str]) -> None:
    assert CliRunner().invoke(verb.command, words).exit_code == 2


def test_options_reach_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def note(on: object, **options: object) -> Roofline:
        seen.update(options, on=on)
        return Roofline(rates=[GEMM])

    monkeypatch.setattr("deep_bench.measure.roofline.roofline", note)
    words = ["--on", "reference", "--threads", "1,2", "--dtype", "float32", "--budget", ".5m", "--again"]
    assert CliRunner().invoke(verb.command, words).exit_code == 0
    del seen["watch"]
    wanted = {
        "on": ("reference",),
        "threads": (1, 2),
        "dtypes": ("float32",),
        "budget": 30.0,
        "ci_width": 0.02,
        "again": True,
    }
    assert seen == wanted
    assert roofline.DTYPES[0] == "float64"
