"""What goes wrong in a study: kernels that fail, cheat or cannot be sent; interruptions; bad arguments."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.operators import Argument, Case, Study, study
from deep_bench.operators.studies.settings import VERDICT
from deep_bench.tensor import TensorSpec

KERNELS = Path(__file__).with_name("kernels.py")
QUICK: dict[str, Any] = {"budget": 0.1, "ci_width": 0.9, "dispatch": False, "progress": False, "twin": False}


def kernel(name: str) -> str:
    return f"{KERNELS}:{name}"


def add(*shape: int, **options: Any) -> Case:
    return Case.of("Add", shape, shape, **options)


@pytest.fixture(scope="module")
def misbehaved() -> Study:
    # one that ends is started afresh for the next case
    return study(
        [kernel("Misbehaving"), "reference"], [add(n, label=f"{n} {n}") for n in range(1, 8)], **{**QUICK, "limit": 2.0}
    )


@pytest.mark.parametrize(
    ("size", "verdict", "reason"),
    [
        (1, "failed", "ValueError: on purpose"),
        (2, "failed", "returned a list. Expected: an array"),
        (3, "wrong", "float64"),
        (4, "failed", "crashed (SIGABRT)"),
        (5, "failed", "took more than 2 s"),
        (6, "failed", "six elements"),
        (7, "right", "rounding only"),
    ],
)
def test_what_goes_wrong_in_one_case_costs_that_case(misbehaved: Study, size: int, verdict: str, reason: str) -> None:
    trial = misbehaved["Misbehaving", f"{size} {size}"]
    assert (trial.verdict, reason in trial.reason) == (verdict, True), trial.reason
    assert misbehaved["reference", f"{size} {size}"].ok
    assert misbehaved["reference", f"{size} {size}"].median() > 0


def test_the_place_of_an_error_is_said(misbehaved: Study) -> None:
    assert "kernels.py, line " in misbehaved["Misbehaving", "1 1"].reason
    assert "kernels.py, line " in misbehaved.table(200)


def test_totals_are_over_the_cases_that_all_were_timed_on(misbehaved: Study) -> None:
    assert misbehaved.common == ("3 3", "7 7")
    assert "total over 2 of 7 cases: those that all contestants were timed on" in misbehaved.table(200)


def test_wrong_gradients_are_found() -> None:
    found = study([kernel("Product"), "reference"], Case.of("Mul", (8, 8), (8, 8)), backward=True, **QUICK)
    trial = found["Product", "8x8 8x8"]
    assert trial.record.verdict.verdict == "right"
    assert trial.verdict == "wrong"
    assert "the gradient of A" in trial.reason
    assert found["reference", "8x8 8x8"].verdict == "right"


def test_a_kept_answer_is_found_after_timing() -> None:
    trial = study(kernel("Forgetful"), add(50), **QUICK)["Forgetful", "50 50"]
    assert trial.verdict == "wrong"
    assert "it gives its earlier answer again for inputs it has not seen" in trial.reason


@pytest.mark.long
def test_isolation_starts_each_case_afresh() -> None:
    class Counting(db.Operator):
        computes = "Add"
        seen: list[int] = []  # noqa: RUF012

        def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
            if a.size not in self.seen:
                self.seen.append(a.size)
            if len(self.seen) > 1:
                raise ValueError("another case was here before")
            return a + b

    cases = [add(2), add(3)]
    assert [t.verdict for t in study(Counting, cases, **QUICK).trials] == ["right", "failed"]
    assert [t.verdict for t in study(Counting, cases, isolate=True, **QUICK).trials] == ["right", "right"]


def test_interrupted_studies_keep_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from deep_bench.study import study as engine

    measure, count = engine.measure_launch, []

    def interrupted(*args: Any, **options: Any) -> Any:
        count.append(1)
        if len(count) == 2:
            raise KeyboardInterrupt
        return measure(*args, **options)

    monkeypatch.setattr(engine, "measure_launch", interrupted)
    found = study(kernel("Doubled"), [add(2), add(3), add(4)], output=tmp_path, **QUICK)
    assert found.interrupted
    assert found["Doubled", "2 2"].median() > 0
    assert "interrupted after 2 of 3 cases" in found.table()
    assert Study.load(found.path).interrupted


def test_a_case_without_a_reference_is_timed_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_bench.errors import UnsupportedOperator
    from deep_bench.operators.studies import experiment

    def refuse(*_: object) -> None:
        raise UnsupportedOperator("Add", "Add", 1, "on purpose")

    monkeypatch.setattr(experiment, "Judge", refuse)
    trial = study(kernel("Doubled"), add(2), **QUICK)["Doubled", "2 2"]
    assert trial.verdict == "unchecked"
    assert "on purpose" in trial.reason
    assert VERDICT in trial.record.unavailable
    assert trial.median() > 0


@pytest.mark.parametrize(
    ("contestants", "words"),
    [
        ([], "no contestants"),
        ([kernel("Doubled"), kernel("Doubled")], "takes part twice"),
        (kernel("Double"), "one of its operators: Doubled, Product, Off"),
        (kernel("number"), "a int as a contestant"),
        (kernel("Demanding"), "cannot be made without arguments"),
        ("/nowhere/kernels.py:Doubled", "there is no file"),
        (3, "a int as a contestant"),
        ("refrence", "did you mean 'reference'"),
    ],
)
def test_wrong_contestants_are_refused(contestants: Any, words: str) -> None:
    with pytest.raises((InvalidArgument, UnknownName), match=words):
        study(contestants, add(2), **QUICK)


def test_an_operator_that_cannot_be_pickled_is_refused() -> None:
    class Holding(db.Operator):
        computes = "Add"

        def __init__(self) -> None:
            self.lock = threading.Lock()

        def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return a + b

    with pytest.raises(InvalidArgument, match="cannot be sent to its process"):
        study(Holding(), add(2), **QUICK)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 0}, "budget=0"),
        ({"budget": float("nan")}, "budget"),
        ({"ci_width": 1.5}, "ci_width=1.5"),
        ({"limit": -1.0}, "limit=-1"),
        ({"seed": -1}, "seed=-1"),
        ({"check": "some"}, "check='some'"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        study("reference", add(2), **{**QUICK, **options})


def test_a_case_that_fits_nothing_costs_that_case() -> None:
    two, three = (Argument(TensorSpec("", (n,), np.dtype("float32"))) for n in (2, 3))
    found = study([kernel("Doubled"), "reference"], [Case("Add", (two, three), label="bad"), add(4)], **QUICK)
    assert [t.verdict for t in found.trials] == ["failed", "failed", "right", "right"]
    assert "do not fit each other" in found["Doubled", "bad"].reason
    assert found.common == ("4 4",)
