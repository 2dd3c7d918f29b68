"""Lines in a file: whole, in order, and each step once, whatever happens."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.callbacks import CsvLines, JsonLines
from deep_bench.training.run_state import History
from tests.training import small

KINDS = {"csv": CsvLines, "jsonl": JsonLines}


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, whatever its kind."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines()))


def check(path: Path, history: History) -> None:
    """The file says what the history says."""
    found = rows(path)
    steps = [row for row in found if row.get("training loss", "") != ""]
    assert [int(row["step"]) for row in steps] == list(range(1, history.steps + 1))
    assert [float(row["training loss"]) for row in steps] == list(history.losses)
    evaluated = [row for row in found if row not in steps]
    accuracy = [float(row.get("accuracy") or row["scores"]["accuracy"]) for row in evaluated]
    assert accuracy == history.figures("accuracy")
    assert [int(row["step"]) for row in found] == sorted(int(row["step"]) for row in found)
    assert all(float(a["seconds"]) <= float(b["seconds"]) for a, b in pairwise(found))


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_for_each_step_and_evaluation(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{kind}"
    run = small.trainer(callbacks=[KINDS[kind](path)])
    run.run(epochs=1)
    check(path, run.history)
    run.run(epochs=2)
    check(path, run.history)
    assert run.history.samples == int(next(row for row in rows(path) if row["step"] in ("8", 8))["samples"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [0, 7])
def test_a_resumed_run_goes_on_with_the_same_file(kind: str, cut: int, tmp_path: Path) -> None:
    path = tmp_path / f"run.{kind}"
    first = small.trainer(callbacks=[KINDS[kind](path)])
    first.run(steps=5)
    kept = first.snapshot()
    first.run(steps=7)  # what follows a checkpoint is done again
    if cut:  # a machine that fails may leave half a line
        path.write_bytes(path.read_bytes()[:-cut])
    second = small.trainer(callbacks=[KINDS[kind](path)])
    second.restore(kept)
    second.run(epochs=2)
    check(path, second.history)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_another_run_is_lost(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{kind}"
    small.trainer(callbacks=[KINDS[kind](path)]).run(steps=3)
    before = path.read_bytes()
    with pytest.raises(InvalidArgument, match=r"exists, and is not of this run[\s\S]*overwrite") as caught:
        small.trainer(callbacks=[KINDS[kind](path)], seed=1).run(steps=1)
    assert any("raised by the callback" in note for note in caught.value.__notes__)
    other = small.trainer(seed=1)
    other.run(steps=2)
    resumed = small.trainer(callbacks=[KINDS[kind](path)], seed=1)
    resumed.restore(other.snapshot() | {"callbacks": {}})
    with pytest.raises(InvalidArgument, match="exists"):
        resumed.run(steps=3)
    assert path.read_bytes() == before
    small.trainer(callbacks=[KINDS[kind](path, overwrite=True)], seed=1).run(steps=1)
    assert len([row for row in rows(path) if row.get("training loss", "") != ""]) == 1


def test_no_folder_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no folder"):
        CsvLines(tmp_path / "nowhere" / "run.csv")


def test_nan_is_written_so_that_json_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run = small.trainer(callbacks=[JsonLines(path)])
    run.run(steps=1)
    lines = JsonLines(tmp_path / "other.jsonl")
    for value, word in ((float("nan"), "NaN"), (float("inf"), "Infinity"), (-float("inf"), "-Infinity")):
        assert (
            json.loads(lines.line({"step": 1, "scores": {"accuracy": value}}, ("accuracy",)))["scores"]["accuracy"] == word
        )


KILLED = """
import sys
from deep_bench.events import Moment
from deep_bench.training.callbacks import CsvLines
from tests.training import small
lines = CsvLines(sys.argv[1])

def tell(moment, index, time_ns, data):
    if moment is Moment.AFTER_STEP and index == 30:
        print("going", flush=True)

small.trainer(callbacks=[lines, tell], every=3).run(steps=10**9)
"""


def test_a_killed_run_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, cwd=root, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"going\n"
        process.send_signal(signal.SIGKILL)
    found = rows(path)
    assert len(found) > 30
    assert all(len(row) == 6 and None not in row.values() for row in found)


def test_the_moments_it_needs_no_more() -> None:
    assert Moment.BEFORE_STEP not in CsvLines.moments
