"""Training under a real SLURM: ``srun`` with PMIx, and a job script handed to ``sbatch``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.distributed.slurm.cluster import cluster, missing

COMMAND = str(Path(sys.executable).with_name("deep-bench"))
TRAINING = [COMMAND, "train", "digits", "--on", "reference", "--distributed", "allreduce", "--steps", "4", "--no-target"]

pytestmark = pytest.mark.skipif(
    bool(missing()), reason=f"no SLURM here: {', '.join(missing())} missing (apt-get install slurm-wlm munge libpmix-dev)"
)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Mapping[str, str]]:
    with cluster() as environment:
        yield {**environment, "OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}


def _check_record(folder: Path) -> None:
    (path,) = folder.glob("*_training_*.json")
    (run,) = json.loads(path.read_text())["runs"]
    assert run["ranks"]["job"]["launcher"] == "SLURM"
    assert [rank["rank"] for rank in run["ranks"]["ranks"]] == [0, 1]
    assert run["steps"] == 4


def test_srun_starts_the_ranks(slurm: Mapping[str, str], tmp_path: Path) -> None:
    ended = subprocess.run(
        ["srun", "-n", "2", "--mpi=pmix", *TRAINING, "--output", str(tmp_path)],
        env=slurm, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("2 ranks by AllReduce") == 1, "rank 0 alone prints"
    _check_record(tmp_path)


def test_processes_that_do_not_join_are_refused(slurm: Mapping[str, str], tmp_path: Path) -> None:
    ended = subprocess.run(
        ["srun", "-n", "2", "--mpi=none", *TRAINING, "--output", str(tmp_path)],
        env=slurm, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("SLURM started 2 processes, and 1 of them joined by 'mpi'") == 1
    assert not list(tmp_path.iterdir())


def test_a_job_script_runs(slurm: Mapping[str, str], tmp_path: Path) -> None:
    script, out = tmp_path / "job.sh", tmp_path / "job.out"
    training = " ".join([*TRAINING, "--output", str(tmp_path)])
    script.write_text(
        f"#!/bin/bash\n#SBATCH --ntasks=2\n#SBATCH --output={out}\nsrun --mpi=pmix {training}\necho status $?\n"
    )
    subprocess.run(["sbatch", str(script)], env=slurm, capture_output=True, text=True, timeout=30, check=True)
    until = monotonic() + 120
    while not (out.exists() and b"status" in out.read_bytes()) and monotonic() < until:
        sleep(0.2)
    assert "status 0" in out.read_text()
    _check_record(tmp_path)
