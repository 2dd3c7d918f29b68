"""A cache of their own for these tests, which need a compiler."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(shared_cache))
    for name in ("CC", "CXX", "NVCC"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("needs gcc and g++")
