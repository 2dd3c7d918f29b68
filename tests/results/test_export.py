"""Results in files: tables, and what ReFrame, JUBE and Ramble read."""

from __future__ import annotations

import csv
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deep_bench.cli import main
from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.records.model import VerdictRecord
from deep_bench.results import Figure, Result, Results, gather
from deep_bench.results.formats import finite, rows, sample_rows
from deep_bench.results.results import FORMATS


@pytest.fixture(scope="module")
def read(records: Path) -> Results:
    return gather(records)


def _hostile() -> Result:
    """A result whose every word breaks a table that believes it."""
    late = ((np.array([2.0]),), (np.array([1.0]),))
    labels = {"system": '=HYPERLINK("http://x")', "network": 'a,b|c;d"e\nf', "value": "7", "ranks": "2", "half": "\ud800"}
    figures = {
        "time|to, target": Figure("time|to, target", "s", "lower", late, censored=(False, True)),
        "forward": Figure("forward", "s", "lower", ((np.array([1.0, 2.0]), np.array([3.0])), (np.array([5.0]),))),
    }
    verdict = VerdictRecord(verdict="wrong", reason="x\ny,z|")
    return Result("network", Path("r.json"), datetime(2026, 1, 1, tzinfo=UTC), labels, figures, verdict)


def _csv(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_table_has_a_row_for_each_figure(read: Results, tmp_path: Path) -> None:
    found = _csv(read.export(tmp_path / "all.csv"))
    given = list(rows(read))
    assert len(found) == len(given) == sum(len(r.figures) for r in read)
    for row, expected in zip(found, given, strict=True):
        assert float(row["value"]) == expected["value"]
        assert (row["figure"], row["unit"], row["direction"]) == (
            expected["figure"],
            expected["unit"],
            expected["direction"],
        )
        assert row["low"] == ("" if expected["low"] is None else repr(expected["low"]))
    (accuracy,) = [row for row in found if row["figure"] == "accuracy"]
    assert {
        "width": "16",
        "verdict": "unchecked",
        "complete": "true",
        "n": "2",
        "optimizer.lr": "0.002",
    }.items() <= accuracy.items()


def test_json_and_parquet_have_the_same_rows(read: Results, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    plain = json.loads(read.export(tmp_path / "all.json").read_text())
    table = parquet.read_table(read.export(tmp_path / "all.parquet")).to_pylist()
    assert len(plain) == len(table)
    for one, other in zip(plain, table, strict=True):
        assert one.items() <= {name: finite(value) for name, value in other.items()}.items()
        assert all(other[name] is None for name in other.keys() - one.keys())


@pytest.mark.parametrize("end", ["csv", "json", "parquet"])
def test_a_row_for_each_sample(read: Results, tmp_path: Path, end: str) -> None:
    operators = read.where(kind="operators")
    path = operators.export(tmp_path / f"all.{end}", samples=True)
    if end == "parquet":
        found: list[dict[str, Any]] = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    else:
        found = json.loads(path.read_text()) if end == "json" else _csv(path)
    assert len(found) == sum(figure.count for r in operators for figure in r.figures.values())
    first = [float(row["value"]) for row in found if row["case"] == "4x8" and row["figure"] == "forward"]
    assert np.median(first) == pytest.approx(operators[0].figures["forward"].median)


def test_samples_tell_their_launch_and_block() -> None:
    found = [row for row in sample_rows([_hostile()]) if row["figure"] == "forward"]
    assert [(row["launch"], row["block"], row["sample"], row["value"]) for row in found] == [
        (0, 0, 0, 1.0), (0, 0, 1, 2.0), (0, 1, 0, 3.0), (1, 0, 0, 5.0),
    ]  # fmt: skip
    late = [row["censored"] for row in sample_rows([_hostile()]) if row["figure"] != "forward"]
    assert late == [False, True]


def test_text_in_tables_is_text(tmp_path: Path) -> None:
    row, _ = _csv(Results([_hostile()]).export(tmp_path / "a.csv"))
    assert row["system"] == '\'=HYPERLINK("http://x")'
    assert row["network"] == 'a,b|c;d"e\nf'
    assert row["half"] == "?"
    assert (row["label.value"], row["value"], row["censored"]) == ("7", "inf", "1")


def test_every_form_takes_any_text(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    result = Results([_hostile()])
    for number, (form, ends) in enumerate(FORMATS.items()):
        for end in ends:
            assert result.export(tmp_path / f"{number}{end}", form).stat().st_size > 100


def test_a_data_frame_has_the_same(read: Results) -> None:
    pytest.importorskip("pandas")
    frame = read.to_dataframe()
    assert len(frame) == len(list(rows(read)))
    assert frame[frame.figure == "accuracy"].value.item() == read.where(kind="training")[0].figures["accuracy"].median
    samples = read.where(kind="scaling").to_dataframe(samples=True)
    assert samples[samples.figure == "step"].value.tolist() == [1.0, 1.5, 2.0]
    assert Results().to_dataframe().empty


def test_what_is_not_installed_is_said(read: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FrameworkMissing, match=r"deep-bench\[parquet\]"):
        read.export(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FrameworkMissing, match="pip install pandas"):
        read.to_dataframe()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused(read: Results, tmp_path: Path) -> None:
    for name, form, samples, said in (
        ("a.xlsx", "table", False, "ends in .csv, .json, .parquet"),
        ("a.csv", "reframe", False, "ends in .json, .log"),
        ("a.csv", "nix", False, "one of benchpark"),
        ("a.json", "benchpark", True, "no place for them"),
        ("no/a.csv", "table", False, "cannot write"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            read.export(tmp_path / name, form, samples=samples)


def test_jube_reads_a_cell_up_to_the_next_comma(read: Results, tmp_path: Path) -> None:
    both = Results([*read, _hostile()])
    lines = both.export(tmp_path / "result.dat", "jube").read_text().splitlines()
    cells = [line.split(",") for line in lines]
    assert len(cells) == 1 + len(both)
    assert {len(line) for line in cells} == {len(cells[0])}
    first, last = (dict(zip(cells[0], line, strict=True)) for line in (cells[1], cells[-1]))
    assert first["predicted step[s]"] == "1.0"
    assert (last["forward[s]"], last["network"], last["verdict"]) == ("3.5", 'a;b|c;d"e f', "wrong")
    assert last["time|to; target[s]"] == "", "infinity is no number"


def test_ramble_finds_experiments_contexts_and_figures_of_merit(read: Results, tmp_path: Path) -> None:
    both = Results([*read, _hostile()])
    content = json.loads(both.export(tmp_path / "results.json", "benchpark").read_text())
    experiments = content["experiments"]
    assert len({e["name"] for e in experiments}) == len(both)
    for experiment, result in zip(experiments, both, strict=True):
        status = "SUCCESS" if result.ok else "FAILED"
        assert (experiment["EXPERIMENT_STATUS"], experiment["RAMBLE_STATUS"]) == (status, status)
        assert experiment["RAMBLE_VARIABLES"]["repeat_index"] == "0"
        assert experiment["RAMBLE_VARIABLES"]["n_ranks"] == result.labels.get("ranks", "1")
        assert all(isinstance(value, str) for value in experiment["RAMBLE_VARIABLES"].values())
        (context,) = experiment["CONTEXTS"]
        for fom in context["foms"]:
            assert {"name", "value", "units", "origin", "origin_type", "fom_type"} == set(fom)
            assert fom["fom_type"]["name"] in {"TIME", "THROUGHPUT", "MEASURE", "CATEGORY", "INFO", "UNDEFINED"}
            assert fom["fom_type"]["better_direction"] in {"HIGHER", "LOWER", "INDETERMINATE", "INAPPLICABLE"}
    foms = {fom["name"]: fom for fom in experiments[-1]["CONTEXTS"][0]["foms"]}
    assert foms["verdict"]["value"] == "wrong"
    assert (foms["forward"]["value"], foms["forward"]["units"]) == (3.5, "s")
    assert foms["forward"]["fom_type"] == {"name": "TIME", "better_direction": "LOWER"}
    assert "time|to, target" not in foms


def test_reframe_reads_a_run_report(read: Results, tmp_path: Path) -> None:
    reporting = pytest.importorskip("reframe.frontend.reporting")
    both = Results([*read, _hostile()])
    path = both.export(tmp_path / "report.json", "reframe")
    report = reporting.restore_session(str(path))  # it validates the schema
    assert report["session_info"]["data_version"] == reporting.DATA_VERSION
    assert report["session_info"]["num_failures"] == 1
    assert report["session_info"]["num_cases"] == len(both)
    assert len(list(report.slice("name", when=("result", "fail")))) == 1
    _stored(path, tmp_path / "results.db", len(both))


def _stored(path: Path, database: Path, count: int) -> None:
    """ReFrame's own data base takes the report, and finds its performance values again."""
    from reframe.core import config, runtime
    from reframe.frontend.reporting.storage import StorageBackend
    from reframe.frontend.reporting.utility import parse_query_spec

    site = config.load_config("<builtin>")
    site.select_subconfig("generic")
    site.add_sticky_option("storage/sqlite_db_file", str(database))
    runtime.init_runtime(site)
    storage = StorageBackend.create("sqlite")
    storage.store(json.loads(path.read_text()), str(path))
    found = storage.fetch_testcases(parse_query_spec("20260101T0000+0000:20990101T0000+0000"))
    assert len(found) == count
    values = {name.split(":")[-1]: value[0] for case in found for name, value in case["perfvalues"].items()}
    assert values["step"] == 1.5


def test_a_performance_log_has_a_line_for_each_figure(tmp_path: Path) -> None:
    path = Results([_hostile()]).export(tmp_path / "perf.log", "reframe")
    head, *lines = (line.split("|") for line in path.read_text().splitlines())
    assert [len(line) for line in lines] == [len(head)]
    found = dict(zip(head, lines[0], strict=True))
    assert {
        "result": "fail",
        "perf_var": "forward",
        "perf_value": "3.5",
        "perf_unit": "s",
        "perf_ref": "null",
    }.items() <= found.items()
    assert found["environ"] == "_HYPERLINK_http_x_"


def test_the_command_line_writes_files(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["export", *map(str, words)])
        return int(ended.value.code or 0), *capsys.readouterr()

    path = tmp_path / "all.csv"
    status, out, _ = run(records, "-o", path, "--where", "kind=operators", "--samples")
    assert status == 0
    assert f"2 results: {path}" in out
    assert {row["kind"] for row in _csv(path)} == {"operators"}
    assert run(records, "-o", tmp_path / "r.log", "--format", "reframe")[0] == 0
    status, _, err = run(records, "-o", tmp_path / "r.dat")
    assert status == 2
    assert "ends in" in err
    (tmp_path / "bad.json").write_text("{")
    status, _, err = run(records / "scaling", tmp_path / "bad.json", "-o", path)
    assert status == 1
    assert "bad.json" in err
    assert {row["kind"] for row in _csv(path)} == {"scaling"}
