"""``deep-bench show`` of any kind of record, found by a part of its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.records import store
from deep_bench.results import gather

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


@pytest.mark.parametrize("change", ["a twin of nothing", "a renamed system", "another case", "no facts"])
def test_show_and_ls_judge_a_record_alike(run: Run, records: Path, tmp_path: Path, change: str) -> None:
    (file,) = (records / ("operators" if change == "another case" else "network")).glob("*.json")
    content = store.load(file).model_dump(mode="json")
    system = content["systems"][0]
    content["systems"].append(
        {**system, "label": "b (A/A)", "twin_of": "b" if change == "a twin of nothing" else system["label"]}
    )
    if change == "a renamed system":
        system["label"] = "c"
    elif change == "another case":
        system["trials"][0]["case"] = "3x3"
    elif change == "no facts":
        system["facts"] = {"version": "1"}
    (tmp_path / "run.json").write_text(json.dumps(content), encoding="utf-8")
    refused = gather(tmp_path).refused
    assert bool(refused) == (change != "no facts")
    status, _, err = run(tmp_path)
    assert status == (2 if refused else 0)
    assert all(one.reason.partition(" (expected")[0] in err for one in refused)
    assert not refused or "run.json" in err


def test_a_line_in_a_name_is_shown_as_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a\nb.json").write_text('{"schema_version": 1, "created": ')
    (tmp_path / "c.json").write_text('{"schema_version": 2, "created": 1}')
    found = gather(tmp_path)
    assert all("\n" not in str(one) for one in found.refused)
    assert "a\\nb.json" in str(found.refused[0])
    assert "a\\nb.json" in found.table()
    for name in ("a\nb.json", "a\nb", "no\nsuch"):
        status, _, err = run(tmp_path / name)
        assert status == 2
        assert "\nb" not in err.replace("\\nb", "")
        assert "\nsuch" not in err.replace("\\nsuch", "")


def test_rules_are_of_what_was_timed(run: Run, records: Path, tmp_path: Path) -> None:
    status, out, _ = run(records / "network", "--rules")
    assert status == 0
    assert "holds" in out
    shutil.copytree(records / "scaling", tmp_path / "scaling")
    status, _, err = run(tmp_path, "--rules")
    assert status == 2
    assert "of kind 'scaling'" in err
