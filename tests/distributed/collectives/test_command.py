"""``mpirun … deep-bench communicate``: one launch, from the measurement to the record that is shown again."""

import json

import pytest
from click.testing import CliRunner

from deep_bench.cli.communicate import command
from deep_bench.cli.show import command as show
from deep_bench.distributed.machine import load_machine
from tests.distributed.launched import launched


@pytest.mark.parametrize("over", [("mpi",), pytest.param(("mpi", "gloo"), marks=pytest.mark.full)])
def test_a_launch_measures_checks_predicts_and_keeps(over, tmp_path):
    pytest.importorskip("mpi4py")
    if "gloo" in over:
        pytest.importorskip("torch")
    arguments = [word for name in over for word in ("--over", name)]
    for name in ("allreduce", "latency", "barrier"):
        arguments += ["--collective", name]
    figures = tmp_path / "figures.json"
    done = launched(
        2, "deep_bench", "communicate", *arguments, "--sizes", "8,4Ki", "--budget", "30ms", "--output", str(tmp_path),
        "--json", str(figures), environment={"OMPI_MCA_mpi_yield_when_idle": "1"}, timeout_s=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("allreduce of float32 among 2 ranks") == 1  # rank 0 prints, and nobody else
    rows = json.loads(figures.read_text())
    assert [(row["collective"], row["bytes"], row["system"]) for row in rows] == [
        *[("allreduce", size, system) for size in (8, 4096) for system in over],
        *[("latency", size, system) for size in (8, 4096) for system in over],
        *[("barrier", 0, system) for system in over],
    ]
    assert all(row["verdict"] == "right" and row["median"] > 0 and row["predicted"] > 0 for row in rows)
    machine = load_machine(tmp_path / "machine.json")
    assert [link.system for link in machine.links] == list(over)
    assert all(link.between == "one node" and link.points for link in machine.links)
    (record,) = tmp_path.glob("*_communicate_*.json")
    shown = CliRunner().invoke(show, [str(record)])
    assert shown.exit_code == 0
    assert "latency of float32 among 2 ranks" in shown.output


def test_bad_usage_is_refused_before_anything_begins(tmp_path):
    out = ["--output", str(tmp_path)]
    for arguments, told in (
        (["--collective", "allreduce"], "at least 2"),
        (["--collective", "allreduc"], "allreduce"),
        (["--collective", "allreduce", "--sizes", "3"], "multiples of 4"),
        (["--collective", "allreduce", "--over", "nothing"], "nothing"),
        (["--collective", "allreduce", "--machine", str(tmp_path / "none.json")], "cannot read"),
    ):
        result = CliRunner().invoke(command, [*arguments, *out])
        assert told in str(result.exception), arguments
    assert CliRunner().invoke(command, ["--collective", "allreduce", "--pair", "1"]).exit_code == 2
    assert CliRunner().invoke(command, []).exit_code == 2
