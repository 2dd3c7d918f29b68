"""The conformance command: counts, crashes that cost one case, known failures that are strict."""

from __future__ import annotations

import json

import pytest

from deep_bench.cli import main
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.testing.conformance import run_conformance
from deep_bench.testing.report import as_text
from tests.testing.broken_adapters import FAULTS

MODULE = "tests.testing.broken_adapters"
CHOSEN = {*FAULTS, "test_acos", "test_asin"}


def chosen(case) -> bool:
    return case.name in CHOSEN


@pytest.fixture(scope="module")
def broken():
    return run_conformance(f"{MODULE}:Broken", kinds=["node"], only=chosen, limit_s=3)


def test_each_case_ends_in_its_own_way(broken) -> None:
    found = {r.name: r.word for r in broken.results}
    assert found == {
        "test_abs": "wrong",
        "test_acos": "passed",
        "test_asin": "passed",
        "test_cos": "failed",
        "test_exp": "failed",
        "test_sin": "failed",
        "test_sqrt": "wrong",
        "test_tan": "refused",
    }
    assert not broken.ok


def test_the_reasons_are_told(broken) -> None:
    details = {r.name: r.outcome.detail for r in broken.results}
    assert "SIGSEGV" in details["test_cos"]
    assert details["test_sin"] == "took more than 3 s"
    assert "no such kernel" in details["test_exp"]
    assert "element type float64" in details["test_sqrt"]
    assert "no code for it" in details["test_tan"]


def test_known_failures_are_strict() -> None:
    found = run_conformance(f"{MODULE}:Listing", only=lambda case: case.name in ("test_abs", "test_acos", "test_asin"))
    assert [r.name for r in found.surprises] == ["test_acos"]
    text = as_text(found)
    assert "silently wrong: test_abs: y: 60 of 60 elements differ; known: the sign is kept" in text
    assert "passed, though listed as a known failure: test_acos" in text


def test_the_report_counts_every_case_once(broken) -> None:
    lines = as_text(broken, width=200).splitlines()
    (row,) = [line for line in lines if line.startswith("│all")]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == ["all", "8", "2", "2", "–", "–", "–", "2", "1", "3", "–"]


def test_frozen_cases_keep_one_input() -> None:
    found = run_conformance("reference", kinds=["node"], frozen=True, only=lambda case: case.operators == ("Gemm",))
    assert len(found.results) > 5
    assert found.ok


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="pytorch-operator"):
        run_conformance("reference", kinds=["nodes"])


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("no_such_module:Adapter", InvalidArgument, "no module 'no_such_module'"),
        ("no_such.module:Adapter", InvalidArgument, "no module 'no_such.module'"),
        ("tests.testing.broken_adapters:Nothing", InvalidArgument, "has no 'Nothing'"),
        ("refrence", UnknownName, "did you mean 'reference'"),
    ],
)
def test_an_unknown_adapter_is_refused(name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run_conformance(name, kinds=["simple"])


def test_the_command_writes_json_and_exits_with_1_if_anything_is_wrong(tmp_path, capsys) -> None:
    file = tmp_path / "found.json"
    with pytest.raises(SystemExit) as end:
        main(["conformance", "--on", f"{MODULE}:Broken", "--case", "test_abs", "--case", "test_asin", "--json", str(file)])
    assert end.value.code == 1
    assert "silently wrong: test_abs" in capsys.readouterr().out
    found = json.loads(file.read_text())
    assert found["words"] == {"passed": 1, "wrong": 1, "refused": 0, "failed": 0, "skipped": 0}
    assert [case["case"] for case in found["cases"]] == ["test_abs", "test_asin"]


def test_the_command_refuses_cases_that_do_not_exist(capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["conformance", "--on", "reference", "--case", "test_nothing"])
    assert end.value.code == 2
    assert "test_nothing" in capsys.readouterr().err
