"""Training over MPI, as it is launched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deep_bench.cli.train import command
from deep_bench.training.results import Runs
from tests.distributed.launched import ROOT, launched

PROGRAMS = Path(__file__).with_name("programs")
_PATH = {"PYTHONPATH": str(ROOT)}


@pytest.mark.long
def test_digits_to_its_target(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = ["train", "digits", "--on", "torch", "--distributed", "allreduce", "--output", str(tmp_path)]
    found = launched(2, "deep_bench", *words)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("messages of all ranks") == 1
    (file,) = tmp_path.glob("*.json")
    run = Runs.load(file).runs[0]
    assert run.stopped_because.startswith("accuracy 0.9")
    assert run.ranks is not None
    assert [rank.samples.sum() for rank in run.ranks.ranks] == [sum(run.sizes) // 2] * 2
    assert run.ranks.communicator["library"].startswith("Open MPI")
    assert [rank.local["local_rank"] for rank in run.ranks.ranks] == [0, 1]


@pytest.mark.long
def test_a_signal_to_one_rank_ends_all_and_nothing_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = launched(2, PROGRAMS / "signalled.py", str(tmp_path), environment=_PATH)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "rank 0: 7 steps, interrupted; the same after that: True" in found.stdout
    assert "rank 1 7 True" in found.stdout


@pytest.mark.long
def test_ranks_that_are_told_different_things_end_with_one_message(tmp_path: Path) -> None:
    found = launched(2, PROGRAMS / "differing.py", str(tmp_path), environment=_PATH)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stderr.count("no recipe 'digitz'") == 1  # all ranks found so
    assert found.stderr.count("deep-bench: on rank 1 of 2 on ") == found.stderr.count("deep-bench: on rank 1 of 2") == 1
    assert found.stderr.count("unknown data set 'digitz'") == 1
    assert found.stderr.count("ranks 0 and 1 differ in their optimizer: ") == 1
    for option, value in (("runs", "1 and 2"), ("resume", "False and True"), ("checkpoints", "None and kept")):
        assert found.stderr.count(f"ranks 0 and 1 differ in their --{option}: {value}") == 1
    for misspelt in ("distributed optimizer 'alreduce'", "setting of allreduce 'bukket'", "topology 'rang'"):
        assert found.stderr.count(f"unknown {misspelt}") == 1
    assert found.stderr.count("this run is at step 0: it is another run's") == 1
    assert found.stderr.count("nothing to train: the network has no parameters") == 1
    assert found.stderr.count("batches of 1 sample for 2 ranks") == 1
    assert found.stderr.count("deep-bench: ") == 10  # one for each end
    assert "Traceback" not in found.stderr


def test_the_command_line_of_one_rank(tmp_path: Path) -> None:
    def run(*words: str) -> Result:
        output = ["--on", "reference", "--output", str(tmp_path), "--checkpoints", str(tmp_path / "kept"), "--no-target"]
        return CliRunner().invoke(command, ["digits", "--distributed", "allreduce", *output, *words])

    found = run("--steps", "1")
    assert found.exit_code == 0, found.output
    assert "one rank, since it was started alone; for four: mpirun -n 4 deep-bench" in found.stderr
    assert "1 ranks by AllReduce" in found.stdout
    assert json.loads(run("--steps", "2", "--resume", "--json").stdout)["runs"][0]["steps"] == 2
    for words in (["--apart"], ["--validate", "1"]):
        assert "it is for one process" in run(*words).stderr
    for option, value in (("--over", "mpi"), ("--patience", "10min"), ("--scaling", "weak"), ("--samples", "sharded")):
        alone = CliRunner().invoke(command, ["digits", option, value])
        assert (alone.exit_code, f"{option} is of --distributed" in alone.stderr) == (2, True)


def test_ranks_that_did_not_join_do_not_train_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("SLURM_PROCID", rank)
        found = CliRunner().invoke(command, ["digits"])
        said = "started on 2 ranks by SLURM" in found.stderr and "say --distributed SCHEME" in found.stderr
        assert (found.exit_code, said) == (2, rank == "0")
