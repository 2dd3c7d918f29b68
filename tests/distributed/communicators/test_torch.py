"""Ranks that are processes under torch.distributed, by gloo."""

import os
import subprocess
import sys

import pytest

from deep_bench.adapters.torch.joining import launched_as
from tests.distributed.launched import launched


@pytest.mark.parametrize("ranks", [2, 3])
def test_conforms_when_ranks_meet_over_mpi(ranks):
    done = launched(ranks, "tests.distributed.communicators.torch_ranks", timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["fine"] * ranks


def test_one_rank_from_torchruns_environment():
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "deep_bench.testing.communicators", "torch"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "met torchrun's environment" in done.stdout


def test_launchers_tell_ranks():
    assert launched_as({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}) == (1, 2)
    assert launched_as({"PMI_RANK": "1", "PMI_SIZE": "4"}) == (1, 4)
    assert launched_as({}) is None
