"""A run of a small network from a file, and its bundle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from deep_bench.recipes import manifest as contents
from deep_bench.recipes import repetition
from deep_bench.recipes.bundles import AGAIN, bundle
from deep_bench.recipes.manifest import Manifest
from deep_bench.recipes.repetition import LOG_FILE
from deep_bench.testing.adapter import small_network

PROGRAM = [sys.executable, "-c", "from deep_bench.cli import main; main()"]
WORDS = [
    "run",
    "models/small.onnx",
    "--on",
    "reference",
    "--budget",
    "0.1s",
    "--no-twin",
    "--in-process",
    "--output",
    "mine",
]


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


@pytest.fixture(scope="session")
def _lines() -> dict[frozenset[str] | None, list[str]]:
    return {}


@pytest.fixture(autouse=True)
def _same_environment(
    packed: tuple[Path, Manifest], _lines: dict[frozenset[str] | None, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel of deep_bench and the lock are made once, for the first bundle; others have copies."""
    wheel, found = packed[0].with_name(contents.wheel_name()), contents.requirements
    if not wheel.exists():
        contents.write_wheel(wheel)

    def requirements(extras: Collection[str] | None = None) -> list[str]:
        key = None if extras is None else frozenset(extras)
        if key not in _lines:
            _lines[key] = found(extras)
        return _lines[key]

    monkeypatch.setattr(contents, "write_wheel", lambda target: shutil.copyfile(wheel, target))
    monkeypatch.setattr(contents, "requirements", requirements)


@pytest.fixture
def as_before(place: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A repeated run gives the records of before, without running; the environment variables that it was given."""
    given: dict[str, str] = {}

    def run(_: object, folder: Path, environment: dict[str, str], __: object) -> int:
        given.update(environment)
        shutil.copytree(place / "mine", folder / AGAIN, dirs_exist_ok=True)
        (folder / LOG_FILE).write_text("as before\n")
        return 0

    monkeypatch.setattr(repetition, "_run", run)
    return given
