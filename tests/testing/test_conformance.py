"""The conformance command: counts, crashes that cost one case, known failures that are strict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.errors import InvalidArgument, UnknownName, WorkerError
from deep_bench.testing.conformance import run_conformance
from deep_bench.testing.report import as_text, one_line
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
        "test_ceil": "failed",
        "test_cos": "failed",
        "test_exp": "failed",
        "test_floor": "failed",
        "test_neg": "failed",
        "test_sin": "failed",
        "test_sqrt": "wrong",
        "test_tan": "refused",
    }
    assert not broken.ok


def test_the_reasons_are_told(broken) -> None:
    details = {r.name: r.outcome.detail for r in broken.results}
    assert "SIGSEGV" in details["test_cos"]
    assert "took more than 3 s" in details["test_sin"]
    assert "SystemExit" in details["test_ceil"]
    assert "outputs named 'y_' instead of 'y'" in details["test_floor"]
    assert "memoryview instead of a NumPy array" in details["test_neg"]
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
    assert cells == ["all", "11", "2", "2", "–", "–", "–", "2", "1", "6", "–", "–"]


def test_a_narrow_terminal_gets_lines(broken) -> None:
    text = " ".join(as_text(broken, width=60).split())
    assert "all: 11 cases, 2 passed, 2 native, 2 wrong, 1 refused, 6 failed" in text


@pytest.mark.long
def test_a_wrong_output_stays_wrong_if_a_second_one_is_right() -> None:
    found = run_conformance(f"{MODULE}:OnceWrong", kinds=["generated"], only=lambda case: case.name == "Conv/2")
    assert [r.word for r in found.results] == ["wrong"]


@pytest.mark.long
def test_what_the_checker_cannot_tell_is_not_passed_over() -> None:
    wanted = {"Conv/11", "LayerNormalization/1", "LayerNormalization/2"}
    found = run_conformance(f"{MODULE}:InFloat32Only", kinds=["generated"], only=lambda case: case.name in wanted)
    assert found.words["wrong"] + found.words["undecided"] > 0
    assert not found.ok


def test_an_adapter_that_cannot_be_made_says_why_and_keeps_its_log() -> None:
    with pytest.raises(WorkerError, match="no licence") as failure:
        run_conformance(f"{MODULE}:Unmakeable", kinds=["simple"])
    log = Path(re.search(r"its log is (\S+)", str(failure.value))[1])
    assert "looking for the licence" in log.read_text()


def test_an_interruption_keeps_what_was_found() -> None:
    def interrupt(done: int, total: int, name: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    found = run_conformance("reference", kinds=["simple"], progress=interrupt)
    assert (len(found.results), found.interrupted) == (2, True)
    assert "interrupted" in as_text(found)


@pytest.mark.parametrize(
    "options", [{"kinds": []}, {"limit_s": 0}, {"limit_s": -1}, {"limit_s": 1e9}, {"only": lambda case: False}]
)
def test_nonsense_is_refused(options) -> None:
    with pytest.raises(InvalidArgument):
        run_conformance("reference", **{"kinds": ["simple"], **options})


def test_kinds_may_be_a_generator() -> None:
    found = run_conformance("reference", kinds=(k for k in ["simple"]), only=lambda case: "Sign" in case.operators)
    assert len(found.results) == 1


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
    assert found["words"] == {"passed": 1, "wrong": 1, "refused": 0, "failed": 0, "undecided": 0, "skipped": 0}
    assert [case["case"] for case in found["cases"]] == ["test_abs", "test_asin"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--case", "test_abz"], "did you mean 'test_abs'?"),
        (["--case", "test_abs", "--case", "test_nothing"], "no case of these kinds has the case 'test_nothing'"),
        (["--operator", "Abs", "--operator", "Absolute"], "no case of these kinds has the operator 'Absolute'"),
        (["--operator", "Abs", "--case", "test_acos"], "no case is left to run"),
    ],
)
def test_the_command_refuses_what_does_not_exist(words: list[str], told: str, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["conformance", "--on", "reference", "--kind", "node", *words])
    assert end.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.long
def test_an_adapter_that_cannot_be_made_again_loses_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DEEP_BENCH_TEST_MARK", str(tmp_path / "mark"))
    names = ("test_abs", "test_acos", "test_asin")
    found = run_conformance(f"{MODULE}:StartsOnce", kinds=["node"], only=lambda case: case.name in names)
    assert [r.word for r in found.results] == ["passed", "failed", "failed"]
    assert "the device is gone" in found.results[2].outcome.detail


def test_what_was_found_is_kept_meanwhile(monkeypatch) -> None:
    monkeypatch.setattr("deep_bench.testing.conformance._KEEP_EVERY_S", 0.0)
    kept = []
    names = ("test_abs", "test_acos")
    run_conformance("reference", kinds=["node"], only=lambda case: case.name in names, keep=kept.append)
    assert [(part.interrupted, len(part.results)) for part in kept] == [(True, 1), (True, 2)]


@pytest.mark.long
def test_inputs_are_fed_by_name() -> None:
    found = run_conformance(f"{MODULE}:Reordered", kinds=["node"], only=lambda case: case.name in ("test_sub", "test_pow"))
    assert {r.word for r in found.results} == {"passed"}


@pytest.mark.long
def test_errors_in_any_letters_are_shown() -> None:
    found = run_conformance(f"{MODULE}:Surrogate", kinds=["node"], only=lambda case: case.name == "test_abs")
    as_text(found).encode()
    assert "bad \\ud800 text" in as_text(found)


def test_something_else_than_an_adapter_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="a subclass of deep_bench"):
        run_conformance(f"{MODULE}:no_adapter", kinds=["simple"])


def test_the_end_of_a_long_error_is_shown() -> None:
    line = one_line("a crash\n" + "noise " * 200 + "\nValueError: the reason")
    assert line.startswith("a crash noise")
    assert line.endswith("… ValueError: the reason")


def test_the_command_refuses_before_it_runs(tmp_path, capsys) -> None:
    for words in (
        ["--on", "reference", "--on", "nope"],
        ["--on", "reference", "--json", str(tmp_path / "no" / "found.json")],
    ):
        with pytest.raises(SystemExit) as end:
            main(["conformance", "--kind", "simple", *words])
        assert end.value.code == 2
        assert not capsys.readouterr().out
