"""``deep-bench show`` of any kind of record, found by a part of its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deep_bench.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def made(*words: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["show", *map(str, words)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return made


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("network", "digits-cnn"),
        ("operators", "Gelu"),
        ("communication", "allreduce"),
        ("training", "digits-cnn on digits/train"),
        ("scaling", "predicted, not measured"),
    ],
)
def test_the_single_record_of_a_folder_is_shown(run: Run, records: Path, kind: str, said: str) -> None:
    status, out, _ = run(records / kind)
    assert status == 0
    assert said in out
    status, out, _ = run(records / kind, "--json")
    assert status == 0
    assert json.loads(out)


def test_a_record_is_found_by_a_part_of_its_name(run: Run, records: Path) -> None:
    (file,) = (records / "training").glob("*.json")
    part = file.stem[-8:]
    assert run(records / part)[1] == run(file)[1]


def test_several_and_none_are_refused(run: Run, records: Path) -> None:
    status, _, err = run(records)
    assert status == 2
    assert "5 records in" in err
    status, _, err = run(records / "T")
    assert status == 2
    assert "with 'T' in their name" in err
    status, _, err = run(records / "no such part")
    assert status == 2
    assert "deep-bench ls" in err
    assert run(records / "no" / "such")[0] == 2


def test_a_damaged_record_is_told_as_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema_version": 1, "created": ')
    for path in (tmp_path, tmp_path / "run.json"):
        status, _, err = run(path)
        assert status == 2
        assert "truncated" in err


def test_what_holds_no_results_is_refused(run: Run, records: Path) -> None:
    status, _, err = run(records / "communication" / "machine.json")
    assert status == 2
    assert "of kind 'machine'" in err


def test_rules_are_of_what_was_timed(run: Run, records: Path, tmp_path: Path) -> None:
    status, out, _ = run(records / "network", "--rules")
    assert status == 0
    assert "holds" in out
    shutil.copytree(records / "scaling", tmp_path / "scaling")
    status, _, err = run(tmp_path, "--rules")
    assert status == 2
    assert "of kind 'scaling'" in err
