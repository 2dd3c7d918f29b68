"""Which interpreter a name or a path leads to, and what is said where it leads to none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deep_bench.environments import Declarations, place_of
from deep_bench.errors import InvalidArgument, UnknownName


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def made(folder: Path, name: str = "python") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / name).symlink_to(sys.executable)
    return folder / "bin" / name


def test_a_folder_with_a_python_is_an_environment(tmp_path: Path) -> None:
    venv, conda = made(tmp_path / "envs" / "venv"), made(tmp_path / "envs" / "conda", "python3")
    assert place_of("envs/venv").command == (str(venv),)
    assert place_of(str(tmp_path / "envs" / "conda")).command == (str(conda),)
    assert place_of("./envs/venv/").name == "./envs/venv/"


def test_an_interpreter_is_an_environment(tmp_path: Path) -> None:
    python = made(tmp_path / "venv")
    assert place_of("venv/bin/python").command == (str(python),)


def test_a_folder_right_here_needs_no_slash(tmp_path: Path) -> None:
    python = made(tmp_path / "venv")
    assert place_of("venv", declared=Declarations({}, Path("e.yaml"))).command == (str(python),)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("envs/torhc29", "did you mean envs/torch29"),
        ("envs/empty", "is no Python environment: it has no bin/python"),
        ("envs/gone", "its python leads to an interpreter that is gone"),
        ("envs/text", "cannot be executed"),
        ("nowhere/at/all", "there is no environment nowhere/at/all"),
    ],
)
def test_what_is_no_environment_says_so(tmp_path: Path, path: str, words: str) -> None:
    made(tmp_path / "envs" / "torch29")
    (tmp_path / "envs" / "empty").mkdir()
    (tmp_path / "envs" / "text").write_text("a file")
    (tmp_path / "envs" / "gone" / "bin").mkdir(parents=True)
    (tmp_path / "envs" / "gone" / "bin" / "python").symlink_to(tmp_path / "removed")
    with pytest.raises(InvalidArgument, match=words):
        place_of(path)


def test_a_misspelt_name_has_a_nearest_one() -> None:
    declared = Declarations({"torch29": {}}, Path("environments.yaml"))
    with pytest.raises(UnknownName, match="did you mean 'torch29'"):
        place_of("torch92", declared=declared)
    with pytest.raises(InvalidArgument, match="deep-bench environments build torch29"):
        place_of("torch29", declared=declared)
    with pytest.raises(UnknownName, match=r"declare it in environments\.yaml"):
        place_of("zzz", declared=declared)


def test_two_dots_are_a_path_and_no_way_out_of_the_cache() -> None:
    with pytest.raises(InvalidArgument, match=r"no bin/python"):
        place_of("..")
