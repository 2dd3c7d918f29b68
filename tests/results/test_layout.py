"""How a framework was built, and how ranks lie on nodes, are labels of a result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import Incomparable
from deep_bench.results import gather
from deep_bench.results.comparing import compare
from deep_bench.training import record as storage
from deep_bench.training.record import RankRecord, RanksRecord
from tests.results.made import blocks, figure, result


def test_what_a_framework_says_of_itself_is_in_labels(records: Path) -> None:
    (network,) = gather(records / "network")
    assert network.labels["version"]
    assert network.labels["framework.threads"]
    (trained,) = gather(records / "training")
    assert any(name.startswith("framework.") for name in trained.labels)


def test_the_layout_of_ranks_is_in_labels(records: Path, tmp_path: Path) -> None:
    found = gather(records / "communication")[0].labels
    assert (found["nodes"], found["ranks.per_node"]) == ("1", "2")
    assert "communicator" in found
    (first,) = (records / "training").glob("*.json")
    record = storage.load_training(first)
    hosts = ["a", "a", "b"]
    ranks = [RankRecord(rank=number, local={"host": host}) for number, host in enumerate(hosts)]
    says = {"communicator": "mpi", "library": "Open MPI 5.0", "host": "a"}
    for run in record.runs:
        run.ranks = RanksRecord(scheme="AllReduce", promise="equal", communicator=says, ranks=ranks)
    storage.write_training(record, tmp_path / "a.json")
    (trained,) = gather(tmp_path)
    names = ("ranks", "nodes", "ranks.per_node", "communicator", "communicator.library")
    assert [trained.labels[name] for name in names] == ["3", "2", "2,1", "mpi", "Open MPI 5.0"]
    assert "communicator.host" not in trained.labels


def test_another_build_is_a_difference_and_a_part_of_the_version() -> None:
    times = figure(blocks(np.random.default_rng(0)))
    before = result(times, version="2.9", **{"framework.instruction_set": "AVX2"})
    after = result(times, version="2.9", **{"framework.instruction_set": "AVX512"})
    with pytest.raises(Incomparable, match=r"framework\.instruction_set: AVX2 \| AVX512"):
        compare([before], [after], factor="commit")
    for factor in ("version", "framework", "system", "machine", "framework.instruction_set"):
        assert len(compare([before], [after], factor=factor)) == 1
