from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from deep_bench.errors import InvalidArgument, InvalidInput, WorkerDied, WorkerError
from deep_bench.workers.evidence import MOST_BYTES, cause
from deep_bench.workers.process import Worker
from deep_bench.workers.remote import Place

HERE = Path(__file__).parent
Start = Callable[..., Worker]


def state(pid: int) -> str:
    """The state of a process (R, S, T, Z), or X if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def reached(states: str, *pids: int) -> bool:
    """Whether all processes come to be in one of the states within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if all(state(pid) in states for pid in pids):
            return True
        time.sleep(0.01)
    return False


def test_methods_run_in_the_other_process(start: Start) -> None:
    worker = start(arguments={"size": 10})
    assert worker.call("total", scale=2.0) == 20.0
    assert worker.facts["pid"] == worker.pid != os.getpid()
    assert worker.facts["cpus"] == sorted(os.sched_getaffinity(0))
    assert worker.call("echo", {"a": [1, None]}) == {"a": [1, None]}


def test_prepare_reports_the_system_and_its_process(start: Start) -> None:
    prepared = start().prepare()
    assert prepared["calls"] == ("native", "numpy")
    assert prepared["threaded"] is False
    assert prepared["prepare_ns"] > 0
    assert prepared["stamp_overhead_ns"] > 0
    assert prepared["process"]["peak_memory_bytes"] > 2**20


def test_peak_memory_is_that_of_the_worker(start: Start) -> None:
    worker = start()
    before = worker.process_facts()["peak_memory_bytes"]
    worker.call("allocate", 2**26)
    assert worker.process_facts()["peak_memory_bytes"] - before > 2**25


def test_sampling_happens_there_and_keeps_the_first_call_apart(start: Start) -> None:
    worker = start()
    worker.prepare()
    assert worker.warm_up("native", max_ns=100_000_000).batch > 1
    block = worker.sample("native", min_ns=0, min_calls=10)
    assert block.resume_ns is not None
    assert len(block.ns) * block.batch >= 10


def test_chatter_goes_to_the_log(start: Start, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    start().prepare()
    assert capfd.readouterr() == ("", "")
    assert "chatter on stdout\nchatter on stderr\n" in (tmp_path / "log").read_text()


def test_much_chatter_is_cut_between_requests_and_begin_and_end_are_kept(start: Start, tmp_path: Path) -> None:
    worker = start()
    worker.prepare()
    worker.call("chatter", 2 * MOST_BYTES)
    log = (tmp_path / "log").read_bytes()
    assert len(log) < MOST_BYTES
    assert b"chatter on stdout" in log[:200]
    assert b"bytes of this log were left out" in log
    assert log.endswith(b"xxxx")
    worker.prepare()
    assert (tmp_path / "log").read_bytes().endswith(b"chatter on stdout\nchatter on stderr\n")


def test_much_chatter_is_cut_while_it_goes_on(start: Start, tmp_path: Path) -> None:
    assert start(limit_s=60).call("chatter_until_cut") > MOST_BYTES
    assert b"bytes of this log were left out" in (tmp_path / "log").read_bytes()


def test_a_long_message_loses_its_middle(start: Start) -> None:
    with pytest.raises(WorkerError, match=r"ValueError: begin xxx.*characters left out.* end") as caught:
        start().call("complain", 100_000)
    assert len(str(caught.value)) < 2_000
    assert len(caught.value.details) < 30_000
    assert "in complain" in caught.value.details


def test_environment_variables_are_set_and_removed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    worker = start(environment={"OMP_NUM_THREADS": "1", "GONE": None})
    assert worker.call("environment", "OMP_NUM_THREADS") == "1"
    assert worker.call("environment", "GONE") is None


def test_an_error_of_ours_comes_back_as_it_was(start: Start) -> None:
    worker = start()
    with pytest.raises(InvalidInput) as caught:
        worker.call("refuse")
    assert (caught.value.came, caught.value.expected, caught.value.advice) == ("came", "expected", "advice")
    assert "in refuse" in caught.value.__notes__[0]
    assert worker.call("total") == 64.0


def test_any_other_error_has_the_traceback(start: Start) -> None:
    worker = start()
    with pytest.raises(WorkerError, match="ZeroDivisionError: on purpose") as caught:
        worker.call("fail")
    assert "in fail" in caught.value.details
    assert worker.call("total") == 64.0


@pytest.mark.parametrize("method", ["unpicklable", "leave", "no_such_method"])
def test_a_worker_survives_what_cannot_be_answered(start: Start, method: str) -> None:
    worker = start()
    with pytest.raises(WorkerError):
        worker.call(method)
    assert worker.call("total") == 64.0


@pytest.mark.parametrize(
    ("method", "argument", "words"),
    [("kill", signal.SIGKILL, "SIGKILL"), ("kill", signal.SIGTERM, "SIGTERM"), ("exit", 3, "exit status 3")],
)
def test_a_worker_that_ends_says_how(start: Start, method: str, argument: int, words: str) -> None:
    worker = start(label="tiny")
    for _ in range(2):
        with pytest.raises(WorkerDied, match=f"tiny: its process .*{words}.* during '{method}'"):
            worker.call(method, argument)
    with pytest.raises(WorkerDied):
        worker.pause()


def test_a_crash_leaves_its_trace_in_the_details(start: Start) -> None:
    with pytest.raises(WorkerDied, match="crashed \\(SIGSEGV\\)") as caught:
        start().call("crash")
    assert "Segmentation fault" in caught.value.details
    assert "in crash" in caught.value.details


def test_a_worker_killed_while_idle_is_noticed(start: Start) -> None:
    worker = start()
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        worker.call("total")


def test_a_worker_killed_while_stopped_is_noticed(start: Start) -> None:
    worker = start()
    worker.pause()
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        worker.call("total")


def test_memory_beyond_the_limit_is_refused_and_the_worker_lives(start: Start) -> None:
    worker = start(memory_limit=2**30)
    with pytest.raises(WorkerError, match="ran out of memory in 'allocate'"):
        worker.call("allocate", 2**31)
    assert worker.call("allocate", 2**20) == 2**20


def test_a_kill_by_the_kernel_for_memory_is_told_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_bench.workers.evidence.oom_kills", lambda: 4)
    assert "out of memory" in cause(-signal.SIGKILL, 3)
    assert "memory" not in cause(-signal.SIGKILL, 4)
    assert "perhaps" in cause(-signal.SIGKILL, None)


def test_pausing_stops_the_process_and_resuming_continues_it(start: Start) -> None:
    worker = start()
    for _ in range(5):
        worker.pause()
        assert state(worker.pid) == "T"
        worker.resume()
        assert worker.call("total") == 64.0


def test_what_a_worker_starts_is_stopped_and_ended_with_it(start: Start) -> None:
    worker = start()
    child = worker.call("spawn")
    worker.pause()
    assert reached("T", child)
    worker.close()
    assert reached("XZ", child, worker.pid)


def test_a_stopped_worker_can_be_closed(start: Start) -> None:
    worker = start()
    worker.pause()
    worker.close()
    assert state(worker.pid) == "X"
    worker.close()
    with pytest.raises(WorkerError, match="closed"):
        worker.call("total")


def test_an_interrupt_during_a_call_spoils_the_worker(start: Start) -> None:
    worker = start()
    with pytest.raises(KeyboardInterrupt):
        worker.call("interrupt", os.getpid())
    with pytest.raises(WorkerError, match="interrupted"):
        worker.call("total")
    worker.close()
    assert state(worker.pid) == "X"


def test_ctrl_c_in_the_terminal_does_not_reach_it(start: Start) -> None:
    worker = start()
    assert os.getpgid(worker.pid) != os.getpgid(0)
    os.kill(worker.pid, signal.SIGINT)
    assert worker.call("total") == 64.0


@pytest.mark.parametrize(
    ("factory", "error", "words"),
    [
        ("tiny_systems:unbuildable", WorkerError, "cannot be built"),
        ("tiny_systems:absent", InvalidArgument, "has no 'absent'"),
        ("tiny_systems", InvalidArgument, "package.module:attribute"),
        ("no_such_module:x", WorkerError, "no_such_module"),
    ],
)
def test_what_cannot_be_built_leaves_no_process(factory: str, error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        Worker(factory, log=tmp_path / "log", path=[HERE])
    assert not [
        p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE and "measure.worker" in str(p.cmdline())
    ]


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot start a worker"):
        Worker("tiny_systems:Tiny", log=tmp_path / "no" / "log", path=[HERE])


def test_a_missing_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot start a worker"):
        Worker("tiny_systems:Tiny", log=tmp_path / "log", place=Place("envs/none", ("/no/python",)))


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("launcher", [[], ["nohup"]], ids=["", "nohup"])
def test_no_orphan_is_left_when_the_parent_is_killed(launcher: list[str], paused: bool, number: int, tmp_path: Path) -> None:
    program = f"""
        import time
        from pathlib import Path
        from deep_bench.workers.process import Worker
        worker = Worker("tiny_systems:Tiny", log=Path({str(tmp_path / "log")!r}), path=[{str(HERE)!r}])
        child = worker.call("spawn") if {paused} else worker.pid
        if {paused}:
            worker.pause()
        print(worker.pid, child, flush=True)
        time.sleep(60)
    """
    command = [*launcher, sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(n) for n in parent.stdout.readline().split()]
        before = reached("T" if paused else "SR", *pids)
        parent.send_signal(number)
    assert before
    assert reached("XZ", *pids)
