"""Records in files: saved, loaded, damaged, refused; and what a killed run leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.records.store import digest
from deep_bench.training.timeline import Timeline, load
from deep_bench.training.timeline.record import Journal, write


def run(n: int, **options: Any) -> Timeline:
    with db.timeline(**options) as t:
        for _ in t.over(range(n)):
            with t.region("forward"), t.region("attention"):
                pass
    return t


@pytest.mark.parametrize("n", [20, 1000])
def test_a_saved_timeline_says_the_same(n: int, tmp_path: Path) -> None:
    t = run(n)
    path = t.save(tmp_path / "run.json")
    assert len(list(tmp_path.glob("*.h5"))) == (n == 1000)
    assert load(path).as_text() == t.result().as_text()


def test_saving_into_a_folder_makes_a_new_name(tmp_path: Path) -> None:
    t = run(2)
    assert t.save(tmp_path) != t.save(tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_a_complete_run_leaves_no_stamps_behind(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    t = run(20, save=path)
    assert list(tmp_path.iterdir()) == [path]
    found = load(path)
    assert found.record.complete
    assert found.as_text() == t.result().as_text()


@pytest.mark.parametrize(
    ("name", "message"), [("there.json", "exists"), ("run.txt", "ends in .json"), ("no/run.json", "no folder")]
)
def test_files_that_are_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("precious")
    for use in (lambda path: db.timeline(save=path), run(2).save):
        with pytest.raises(InvalidArgument, match=message):
            use(tmp_path / name)
    assert (tmp_path / "there.json").read_text() == "precious"


KILLED = """
import os, signal, sys
import deep_bench as db
from deep_bench.training.timeline import record as keeper
keeper.PERIOD_S = 0.01
journal = sys.argv[1].replace(".json", ".stamps.jsonl")
with db.timeline(save=sys.argv[1]) as t:
    for number in t.over(range(10**9), samples=4):
        with t.region("forward"):
            with t.region("attention"):
                pass
        if number > 50 and os.path.getsize(journal) > 2000:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    found = load(path)
    assert not found.record.complete
    assert found["training"].n_steps > 10
    assert [row.name for row in found["training"].rows][1:4] == ["data", "forward", "attention"]
    assert found["training"].throughput is not None
    assert "this run did not finish" in found.as_text()
    assert found.spans.open >= 1
    assert found.chrome_trace(tmp_path / "trace.json").is_file()
    assert load(found.save(tmp_path / "whole.json")).record.threads[0].n == found.record.threads[0].n


def stopped(tmp_path: Path) -> tuple[Path, Path]:
    """The files of a run that did not finish: two flushes of ten steps."""
    path = tmp_path / "run.json"
    t = db.timeline(save=path, warm_up=0)
    for _ in range(2):
        for _ in range(10):
            with t.step():
                pass
        t.flush()
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in tmp_path.glob("run*"):
        (copy / file.name).write_bytes(file.read_bytes())
    t.close()
    return copy / "run.json", copy / "run.stamps.jsonl"


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path, stamps = stopped(tmp_path)
    assert load(path)["training"].n_steps == 20
    stamps.write_bytes(stamps.read_bytes()[:-20])
    assert load(path)["training"].n_steps == 10


def test_damage_elsewhere_is_named(tmp_path: Path) -> None:
    path, stamps = stopped(tmp_path)
    lines = stamps.read_text().splitlines(keepends=True)
    stamps.write_text(lines[0].replace('"codes": "', '"codes": "AAAA') + lines[1])
    with pytest.raises(InvalidRecord, match="line 1, is damaged"):
        load(path)
    stamps.unlink()
    with pytest.raises(InvalidRecord, match="cannot read"):
        load(path)


def test_a_full_disk_stops_the_file_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    t = db.timeline(save=path, warm_up=0)
    with t.step():
        pass
    t.flush()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", full)
        with t.step():
            pass
        with pytest.warns(RuntimeWarning, match="No space left"):
            t.flush()
    t.close()
    assert load(path)["training"].n_steps == 2
    assert "No space left" in t.result().as_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"kind": "else"}, "kind"),
        ({"names": []}, "a code without a name"),
        ({"surprise": 1}, "surprise"),
        ({"journal": "../elsewhere"}, "journal"),
    ],
)
def test_records_that_are_none(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = run(3).save(tmp_path / "run.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidRecord, match=message):
        load(path)


def test_columns_of_different_length(tmp_path: Path) -> None:
    path = run(3).save(tmp_path / "run.json")
    content = json.loads(path.read_text())
    content["threads"][0]["values"].pop()
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidRecord, match="codes"):
        load(path)


def test_events_beside_the_record_that_changed_or_are_gone(tmp_path: Path) -> None:
    path = run(1000).save(tmp_path / "run.json")
    (events,) = tmp_path.glob("*.h5")
    whole = events.read_bytes()
    events.write_bytes(whole[:-1])
    with pytest.raises(InvalidRecord, match="was altered"):
        load(path)
    events.unlink()
    with pytest.raises(InvalidRecord, match="is missing"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_files_that_are_no_record(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(InvalidRecord):
        load(path)
    with pytest.raises(InvalidRecord, match="cannot read"):
        load(tmp_path / "missing.json")


def test_what_is_written_anew_leaves_no_events_of_before(tmp_path: Path) -> None:
    record = run(1000).result().record
    path = tmp_path / "run.json"
    for _ in range(2):
        write(record, path)
        (events,) = tmp_path.glob("*.h5")
    assert json.loads(path.read_text())["arrays"]["name"] == events.name


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("0/codes", lambda codes: codes.astype(np.int64) + 2**40, "too large"),
        ("0/codes", lambda codes: codes.astype(float), "float64"),
        ("0/values", lambda values: values[:-1], "holds"),
        ("0/values", lambda values: h5py.ExternalLink("others.h5", "/values"), "is not in this file"),
        ("0", lambda group: h5py.ExternalLink("others.h5", "/0"), "is not in this file"),
    ],
)
def test_events_that_another_hand_wrote_are_refused(
    column: str, values: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    path = write(run(1000).result().record, tmp_path / "run.json")
    (events,) = tmp_path.glob("*.h5")
    with h5py.File(events, "a") as file:
        held = None if column == "0" else file[column][()]
        del file[column]
        file[column] = values(held)
    content = json.loads(path.read_text())
    content["arrays"]["sha256"] = digest(events)
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidRecord, match=message):
        load(path)
