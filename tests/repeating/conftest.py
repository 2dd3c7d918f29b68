"""A run of a small network from a file, and its bundle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deep_bench.repeating import Manifest, bundle
from deep_bench.testing.adapter import small_network

PROGRAM = [sys.executable, "-c", "from deep_bench.cli import main; main()"]
WORDS = ["run", "models/small.onnx", "--on", "reference", "--budget", "0.3s", "--no-twin", "--output", "mine"]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a network was run."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "models").mkdir()
    small_network().save(folder / "models" / "small.onnx")
    found = subprocess.run([*PROGRAM, *WORDS], cwd=folder, capture_output=True, text=True, check=False, env=os.environ)
    assert found.returncode == 0, found.stderr
    return folder


@pytest.fixture(scope="session")
def packed(place: Path) -> tuple[Path, Manifest]:
    """Its bundle."""
    archive = place / "small.zip"
    return archive, bundle([place / "mine"], archive, command=["deep-bench", *WORDS], folder=place, licence="CC0-1.0")
