"""A disk that gets full: what was written stays, what was measured is shown, and nothing crashes."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from deep_bench.cli import operators, run
from deep_bench.errors import InvalidArgument, NotKept
from deep_bench.network.run import run_sweep
from deep_bench.operators.case import Case
from deep_bench.operators.suites.suite import Suite
from deep_bench.records import store
from deep_bench.records.store import INLINE_SAMPLES, RecordWriter, load
from deep_bench.study.study import RecordFile
from deep_bench.training.timeline.record import ThreadRecord, TimelineRecord
from deep_bench.training.timeline.record import write as write_timeline
from tests.measure.test_storage import record, same

FULL = "No space left on device"


def no_space(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with 40 KiB left."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file()]


def keeps_what_it_had(folder: Path) -> None:
    """See that a writer without space for all samples leaves its record as it was, and nothing else."""
    before = record()
    writer = RecordWriter(folder, before)
    with pytest.raises(InvalidArgument, match=f"cannot write the record {writer.path}: {FULL}"):
        writer.write(record(INLINE_SAMPLES, systems=4))
    assert names(folder) == [writer.path.name]
    assert same(load(writer.path), before)


def test_samples_without_space_leave_the_record_as_it_was(small_disk: Path) -> None:
    keeps_what_it_had(small_disk)


def test_samples_that_cannot_be_written_leave_the_record_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.os, "pwrite", no_space)
    keeps_what_it_had(tmp_path)


def test_a_record_that_could_not_be_written_is_written_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, later = record(INLINE_SAMPLES), record(INLINE_SAMPLES, systems=3)
    file = RecordFile(first, tmp_path)
    file.record = later
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", no_space)
        file.keep()
    with pytest.raises(NotKept, match=FULL) as refused:
        file.result(lambda record, path: (record, path))
    assert refused.value.found == (later, None)
    assert len(names(tmp_path)) == 2, "the arrays that no record names are gone"
    assert same(load(file.path), first)
    file.keep()
    assert file.result(lambda record, path: path) == file.path
    assert len(names(tmp_path)) == 2
    assert same(load(file.path), later)


def test_a_timeline_without_space_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.os, "pwrite", no_space)
    events = np.zeros(INLINE_SAMPLES + 1, np.int64)
    threads = [ThreadRecord(name="main", ident=1, n=len(events), codes=events.astype(np.int32), values=events)]
    made = TimelineRecord.model_construct(threads=threads, arrays=None)
    with pytest.raises(InvalidArgument, match=FULL):
        write_timeline(made, tmp_path / "a.json")
    assert not names(tmp_path)


def test_a_run_shows_what_it_measured_and_says_why_it_is_not_kept(small_disk: Path) -> None:
    pytest.importorskip("onnxruntime")
    words = ["digits-cnn", "--on", "onnxruntime:threads=1", "--in-process", "--no-twin", "--check", "off", "--budget", "0.5"]
    found = CliRunner().invoke(run.command, [*words, "--output", str(small_disk)])
    assert found.exit_code == 1, found.output
    assert "unchecked" in found.stdout
    assert "µs" in found.stdout
    assert "record:" not in found.stdout
    (left,) = names(small_disk)
    assert f"deep-bench: cannot write the record {small_disk / left}: {FULL}" in found.stderr
    assert load(small_disk / left).systems[0].label == "onnxruntime:threads=1"


def only_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a record be begun, and never be written again."""
    replace, begun = store.replace, set[Path]()

    def replaced(target: Path, fill: Any) -> None:
        if target in begun:
            no_space()
        begun.add(target)
        replace(target, fill)

    monkeypatch.setattr(store, "replace", replaced)


def test_operators_show_what_they_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = Suite("small", [Case.of("Relu", (4,))]).save(tmp_path / "small.toml")
    only_the_first(monkeypatch)
    words = ["--suite", str(suite), "--on", "reference", "--check", "off"]
    timed = ["--in-process", "--no-twin", "--budget", "0.05", "--output", str(tmp_path)]
    found = CliRunner().invoke(operators.command, [*words, *timed])
    assert found.exit_code == 1, found.output
    assert "reference" in found.stdout
    assert "record:" not in found.stdout
    assert found.stderr.count(FULL) == 1


def test_a_sweep_ends_and_has_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_the_first(monkeypatch)
    with pytest.raises(NotKept, match=FULL) as told:
        run_sweep(
            "digits-cnn", "batch", [1, 2], on=["reference"], check="off", twin=False, budget=0.05,
            in_process=True, output=tmp_path, progress=False,
        )  # fmt: skip
    found = told.value.found
    assert found.results[1]["reference"].median is not None
    assert found.left == (2,)
    assert "not measured: 2" in found.table()
    assert load(found.results[1].save(tmp_path / "elsewhere")).complete
