"""Which of several processes this is, by what started it; and what it is bound to."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import psutil

from deep_bench import communicators
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import CommunicationFailed, InvalidArgument

Over: TypeAlias = Literal["mpi", "torch", "local"]

_LAUNCHERS: Mapping[str, tuple[str, ...]] = {
    # launcher: rank, size, local rank, ranks on this node, job; in the order in which they are looked for
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
    "Open MPI": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMIX_NAMESPACE",
    ),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"),
    "SLURM": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_ID"),
}

_LONGER_S = 60.0
"""Ranks that watch each other tell who keeps them waiting, which an operation that gives up before could not."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What the launcher says of this process.

    Args:
        launcher: What started it; empty if nothing known did.
        rank: Its number, from 0.
        size: The number of processes.
        local_rank: Its number on this node.
        local_size: The number of processes on this node, where it is told.
        node: The node's name.
        job: The job's name or number, where it is told.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int | None
    node: str
    job: str

    @property
    def started(self) -> bool:
        """Whether a launcher did: otherwise this is the only process."""
        return bool(self.launcher)


def launch(variables: Mapping[str, str] | None = None) -> Launch:
    """Read the variables that torchrun, Open MPI, MPICH and SLURM set.

    Within an ``srun`` that starts MPI's ranks both it and MPI set theirs; MPI's count. A batch script's own variables are
    not those of a process that ``srun`` started, and mean nothing here.

    Args:
        variables: Of the environment; this process's by default.

    Raises:
        InvalidArgument: A rank or size that is no number.

    Example:
        >>> found = launch({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "77",
        ...                 "SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n2"})
        >>> found.launcher, found.rank, found.size, found.local_rank, found.local_size, found.node, found.job
        ('SLURM', 5, 8, 1, 4, 'n2', '77.0')
        >>> launch({}).started
        False
    """
    environment = os.environ if variables is None else variables
    node = environment.get("SLURMD_NODENAME") or socket.gethostname()
    for launcher, (rank, size, local, beside, job) in _LAUNCHERS.items():
        if rank in environment and size in environment:
            local_rank = environment.get(local, environment.get("SLURM_LOCALID", "0"))
            numbers = (_number(rank, environment[rank]), _number(size, environment[size]), _number(local, local_rank))
            return Launch(launcher, *numbers, _beside(environment.get(beside, "")), node, _job(environment, job))
    return Launch("", 0, 1, 0, 1, node, _job(environment, ""))


def distributed_world(
    over: Over | str | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    threads: bool = False,
    patience_s: float | None = None,
) -> Communicator:
    """All processes that were started together.

    Args:
        over: What they talk by: ``"mpi"``, ``"torch"``, or ``"local"``, which is this process alone. By default MPI if a
            launcher started several, else local.
        variables: Of the environment; this process's by default.
        threads: Whether several threads of each are going to talk at the same time, which MPI must know when it begins.
        patience_s: How long ranks wait over torch until all have come, and somewhat less than how long they wait for each
            other afterwards; the communicator's own patience by default. MPI's launcher sees to it that all come.

    Raises:
        UnknownName: No such communicator.
        FrameworkMissing: It is not installed.
        Unsupported: An MPI that takes no calls of several threads.
        CommunicationFailed: A launcher started another number than have found each other.
        RanksAbsent: Some did not come within the patience.

    Example:
        >>> distributed_world("local").size
        1
    """
    if over is None:
        over = "mpi" if launch(variables).size > 1 else "local"
    options: dict[str, Any] = {"threads": "multiple"} if threads and over == "mpi" else {}
    if patience_s is not None and over == "torch":
        options |= {"meeting_s": patience_s, "patience_s": patience_s + _LONGER_S}
    comm: Communicator = communicators[over](**options)
    if over != "local":
        check_joined(comm, launch(variables))
    return comm


def check_joined(comm: Communicator, started: Launch) -> None:
    """See that all processes which a launcher started are ranks together: else each would train, and write, alone.

    Args:
        comm: The ranks that have found each other.
        started: What the launcher says.

    Raises:
        CommunicationFailed: They are fewer, or more.

    Example:
        >>> from deep_bench.distributed.communicators.local import LocalCommunicator
        >>> check_joined(LocalCommunicator(), Launch("SLURM", 0, 2, 0, 2, "n0", "7.0"))
        Traceback (most recent call last):
        deep_bench.errors.CommunicationFailed: SLURM started 2 processes, and 1 of them joined by 'local'
        Expected: all of them as ranks of one run
        What to do: srun --mpi=pmix (see srun --mpi=list), the mpirun of the MPI that mpi4py is built for, or --over torch
    """
    if started.started and comm.size != started.size:
        raise CommunicationFailed(
            f"{started.launcher} started {started.size} processes, and {comm.size} of them joined by {comm.name!r}",
            "all of them as ranks of one run",
            "srun --mpi=pmix (see srun --mpi=list), the mpirun of the MPI that mpi4py is built for, or --over torch",
        )


def bound(on: str, started: Launch, variables: Mapping[str, str] | None = None) -> str:
    """A framework whose device is ``cuda``, on the GPU of this local rank.

    torch is given the number; for others, which take no number, the process is shown this GPU alone
    (``CUDA_VISIBLE_DEVICES``), which must happen before the framework is imported.

    Args:
        on: The framework, as on the command line.
        started: Which process this is.
        variables: Of the environment; this process's by default.

    Returns:
        The framework to take.

    Example:
        >>> second = Launch("torchrun", 3, 4, 1, 2, "n", "")
        >>> bound("torch:device=cuda", second, {}), bound("torch", second, {}), bound("torch:device=cuda:0", second, {})
        ('torch:device=cuda:1', 'torch', 'torch:device=cuda:0')
    """
    if not re.search(r"device=cuda(?=,|$)", on):
        return on
    environment = os.environ if variables is None else variables
    shown = [device for device in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    index = started.local_rank % len(shown) if shown else started.local_rank
    if on.partition(":")[0] == "torch":
        return re.sub(r"device=cuda(?=,|$)", f"device=cuda:{index}", on)
    if variables is None:
        os.environ["CUDA_VISIBLE_DEVICES"] = shown[index] if shown else str(index)
    return on


def local_facts(started: Launch, on: str = "") -> dict[str, Any]:
    """What a record keeps of this process: where it runs, and what it is bound to.

    Example:
        >>> sorted(local_facts(launch({}), "torch"))[:4]
        ['cpus', 'device', 'host', 'job']
    """
    process = psutil.Process()
    cpus = sorted(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else []
    threads = {name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")}
    return {
        **{name: value for name, value in asdict(started).items() if name not in ("rank", "size")},
        "host": socket.gethostname(),
        "pid": process.pid,
        "cpus": cpus,
        "device": on,
        "threads": threads,
    }


def _number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise InvalidArgument(f"{name}={value!r} in the environment", "a whole number")
    return int(value)


def _beside(value: str) -> int | None:
    """The ranks on a node, of SLURM's ``4(x2),3`` those of its first nodes."""
    match = re.match(r"\d+", value)
    return int(match[0]) if match else None


def _job(environment: Mapping[str, str], name: str) -> str:
    number, step = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_STEP_ID", "")
    return f"{number}.{step}".rstrip(".") if number else environment.get(name, "")
