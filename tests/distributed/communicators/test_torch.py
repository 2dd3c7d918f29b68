"""Ranks that are processes under torch.distributed, by gloo."""

import os
import signal
import socket
import subprocess
import sys

import pytest
import torch.distributed as dist
from click.testing import CliRunner

import deep_bench as db
from deep_bench.adapters.torch.communicator import TorchCommunicator
from deep_bench.adapters.torch.rendezvous import launched_as
from deep_bench.cli.train import command
from deep_bench.errors import CommunicationFailed, InvalidArgument, RanksAbsent
from tests.distributed.launched import launched


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3])
def test_conforms_when_ranks_meet_over_mpi(ranks):
    done = launched(ranks, "tests.distributed.communicators.torch_ranks", timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["fine"] * ranks


@pytest.mark.long
def test_ranks_meet_by_torchruns_environment():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "deep_bench.testing.communicators", "torch"],
            env={**os.environ, "OMP_NUM_THREADS": "1", **_environment(rank, 2, port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [one.communicate(timeout=120)[0] for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0, 0], told
    assert "met torchrun's environment" in told[0]


def _environment(rank, size, port):
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(size)}


@pytest.fixture
def alone(monkeypatch):
    """A port, and a process that says it is one of three ranks that meet there; the others never come."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    monkeypatch.setattr(dist, "is_initialized", lambda: False)  # as another test may have left it

    def start(rank):
        for name, value in {**_environment(rank, 3, port), "LOCAL_RANK": "0"}.items():
            monkeypatch.setenv(name, value)
        return f"127.0.0.1:{port}"

    return start


def test_ranks_that_do_not_come_are_named(alone):
    place = alone(0)
    with pytest.raises(RanksAbsent, match=f"1 of 3 ranks joined at {place} within 0.2 s; not there: rank 1, 2") as caught:
        TorchCommunicator(meeting_s=0.2)
    assert caught.value.teller == 0
    assert "--patience" in caught.value.advice
    place = alone(2)
    with pytest.raises(RanksAbsent, match=f"rank 2 of 3 found nobody at {place} within 0.2 s") as caught:
        TorchCommunicator(meeting_s=0.2)
    assert caught.value.teller == 2


def test_training_ends_after_the_patience(alone, capfd, tmp_path):
    place = alone(0)
    options = ["--over", "torch", "--distributed", "allreduce", "--patience", "0.2s", "--output", str(tmp_path)]
    ended = CliRunner().invoke(command, ["digits", "--on", "reference", *options])
    assert ended.exit_code == 3, ended.output
    told = capfd.readouterr().err
    assert f"1 of 3 ranks joined at {place}" in told
    assert "What to do:" in told


def test_a_port_that_is_taken_or_is_none_is_told(monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CommunicationFailed, match=f"rank 0 cannot open {place}"):
            TorchCommunicator(address=place, meeting_s=0.2)
    for wrong in ("127.0.0.1", "127.0.0.1:70000", "127.0.0.1:first"):
        with pytest.raises(InvalidArgument):
            TorchCommunicator(address=wrong)
    with pytest.raises(InvalidArgument, match="more than 0"):
        TorchCommunicator(patience_s=0)


def test_signals_are_heard_while_ranks_meet(alone):
    alone(0)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            TorchCommunicator(meeting_s=60.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_without_mpi4py_several_ranks_are_told_what_to_do(monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: False)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setattr(type(db.communicators), "missing", lambda _, name: ("mpi4py",) if name == "mpi" else ())
    with pytest.raises(CommunicationFailed) as caught:
        TorchCommunicator()
    assert "pip install" in caught.value.advice
    for name, value in _environment(0, 2, 0).items():
        if name.startswith("MASTER"):
            monkeypatch.setenv(name, value)
    with pytest.raises(RanksAbsent, match="1 of 2 ranks joined"):
        TorchCommunicator(meeting_s=0.2)


def test_launchers_tell_ranks():
    assert launched_as({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}) == (1, 2)
    assert launched_as({"PMI_RANK": "1", "PMI_SIZE": "4"}) == (1, 4)
    assert launched_as({}) is None
