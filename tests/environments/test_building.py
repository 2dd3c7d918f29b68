"""Environments that are built for real, from a package that was made here: nothing is downloaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.environments import Declaration, Declarations, Lock, all_built, build, built, differences, place_of, remove
from deep_bench.environments.building import _alone, looked_at
from deep_bench.environments.declaration import folder_of
from deep_bench.errors import InvalidArgument, WorkerError

Wheels = Callable[[str], Path]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tiny(wheels: Path, requirement: str = "tiny>=1.0") -> Declaration:
    return Declaration(requirements=("--no-index", f"--find-links {wheels}", requirement), deep_bench=False)


def version_in(name: str) -> str:
    found = built(name)
    assert found is not None
    told = subprocess.run(
        [found.interpreter, "-c", "import tiny; print(tiny.version)"], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


@pytest.mark.long
def test_an_environment_is_built_once_locked_and_built_again_with_the_same_versions(wheels: Wheels) -> None:
    declaration, said = tiny(wheels("1.0")), list[str]()
    first = build("one", declaration, tell=said.append)
    assert version_in("one") == "1.0"
    assert any(line.startswith("Successfully installed tiny-1.0") for line in said)
    lock = Lock.parse(first.lock, "one")
    assert lock.pins == {"tiny": "1.0"}
    assert lock.hashed
    assert differences(first) == []
    assert all_built() == ["one"]

    said.clear()
    assert build("one", declaration, tell=said.append) == first
    assert said == ["one is built"]

    wheels("1.1")
    again = build("two", declaration, lock=lock)
    assert version_in("two") == "1.0"
    assert again.lock.splitlines()[1:] == first.lock.splitlines()[1:]

    with pytest.raises(InvalidArgument, match="built from another declaration"):
        build("two", tiny(wheels("1.1"), "tiny==1.1"))
    with pytest.raises(InvalidArgument, match="the lock of two was made for another declaration"):
        build("two", tiny(wheels("1.1"), "tiny==1.1"), lock=lock)
    (folder_of("two") / "venv" / "bin" / "python").unlink()
    assert remove("two")
    assert not remove("two")


def test_a_wheel_that_was_changed_since_is_refused(wheels: Wheels, tmp_path: Path) -> None:
    folder = wheels("3.0")
    declaration = tiny(folder, "tiny==3.0")
    lock = Lock(declaration.sha256, {"tiny": "3.0"}, {"tiny": "0" * 64})
    with pytest.raises(WorkerError, match="failed") as caught:
        build("changed", declaration, lock=lock)
    assert "HASHES" in caught.value.details
    assert built("changed") is None


def test_a_build_that_was_ended_is_not_taken_for_a_finished_one(wheels: Wheels) -> None:
    rest = folder_of("ended") / "venv" / "bin"
    rest.mkdir(parents=True)
    (rest / "python").symlink_to(sys.executable)
    assert built("ended") is None
    assert all_built() == []
    with pytest.raises(InvalidArgument, match="the environment ended is not built"):
        place_of("ended", declared=Declarations({"ended": {}}))
    with pytest.raises(WorkerError, match="failed"):
        build("ended", tiny(wheels("1.0"), "no-such-package"))
    assert built("ended") is None


def test_of_two_builds_the_second_waits(wheels: Wheels) -> None:
    waiting, said = threading.Event(), list[str]()

    def tell(line: str) -> None:
        said.append(line)
        waiting.set()

    empty = Declaration(deep_bench=False, python="no_such_python_here")
    failures: list[Exception] = []

    def second() -> None:
        try:
            build("both", empty, tell=tell)
        except InvalidArgument as error:
            failures.append(error)

    with _alone("both", lambda _: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(30)
        assert said == ["another process builds or removes both: waiting for it"]
        assert thread.is_alive()
    thread.join(30)
    assert "there is no no_such_python_here here" in str(failures[0])


def test_the_command_line_from_list_to_remove(
    wheels: Wheels, folder: Path, capsys: pytest.CaptureFixture[str], bare: Path
) -> None:
    def said(*words: str, status: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["environments", *words])
        told = capsys.readouterr()
        assert ended.value.code == status, told.err
        return told.out + told.err

    assert "none is declared in environments.yaml" in said("list")
    lines = ["--no-index", f"--find-links {wheels('2.0')}", "tiny==2.0"]
    (folder / "environments.yaml").write_text(json.dumps({"mine": {"requirements": lines, "deep_bench": False}}))
    assert "not built" in said("list")
    assert "did you mean 'mine'" in said("build", "mime", status=2)
    assert "is not built" in said("check", "mine", status=2)
    assert "locked tiny 2.0; lock" in said("build", "mine")
    assert "mine.lock.txt\n" in said("lock", "mine")
    assert "the versions are those of mine.lock.txt" in said("build", "--again", "mine")
    assert json.loads(said("list", "--json"))[0]["state"] == "built"
    lock = folder / "mine.lock.txt"
    kept = lock.read_text()
    lock.write_text(kept.replace("tiny==2.0", "tiny==1.0"))
    told = said("check", "mine", status=2)
    assert "not as in mine.lock.txt: tiny 1.0 was built as 2.0" in told
    assert "NumPy cannot be used there" in told
    lock.write_text("junk\n")
    assert "has the line 'junk'" in said("check", "mine", status=2)
    lock.write_text(kept)
    assert "deep_bench is not installed there" in said("check", str(bare), status=2)
    assert "mine is removed" in said("remove", "mine")
    assert "unknown environment 'mine'" in said("remove", "mine", status=2)
    for name in ("..", "../cache", "/etc", "-x y"):
        assert "an environment named" in said("remove", "--", name, status=2)
    assert Path("environments.yaml").exists()


def test_a_cache_that_cannot_be_made_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "environments.yaml").write_text(json.dumps({"mine": {"requirements": []}}))
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(folder / "environments.yaml" / "cache"))
    with pytest.raises(SystemExit) as ended:
        main(["environments", "build", "mine"])
    assert ended.value.code == 1
    assert f"Not a directory: {folder / 'environments.yaml' / 'cache'}" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.real
def test_another_onnxruntime_beside_this_one(make_environment: Callable[..., Path], tmp_path: Path) -> None:
    """The one environment of `make test` with a package that is fetched; all else in it is this environment's."""
    pytest.importorskip("onnxruntime")
    import deep_bench as db
    from tests.environments.conftest import PACKAGES, ROOT

    fetched = tmp_path / "onnxruntime"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(fetched), "onnxruntime==1.22.1"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    if done.returncode:
        pytest.skip(f"onnxruntime 1.22.1 cannot be fetched here: {done.stderr.strip().splitlines()[-1:]}")
    label = f"onnxruntime@{make_environment('older', fetched, ROOT, PACKAGES)}"
    found = db.run("digits-cnn", ["onnxruntime", label], batch=2, budget=0.5, twin=False, progress=False)
    assert [found[name].verdict for name in found] == ["right", "right"]
    versions = [found[name].record.facts["version"] for name in found]
    assert versions[1] == "1.22.1"
    assert versions[0] != versions[1]


@pytest.mark.full
@pytest.mark.real
def test_a_declared_onnxruntime_is_built_with_all_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    import deep_bench as db

    monkeypatch.delenv("PIP_CONFIG_FILE")
    found = build("older", Declaration(requirements=("onnxruntime==1.22.1",)))
    assert looked_at(place_of("older"))["packages"]["onnxruntime"] == "1.22.1"
    result = db.run("digits-cnn", ["onnxruntime", "onnxruntime@older"], budget=1.0, twin=False, progress=False)
    assert [result[name].verdict for name in result] == ["right", "right"]
    assert result["onnxruntime@older"].record.facts["environment"]["lock_sha256"] == found.lock_sha256
