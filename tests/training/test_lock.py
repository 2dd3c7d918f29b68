"""A folder of checkpoints belongs to one run at a time."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.checkpoint import FILE, Checkpoints, FolderLock
from tests.training import small

_HOLDS = """
import sys
from deep_bench.training.checkpoint import FolderLock
mine = FolderLock(sys.argv[1])
mine.take()
print("taken", flush=True)
sys.stdin.read()
"""


def test_another_process_is_named_and_its_death_gives_the_folder_back(tmp_path: Path) -> None:
    pipe: Any = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _HOLDS, str(tmp_path)], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        run = small.trainer(callbacks=[Checkpoints(tmp_path)])
        with pytest.raises(InvalidArgument, match=f"in use by another run: process {other.pid} on ") as refused:
            run.run(epochs=1)
        assert "name another folder" in refused.value.advice
        other.kill()
    assert small.trainer(callbacks=[Checkpoints(tmp_path)]).run(epochs=1).steps
    assert list(tmp_path.glob("step_*.h5"))


def test_a_run_holds_its_folder_until_it_ends_and_no_longer(tmp_path: Path) -> None:
    said: list[str] = []

    class Second:
        moments = (Moment.AFTER_STEP,)

        def __call__(self, *_: Any) -> None:
            try:
                Checkpoints(tmp_path).hold()
            except InvalidArgument as error:
                said.append(str(error))

    trainer = small.trainer(callbacks=[Checkpoints(tmp_path), Second()])
    trainer.run(steps=2)
    assert len(said) == 2
    assert not (tmp_path / FILE).exists()
    assert trainer.run(steps=3).steps == 3
    (tmp_path / FILE).write_text("\x1b[2J" + "x" * 10_000)  # a hostile one is cut and cannot move the cursor
    mine = FolderLock(tmp_path)
    mine.take()
    (tmp_path / FILE).write_text("\x1b[2J" + "x" * 10_000)
    with pytest.raises(InvalidArgument) as refused:
        FolderLock(tmp_path).take()
    assert "\x1b" not in refused.value.came
    assert len(refused.value.came) < 600


def test_without_locks_a_run_goes_on_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.warns(RuntimeWarning, match="a file system without locks"):
        FolderLock(tmp_path).take()
    with pytest.raises(InvalidArgument, match="cannot write"):
        FolderLock(tmp_path / "missing").take()


def test_a_link_in_its_place_empties_no_other_file(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("dear")
    (tmp_path / FILE).symlink_to(other)
    with pytest.raises(InvalidArgument, match="cannot write"):
        FolderLock(tmp_path).take()
    assert other.read_text() == "dear"
