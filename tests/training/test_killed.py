"""A training that is killed amid a checkpoint's writing, and goes on: the same bits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"


@pytest.mark.long
def test_a_killed_run_loses_nothing() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, str(SCRIPT), "--trials", "1", "--amid", "1", "--on", "torch:threads=1", "--seed", "5"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "1 trials, 1 amid a checkpoint: 0 lost or changed" in found.stdout
