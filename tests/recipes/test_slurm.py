"""Cells as jobs: the scripts that are submitted, and a real SLURM."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.recipes import Experiment, experiment_status, resume_experiment, run_experiment
from deep_bench.recipes.slurm import SubmissionFailed, parameters
from tests.distributed.slurm.cluster import cluster, missing

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'deep-bench[slurm]'")

FIXED = {"network": "digits-cnn", "on": "reference", "budget": 0.2, "twin": False, "check": "off"}


def recipe(**more: Any) -> Experiment:
    given = {"name": "made", "level": "network", "fixed": FIXED, "matrix": {"batch": [1, 2]}, "limits": {"cell": 120}}
    return Experiment({**given, **more}, allow_code=True)


# Without SLURM


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of SLURM's names: ``sbatch`` keeps its script, ``squeue`` prints what a file says."""
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {
        "srun": "exit 0",
        "sbatch": f'[ -e {tmp_path}/full ] && {{ echo "sbatch: error: no such account" >&2; exit 1; }}\n'
        f'n=$(ls {tmp_path}/script* 2>/dev/null | wc -l)\ncp "$1" {tmp_path}/script$n\necho Submitted batch job $((70 + n))',
        "squeue": f"cat {tmp_path}/queue 2>/dev/null",
    }
    for name, text in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\ntrue\n" if name == "squeue" else f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SUBMITIT_MIN_INTERVAL", "0")
    return tmp_path


def test_the_script_says_what_the_recipe_says(pretended: Path) -> None:
    (pretended / "queue").write_text("70_0 PENDING\n70_1 PENDING\n")
    slurm = {
        "account": "g1", "partition": "short", "nodes": 2, "gpus_per_node": 4, "cpus_per_task": 3, "memory": "64GB",
        "at_once": 1, "parameters": {"gres": "nvme:1", "exclusive": "user"}, "setup": ["module load openmpi"],
    }  # fmt: skip
    outcome = run_experiment(recipe(slurm=slurm), pretended / "out", launcher="slurm", wait=False, progress=False)
    script = (pretended / "script0").read_text()
    lines = {line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")}
    assert {
        "account=g1", "partition=short", "nodes=2", "gpus-per-node=4", "cpus-per-task=3", "mem=64GB", "array=0-1%1",
        "gres=nvme:1", "exclusive=user", "time=7", "ntasks-per-node=1", "signal=TERM@60", "job-name=made",
    } <= lines  # fmt: skip
    assert "module load openmpi" in script.splitlines()
    assert "srun" not in script
    assert [cell.state.state for cell in outcome.cells] == ["submitted", "submitted"]


def test_cells_of_different_ranks_are_different_arrays(pretended: Path) -> None:
    fixed = {"collectives": "allreduce", "sizes": "8"}
    made = Experiment({"name": "made", "level": "communication", "fixed": fixed, "matrix": {"ranks": [2, 6], "seed": [0, 1]},
                       "slurm": {"nodes": 2}})  # fmt: skip
    run_experiment(made, pretended / "out", launcher="slurm", wait=False, progress=False)
    scripts = [(pretended / f"script{number}").read_text() for number in range(2)]
    assert ["--ntasks-per-node=1" in scripts[0], "--ntasks-per-node=3" in scripts[1]] == [True, True]
    assert all("--array=0-1%2" in script for script in scripts)


def test_a_job_that_is_gone_is_submitted_again(pretended: Path) -> None:
    made, out = recipe(), pretended / "out"
    run_experiment(made, out, launcher="slurm", wait=False, progress=False)
    (pretended / "queue").write_text("70_0 PENDING\n70_1 RUNNING\n")
    assert list(experiment_status(out).jobs.values()) == ["70_0 PENDING", "70_1 RUNNING"]
    assert "submitted, job 70_0 PENDING" in " ".join(str(experiment_status(out)).split())
    resume_experiment(out, launcher="slurm", wait=False, progress=False)
    assert not (pretended / "script1").exists(), "both are still there"
    (pretended / "queue").write_text("70_0 PENDING\n")
    lost = experiment_status(out).cells[1].state
    assert (lost.state, lost.why) == ("interrupted", "its job 70_1 is gone from SLURM's queue and left no result")
    resume_experiment(out, launcher="slurm", wait=False, progress=False)
    assert "#SBATCH --array" not in (pretended / "script1").read_text(), "one alone is a job"


def test_waiting_ends_when_a_job_is_lost(pretended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_bench.recipes.slurm._SHORTEST_LOOK_S", 0.01)
    outcome = run_experiment(recipe(), pretended / "out", launcher="slurm", progress=False)
    assert {cell.state.state for cell in outcome.cells} == {"interrupted"}
    assert "is gone from SLURM's queue" in outcome.cells[0].state.why


def test_what_sbatch_refuses_is_told_and_nothing_is_lost(pretended: Path) -> None:
    (pretended / "full").touch()
    with pytest.raises(SubmissionFailed, match="no such account"):
        run_experiment(recipe(), pretended / "out", launcher="slurm", progress=False)
    assert {cell.state.state for cell in experiment_status(pretended / "out").cells} == {"waiting"}


def test_a_job_has_more_time_than_its_cell() -> None:
    with pytest.raises(InvalidArgument, match=r"slurm\.time of at least 180 s"):
        recipe(slurm={"time": 150})
    assert parameters(recipe(slurm={"time": "1h"}).fields, 1)["time"] == 60


# With SLURM


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with cluster() as environment:
        for name, value in {**environment, "OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.skipif(
    bool(missing()), reason=f"no SLURM here: {', '.join(missing())} missing (apt-get install slurm-wlm munge libpmix-dev)"
)
def test_a_real_slurm_measures_an_array_of_cells_with_ranks(
    slurm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deep_bench.recipes.slurm._LONGEST_LOOK_S", 0.3)
    fixed = {"collectives": "allreduce", "sizes": "8", "budget": 0.05, "ranks": 2}
    content = {"name": "ranks", "level": "communication", "fixed": fixed, "matrix": {"seed": [0, 1]}}
    ranks = Experiment({**content, "accept": {"verdict": "right"}})
    run_experiment(ranks, tmp_path / "out", launcher="slurm", wait=False, progress=False)
    held = subprocess.run(["squeue", "-h", "--array", "-o", "%j"], capture_output=True, text=True, check=True)
    assert held.stdout.split() == ["ranks", "ranks"]
    outcome = resume_experiment(tmp_path / "out", launcher="slurm", progress=False)
    assert [(cell.state.state, cell.ok) for cell in outcome.cells] == [("done", True)] * 2, str(outcome)
    assert {result.labels["recipe"] for result in outcome.results} == {"ranks"}
    assert {result.labels["ranks"] for result in outcome.results} == {"2"}
    assert all("srun" in cell.state.command[0] for cell in outcome.cells)
