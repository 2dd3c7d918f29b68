"""The examples of timelines run, and say what they should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "160"}
    command = [sys.executable, EXAMPLES / name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_numpy(tmp_path: Path) -> None:
    said = run("timeline_numpy.py", tmp_path)
    assert said.startswith("training: 5 epochs, 115 steps")
    assert "the record says the same: True" in said
    assert float(said.partition("accuracy ")[2].partition(";")[0]) > 0.8
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) > 115 * 6


@pytest.mark.long
def test_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said = run("timeline_torch.py", tmp_path)
    assert said.startswith("training: 3 epochs, 69 steps")
    assert "times are of finished work: torch waited" in said
    assert "forward and backward: " in said


@pytest.mark.long
def test_keras(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    said = run("timeline_keras.py", tmp_path)
    assert said.startswith("training: 3 epochs, 63 steps")
    assert "validation: 3 epochs, 9 steps" in said
    regions = [line.split("│")[1].strip() for line in said.splitlines() if line.startswith("│   ")]
    assert regions == ["between batches", "batch", "not in any region"] * 2
    assert "had not ended" not in said
    assert "times are of finished work: tensorflow waited" in said
    assert "the first step, in which the graph is built" in said
