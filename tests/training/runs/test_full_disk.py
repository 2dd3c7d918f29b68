"""A disk that is full in the end: what was measured is shown, and then why it is not kept."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deep_bench.cli.train import command
from deep_bench.distributed.collectives.settings import BenchmarkSettings
from deep_bench.distributed.collectives.study import study
from deep_bench.distributed.communicators.local import run_local
from deep_bench.errors import NotKept
from deep_bench.records import store
from deep_bench.training.results import Runs


def _full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("words", [[], ["--distributed", "allreduce"]])
def test_training_is_shown_before_it_is_told(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "replace", _full)
    whole = ["digits", "--on", "reference", "--steps", "2", "--no-target", "--output", str(tmp_path), *words]
    found = CliRunner().invoke(command, whole)
    assert found.exit_code == 1
    assert "reference" in found.stdout
    assert "record:" not in found.stdout
    assert found.stderr.count("No space left on device") == found.stderr.count("What to do: free some space") == 1
    assert not list(tmp_path.glob("*.json"))


def test_messages_are_measured_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "replace", _full)
    settings = BenchmarkSettings(collectives=("allreduce",), sizes="8,64", budget=0.02)

    def on_rank(comm: Any) -> Any:
        try:
            return study({"local": comm}, settings, output=tmp_path, progress=False)
        except NotKept as error:
            return error

    error, nothing = run_local(2, on_rank)
    assert nothing is None
    assert "No space left on device" in error.came
    assert [row.size for row in error.found.rows] == [8, 64]
    assert "record:" not in error.found.table()


def test_a_script_has_the_runs_and_can_save_them_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_bench.training.runs import several
    from deep_bench.training.workload import train

    with monkeypatch.context() as full:
        full.setattr(store, "replace", _full)
        with pytest.raises(NotKept) as told:
            several(
                lambda seed, callbacks: train("digits", "reference", seed=seed, callbacks=callbacks),
                [1],
                steps=1,
                output=tmp_path,
                progress=False,
            )
    assert Runs.load(told.value.found.save(tmp_path / "elsewhere")).runs[0].steps == 1
