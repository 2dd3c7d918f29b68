"""``deep-bench ls``: a table at any width, chosen by labels, and JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.records.model import ErrorRecord
from deep_bench.results import Result, Results, gather

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def made(*words: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["ls", *map(str, words)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return made


def test_a_table_is_readable_at_80_columns(run: Run, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = run(records)
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    for said in ("network", "digits-cnn", "Gelu 4x8", "reference", "right", "barrier", "9 results"):
        assert said in out
    assert out.count("verdict") == 1, "one table"
    _, out, _ = run(records, "--label", "optimizer.lr", "--label", "ranks", "--where", "kind=training")
    assert max(map(len, out.splitlines())) <= 80
    assert "ranks=1" in out


def test_at_160_columns_a_result_is_a_line(records: Path) -> None:
    table = gather(records).table(width=160)
    (line,) = [line for line in table.splitlines() if "Gelu 4x8" in line]
    assert "operators" in line
    assert "forward" in line


def test_rows_of_one_name_have_the_labels_that_tell_them_apart() -> None:
    def made(system: str, **labels: str) -> Result:
        about = {"system": system, "network": "lenet", **{name.replace("_", "."): value for name, value in labels.items()}}
        return Result("network", Path("a_1.json"), datetime(2026, 1, 1, tzinfo=UTC), about, {})

    sizes = [made("torch", size_batch=batch, factor_batch=batch) for batch in ("1", "16", "64")]
    found = Results([*sizes, made("jax", size_batch="1"), *(made("onnx", dtype=name) for name in ("float16", "float32"))])
    wide, narrow = found.table(width=160), found.table(width=80)
    for said in ("size.batch 1", "size.batch 16", "size.batch 64", "dtype float16", "dtype float32"):
        assert said in wide
    for table in (wide, narrow):
        assert "factor.batch" not in table, "it says what size.batch says"
        assert table.count("size.batch") == 3, "a single result of its name needs none"
    assert "dtype float16" not in found.table(["dtype"], width=160)


def test_a_table_marks_what_failed_or_is_incomplete() -> None:
    def made(name: str, **more: object) -> Result:
        return Result("network", Path(name), datetime(2026, 1, 1, tzinfo=UTC), {"system": "torch"}, {}, **more)  # type: ignore[arg-type]

    both = Results([made("a_1.json", errors=(ErrorRecord(kind="A", message="no"),)), made("a_2.json", complete=False)])
    for width in (80, 160):
        table = both.table(width=width)
        assert "failed" in table
        assert "incomplete" in table
        assert "failed or found wrong: 1" in table


def test_names_do_not_steer_the_terminal(tmp_path: Path) -> None:
    labels = {"system": "[bold]a[/nope]\x1b[2J", "network": ":smile:" + "x" * 300}
    (tmp_path / "b\x1b[2J.json").write_text("{")
    hostile = Results([Result("network", Path("r"), datetime(2026, 1, 1, tzinfo=UTC), labels, {})], gather(tmp_path).refused)
    for width in (80, 160):
        table = hostile.table(["network"], width=width)
        assert "\x1b" not in table
        assert ":smile:" in table
        assert "[/nope]" in table or width == 80, "wrapped"


def test_results_are_chosen_by_labels(run: Run, records: Path) -> None:
    status, out, _ = run(
        records, "--where", "kind=scaling", "--where", "kind=train*", "--where", "ranks=2", "--label", "batch"
    )
    assert status == 0
    assert "1 result of 1 record" in out
    assert "batch" in out
    assert "predicted step" in out


def test_what_cannot_be_chosen_is_refused(run: Run, records: Path) -> None:
    for words, said in (
        (("--where", "system"), "write a label and a value"),
        (("--where", "sytem=torch"), "did you mean 'system'"),
        (("--label", "sytem"), "did you mean 'system'"),
    ):
        status, _, err = run(records, *words)
        assert status == 2
        assert said in err
    assert run(records / "nothing")[0] == 2


def test_a_file_that_cannot_be_read_is_told_beside_the_others(run: Run, records: Path, tmp_path: Path) -> None:
    shutil.copytree(records / "scaling", tmp_path / "data")
    (tmp_path / "data" / "bad.json").write_text("{")
    status, out, _ = run(tmp_path)
    assert status == 1
    assert "2 results of 1 record" in out
    assert "bad.json is no JSON, or truncated" in out


def test_json_has_labels_and_figures(run: Run, records: Path) -> None:
    status, out, _ = run(records, "--json", "--where", "kind=training")
    assert status == 0
    (found,) = json.loads(out)["results"]
    assert found["labels"]["recipe"] == "widths"
    assert found["figures"]["throughput"]["unit"] == "samples/s"
    assert found["figures"]["throughput"]["n"] == 6
    assert found["verdict"] == "unchecked"
