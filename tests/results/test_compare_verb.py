"""``deep-bench compare``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from deep_bench.cli.compare import command
from deep_bench.errors import Incomparable, InvalidArgument, InvalidRecord, UnknownName
from deep_bench.measure.environment import Environment
from deep_bench.records import store
from deep_bench.records.model import BlockRecord, NetworkFacts, OptionsRecord, Record, SampleSet, SystemRecord, VerdictRecord


def compared(*words: object) -> Result:
    return CliRunner(catch_exceptions=False).invoke(command, list(map(str, words)))


def record(folder: Path, level: float, *, verdict: str = "right", **where: Any) -> Path:
    """A record of two systems, one of them twice as fast."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(int(level * 1000))
    systems = [
        SystemRecord(
            label=label, framework=label, verdict=VerdictRecord(verdict=verdict, reason="as planned"),
            samples=[SampleSet(quantity="native", blocks=[block(random, 1e6 * level / k) for _ in range(12)])],
        )
        for k, label in ((1, "torch"), (2, "onnxruntime"))
    ]  # fmt: skip
    network = NetworkFacts(name="lenet", sha256="0" * 64)
    environment = Environment(hostname="node1", **where)
    made = Record(
        deep_bench="0",
        environment=environment,
        systems=systems,
        network=network,
        recipe=OptionsRecord(seeds={"run": 0}),
        complete=True,
    )
    return store.save(made, folder)


def block(random: np.random.Generator, ns: float) -> BlockRecord:
    drawn = (ns * random.normal(1, 0.005, 20)).astype(np.int64)
    return BlockRecord(start_ns=0, batch=1, n=20, ns=drawn, preempted=np.zeros(20, bool))


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders; the second is 20 % slower."""
    record(tmp_path / "a", 1.0)
    record(tmp_path / "b", 1.2)
    return tmp_path / "a", tmp_path / "b"


def test_exit_status_follows_the_conditions(sides: tuple[Path, Path]) -> None:
    assert compared(*sides).exit_code == 0
    failed = compared(*sides, "--fail-on", "slower:5%", "--fail-on", "wrong")
    assert failed.exit_code == 1
    assert "fails on slower:5%: torch forward" in failed.output
    assert compared(*sides, "--fail-on", "slower:30%").exit_code == 0
    assert compared(*reversed(sides), "--fail-on", "slower:5%").exit_code == 0


def test_what_cannot_be_judged_is_no_pass(sides: tuple[Path, Path], tmp_path: Path) -> None:
    record(tmp_path / "c", 1.07)
    left = compared(sides[0], tmp_path / "c", "--fail-on", "slower:5%")
    assert left.exit_code == 2
    assert "cannot judge slower:5%: torch forward, onnxruntime forward: a side has one launch" in left.stderr
    assert "launches: 4" in left.stderr
    assert "cannot tell" in left.stdout
    assert compared(sides[0], tmp_path / "c", "--fail-on", "slower:10%").exit_code == 0
    assert compared(sides[0], tmp_path / "c", "--fail-on", "slower:5%", "--fail-on", "cannot-tell").exit_code == 1
    read = json.loads(compared(sides[0], tmp_path / "c", "--fail-on", "slower:5%", "--json").stdout)
    assert (read["failures"], len(read["unjudged"])) == ([], 1)
    assert {one["estimate"]["starts"] for one in read["comparisons"]} == {0.1}


def test_several_records_of_a_side_judge_five_per_cent(tmp_path: Path) -> None:
    for i in range(5):
        record(tmp_path / "a", 1.0 + i / 1000)
        record(tmp_path / "b", 1.07 + i / 1000)
    found = compared(tmp_path / "a", tmp_path / "b", "--fail-on", "slower:5%")
    assert found.exit_code == 1
    assert found.stderr == ""


def test_a_gate_that_tests_nothing_is_no_pass(sides: tuple[Path, Path]) -> None:
    itself = compared(sides[0], sides[0], "--fail-on", "slower:5%", "--fail-on", "wrong")
    assert itself.exit_code == 2
    assert "cannot judge slower:5%: both sides are the same record" in itself.stderr
    assert "both sides are the same record" in itself.stdout.replace("\n", " ")
    with pytest.raises(InvalidArgument, match="with 1 record, and no --base") as caught:
        compared(sides[0])
    assert "--base torch" in str(caught.value)


def test_json_is_all_there_is(sides: tuple[Path, Path]) -> None:
    found = json.loads(compared(*sides, "--json", "--fail-on", "slower:5%", "--margin", "1%").stdout)
    assert found["margin"] == 0.01
    assert {one["word"] for one in found["comparisons"]} == {"slower"}
    assert len(found["failures"]) == 2


def test_systems_of_one_record_and_a_picture(sides: tuple[Path, Path], tmp_path: Path) -> None:
    found = compared(sides[0], "--base", "torch", "--plot", tmp_path / "forest.png", "--metric", "forward")
    assert "system torch → onnxruntime" in found.output
    assert "faster" in found.output
    assert (tmp_path / "forest.png").stat().st_size > 5_000


def test_what_is_wrong_fails(sides: tuple[Path, Path], tmp_path: Path) -> None:
    record(tmp_path / "c", 0.5, verdict="wrong")
    found = compared(sides[0], tmp_path / "c", "--fail-on", "wrong")
    assert found.exit_code == 1
    assert found.output.startswith("! torch: right → wrong: as planned\n! onnxruntime: right → wrong")
    assert "not comparable" in found.output
    assert "faster" not in found.output


def test_bad_usage(sides: tuple[Path, Path], tmp_path: Path) -> None:
    record(tmp_path / "c", 1.01, governor="powersave")
    (tmp_path / "empty").mkdir()
    for words, error in (
        ((sides[0],), InvalidArgument),
        ((*sides, "--base", "torch"), InvalidArgument),
        ((sides[0], "--base", "troch"), UnknownName),
        ((*sides, "--fail-on", "slower:5"), InvalidArgument),
        ((*sides, "--metric", "forwrad"), UnknownName),
        ((sides[0], tmp_path / "c", "--factor", "commit"), Incomparable),
        ((sides[0], tmp_path / "c", "--fail-on", "slower:5%"), Incomparable),
        ((sides[0], tmp_path / "empty"), InvalidRecord),
    ):
        with pytest.raises(error):
            compared(*words)
    assert compared(*sides, "--margin", "much").exit_code == 2
    assert compared(sides[0], tmp_path / "none").exit_code == 2
    assert compared(sides[0], tmp_path / "c", "--factor", "commit", "--across", "clock").exit_code == 0
    assert compared(sides[0], tmp_path / "c").exit_code == 0
    assert compared(sides[0], tmp_path / "c", "--factor", "governor", "--fail-on", "slower:10%").exit_code == 0


def test_hostile_files_are_left_out_and_told(sides: tuple[Path, Path]) -> None:
    (sides[1] / "pickle.json").write_bytes(b"\x80\x04cos\nsystem\n")
    whole = next(sides[1].glob("2*.json"))
    forged = json.loads(whole.read_text())
    forged["arrays"] = {"name": "../../etc/passwd", "sha256": "0" * 64}
    (sides[1] / "outside.json").write_text(json.dumps(forged))
    found = compared(*sides)
    assert found.exit_code == 0
    assert "outside.json" in found.stderr
    shutil.rmtree(sides[1])
    sides[1].mkdir()
    (sides[1] / "outside.json").write_text(json.dumps(forged))
    with pytest.raises(InvalidRecord):
        compared(*sides)
