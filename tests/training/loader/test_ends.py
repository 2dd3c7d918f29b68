"""A program that reads ahead and is interrupted or killed leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import multiprocessing, sys
from pathlib import Path
from deep_bench.training.loader import Loader
from deep_bench.training.samplers import Infinite, Sequential
from tests.training.loader.awkward import Rows, Waiting

if __name__ == "__main__":
    told, processes, waits = Path(sys.argv[1]), sys.argv[2] == "processes", sys.argv[3] == "waits"
    dataset = Waiting(told) if waits else Rows(10)
    loader = Loader(dataset, Infinite(Sequential(10, 2)), workers=2, processes=processes)
    for count, _ in enumerate(loader.epoch(0)):
        if count == 3:
            for child in multiprocessing.active_children():
                (told / str(child.pid)).touch()
            (told / "ready").touch()
"""


def within_ten_seconds(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def start(told: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(told), *arguments]
    if "processes" in arguments:  # a spawned process imports the main module again: it must be a file
        (told / "script.py").write_text(SCRIPT, encoding="utf-8")
        command = [sys.executable, str(told / "script.py"), str(told), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def workers(told: Path) -> list[int]:
    return [int(file.name) for file in told.iterdir() if file.name.isdigit()]


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("arguments", [("threads", "reads"), ("processes", "reads"), ("processes", "waits")])
def test_ctrl_c_ends_everything(tmp_path: Path, arguments: tuple[str, str]) -> None:
    program = start(tmp_path, *arguments)
    ready = (lambda: len(workers(tmp_path)) == 2) if "waits" in arguments else (tmp_path / "ready").exists
    assert within_ten_seconds(ready), program.communicate(timeout=1)
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=20)
    assert program.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    assert all(gone(pid) for pid in workers(tmp_path))
    assert [file for file in Path("/dev/shm").iterdir() if file.name.startswith(f"deep_bench-{program.pid}-")] == []


def test_processes_end_when_their_caller_is_killed(tmp_path: Path) -> None:
    program = start(tmp_path, "processes", "reads")
    assert within_ten_seconds((tmp_path / "ready").exists), program.communicate(timeout=1)
    program.kill()
    program.communicate(timeout=20)
    assert len(workers(tmp_path)) == 2
    assert within_ten_seconds(lambda: all(gone(pid) for pid in workers(tmp_path)))
    left = lambda: [f for f in Path("/dev/shm").iterdir() if f.name.startswith(f"deep_bench-{program.pid}-")]  # noqa: E731
    assert within_ten_seconds(lambda: not left())
