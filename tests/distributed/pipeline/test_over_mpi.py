"""Pipelines whose ranks are processes."""

import pytest

from tests.distributed.launched import launched


def test_two_processes_train_as_one_does():
    pytest.importorskip("mpi4py")
    done = launched(2, "tests.distributed.pipeline.over_mpi")
    assert done.returncode == 0, done.stdout + done.stderr
    found = sorted(line.partition(" kept")[0] for line in done.stdout.splitlines())
    assert found == ["1f1b, rank 0: 2", "1f1b, rank 1: 1", "gpipe, rank 0: 5", "gpipe, rank 1: 5"]
