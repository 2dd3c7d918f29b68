"""Runs that end early: interrupted, killed, or with a system that dies. What was measured stays."""

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

from deep_bench.network.result import Result
from deep_bench.testing.adapter import small_network

PATIENCE = 120.0


def start(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    small_network().save(tmp_path / "small.onnx")
    command = [sys.executable, "-c", "from deep_bench.cli import main; main()", "run", str(tmp_path / "small.onnx")]
    options = ["--on", "reference", "--output", str(tmp_path / "results"), "--ci-width", "0.0001", "--no-twin", *words]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def records(tmp_path: Path) -> list[Result]:
    return [Result.load(f) for f in (tmp_path / "results").glob("*.json")]


def judged(tmp_path: Path) -> bool:
    return any(r["reference"].verdict == "right" for r in records(tmp_path))


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return [c for c in psutil.Process(process.pid).children() if "deep_bench.workers.worker" in " ".join(c.cmdline())]
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)], ids=lambda s: s.name
)
def test_ctrl_c_and_time_limits_keep_what_was_measured(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, "--budget", "60s")
    wait_until(lambda: judged(tmp_path))
    left = workers(process)
    time.sleep(1.0)  # some blocks
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "interrupted" in out
    assert "Traceback" not in err
    (result,) = records(tmp_path)
    assert result.record.interrupted
    assert not result.record.complete
    assert result["reference"].median is not None
    wait_until(lambda: not any(w.is_running() and w.status() != psutil.STATUS_ZOMBIE for w in left))


def test_a_killed_run_leaves_its_record(tmp_path: Path) -> None:
    process = start(tmp_path, "--budget", "60s")
    wait_until(lambda: judged(tmp_path) and records(tmp_path)[0]["reference"].median is not None)  # kept while measuring
    left = workers(process)
    process.kill()
    process.communicate(timeout=PATIENCE)
    (result,) = records(tmp_path)
    assert not result.record.complete
    assert "did not finish" in result.table()
    assert result["reference"].verdict == "right"
    wait_until(lambda: not any(w.is_running() and w.status() != psutil.STATUS_ZOMBIE for w in left))


@pytest.mark.long
def test_a_killed_system_costs_only_itself(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    process = start(tmp_path, "--on", "onnxruntime", "--budget", "4s")
    wait_until(lambda: judged(tmp_path) and len(workers(process)) == 2)
    os.kill(max(w.pid for w in workers(process)), signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, err
    (result,) = records(tmp_path)
    assert result.record.complete
    (failed,) = result.failures
    assert "SIGKILL" in failed.reason
    assert "SIGKILL" in out
    other = next(s for s in result.values() if s.label != failed.label)
    assert other.median is not None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_one_message() -> None:
    command = [sys.executable, "-c", "from deep_bench.cli import main; main(['doctor', '--json'])"]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 1
    assert "could not be written" in run.stderr
    assert "Traceback" not in run.stderr
