"""Ranks that are processes under MPI."""

import os

import pytest

from deep_bench.testing.communicator_checks import COMMUNICATOR_CHECKS
from deep_bench.testing.communicators import RANKS
from tests.distributed.launched import launched

SUITE = "deep_bench.testing.communicators"
RANKS_PROGRAM = "tests.distributed.communicators.mpi_ranks"


@pytest.mark.parametrize("ranks", [n if n < 4 else pytest.param(n, marks=pytest.mark.long) for n in RANKS])
def test_conforms(ranks):
    done = launched(ranks, SUITE, "mpi", timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        f"rank 0 of {ranks}: {len(COMMUNICATOR_CHECKS)} checks, 0 faults (communicator mpi, library Open MPI 5"
        in done.stdout
    )


@pytest.mark.long
def test_one_that_has_messages_only_conforms():
    done = launched(3, SUITE, "tests.distributed.communicators.minimal:Minimal", timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults (communicator minimal)" in done.stdout


def test_a_check_that_hangs_is_named():
    done = launched(2, SUITE, "tests.distributed.communicators.minimal:Hanging", "--limit", "1", timeout_s=60)
    assert done.returncode != 0
    assert "rank 0 of 2, moves: TypeError: no such array" in done.stdout
    assert "rank 1 of 2, moves: not at its end after 1 s" in done.stderr
    assert "in moves" in done.stderr  # the stack


def test_what_only_mpi_has():
    monitored = {"OMPI_MCA_pml_monitoring_enable": "1"}
    done = launched(2, RANKS_PROGRAM, "monitored", environment=monitored)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["fine"] * 2


def test_a_rank_that_raises_ends_all():
    done = launched(2, RANKS_PROGRAM, "fails")
    assert done.returncode != 0
    assert "ended the run: InvalidArgument: a step of 0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif("DEEP_BENCH_MPICH" not in os.environ, reason="DEEP_BENCH_MPICH, the mpiexec of an MPICH, is not set")
def test_conforms_with_mpich():
    launcher = os.environ["DEEP_BENCH_MPICH"]
    for ranks in (1, 3):
        done = launched(ranks, SUITE, "mpi", launcher=launcher, timeout_s=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "library MPICH" in done.stdout
    done = launched(2, RANKS_PROGRAM, launcher=launcher)
    assert done.returncode == 0, done.stdout + done.stderr
