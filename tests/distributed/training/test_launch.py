"""Which rank a process is, by what started it, and what it is bound to."""

from __future__ import annotations

import os
from typing import Any

import pytest

from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.launch import Launch, bound, check_joined, distributed_world, launch, local_facts
from deep_bench.errors import CommunicationFailed, InvalidArgument, UnknownName

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURMD_NODENAME": "n2",
}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (OPEN_MPI, ("Open MPI", 3, 4, 1, 2)),
        (SLURM, ("SLURM", 5, 8, 1, 4)),
        ({**SLURM, **OPEN_MPI}, ("Open MPI", 3, 4, 1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, ("MPICH", 1, 2, 1, 2)),
        ({"PMI_RANK": "6", "PMI_SIZE": "8", "SLURM_LOCALID": "2"}, ("MPICH", 6, 8, 2, None)),
        ({"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, ("torchrun", 2, 4, 0, 2)),
        ({"SLURM_JOB_ID": "77", "SLURM_NTASKS": "8"}, ("", 0, 1, 0, 1)),  # a batch script itself
        ({"RANK": "2"}, ("", 0, 1, 0, 1)),
        ({}, ("", 0, 1, 0, 1)),
    ],
)
def test_the_variables_of_each_launcher_are_read(variables: Any, expected: Any) -> None:
    found = launch(variables)
    assert (found.launcher, found.rank, found.size, found.local_rank, found.local_size) == expected
    assert found.started == bool(expected[0])


def test_job_and_node_are_told() -> None:
    assert (launch(SLURM).node, launch(SLURM).job) == ("n2", "77.0")
    assert launch({**OPEN_MPI, "SLURM_JOB_ID": "8"}).job == "8"
    with pytest.raises(InvalidArgument, match="OMPI_COMM_WORLD_RANK='x'"):
        launch({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "x"})


def test_a_gpu_for_each_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    third = Launch("SLURM", 6, 8, 2, 4, "n", "")
    assert bound("torch:device=cuda,threads=2", third, {}) == "torch:device=cuda:2,threads=2"
    assert bound("torch:device=cuda", third, {"CUDA_VISIBLE_DEVICES": "5"}) == "torch:device=cuda:0"
    assert bound("torch:device=cpu", third, {}) == "torch:device=cpu"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert bound("onnxruntime:device=cuda", third) == "onnxruntime:device=cuda"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"


def test_what_a_record_keeps_of_a_process() -> None:
    facts = local_facts(launch(SLURM), "torch:device=cuda:1")
    assert facts["cpus"] == sorted(os.sched_getaffinity(0))
    assert (facts["node"], facts["local_rank"], facts["device"]) == ("n2", 1, "torch:device=cuda:1")


def test_a_process_that_nothing_started_is_alone() -> None:
    world = distributed_world(None, {})
    assert (world.name, world.rank, world.size) == ("local", 0, 1)
    with pytest.raises(UnknownName):
        distributed_world("smoke signals")


def test_processes_that_a_launcher_started_must_have_joined() -> None:
    alone = LocalCommunicator()
    check_joined(alone, launch({}))
    check_joined(alone, launch({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}))
    with pytest.raises(CommunicationFailed, match=r"SLURM started 8 processes, and 1 of them joined[\s\S]*--mpi=pmix"):
        check_joined(alone, launch(SLURM))
