"""Operators that change what they are timed and judged with, and gradients that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import UnknownName
from deep_bench.operators import Case, Study, study

KERNELS = Path(__file__).with_name("kernels.py")
QUICK: dict[str, Any] = {"budget": 0.1, "ci_width": 0.9, "dispatch": False, "progress": False, "twin": False}
SUM = Case.of("Add", (4, 5), (4, 5))
RELU = Case.of("Relu", (4, 5))


def kernel(name: str) -> str:
    return f"{KERNELS}:{name}"


@pytest.mark.parametrize(
    ("name", "reason"), [("InPlace", "changes its input X"), ("LaterInPlace", "a later call changes its input X")]
)
def test_a_kernel_that_changes_its_input_is_wrong(name: str, reason: str) -> None:
    (trial,) = study(kernel(name), RELU, **QUICK).trials
    assert (trial.verdict, trial.reason) == ("wrong", reason)


def test_a_wrapped_function_in_place_is_wrong() -> None:
    torch = pytest.importorskip("torch")
    (trial,) = study(db.operators.wrap(torch.relu_, computes="Relu", name="relu_"), RELU, **QUICK, in_process=True).trials
    assert (trial.verdict, trial.reason) == ("wrong", "changes its input X")


def test_a_backward_that_changes_an_input_is_wrong() -> None:
    (trial,) = study(kernel("BackwardInPlace"), SUM, backward=True, **QUICK).trials
    assert trial.record.verdict.verdict == "right"
    assert trial.verdict == "wrong"
    assert "backward changes its input A" in trial.reason


def test_gradients_are_blamed_in_the_words_of_the_checks() -> None:
    found = study([kernel("Flattening"), kernel("Zeroing")], SUM, backward=True, in_process=True, **QUICK)
    assert "returns C as float32[20] instead of float32[4, 5]" in found["Flattening", SUM.label].reason
    assert found["Zeroing", SUM.label].reason == "gradients: backward changes the gradient of C"


@pytest.mark.long
def test_a_replaced_clock_is_found_even_where_nothing_is_checked() -> None:
    for check in ("auto", "off"):
        (trial,) = study(kernel("Clockmaker"), SUM, check=check, **QUICK).trials
        assert trial.verdict == "wrong"
        assert "perf_counter_ns" in trial.reason


@pytest.mark.parametrize(
    ("name", "case", "reason"),
    [
        (
            "OneTooMany",
            SUM,
            "gradients: OneTooMany.backward returned a tuple of 3; expected: a tuple with one array",
        ),
        ("RaisesBackward", SUM, f"gradients: ZeroDivisionError: on purpose ({KERNELS}, line "),
        ("ForgetsToReturn", RELU, "gradients: ForgetsToReturn.backward returned a NoneType; expected: a tuple"),
    ],
)
def test_gradients_that_fail_cost_nothing_else(name: str, case: Case, reason: str) -> None:
    found = study(kernel(name), case, backward=True, **QUICK)
    (trial,) = found.trials
    assert trial.record.verdict.verdict == "right"
    assert trial.median() > 0
    assert trial.median("forward and backward") is None
    assert trial.verdict == "failed"
    assert trial.reason.startswith(reason)
    assert not found.ok


def test_who_cannot_be_made_fails_alone() -> None:
    found = study([kernel("InitRaises"), "reference"], SUM, **QUICK)
    assert [trial.verdict for trial in found.trials] == ["failed", "right"]
    assert "OSError: no licence for it" in found["InitRaises", "4x5 4x5"].reason


def test_a_class_that_cannot_be_made_fails_alone() -> None:
    class Broken(db.Operator):
        computes = "Add"

        def __init__(self) -> None:
            raise OSError("no licence for it")

        def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return a + b

    found = study([Broken, "reference"], SUM, **QUICK)
    assert [trial.verdict for trial in found.trials] == ["failed", "right"]
    assert "OSError: no licence for it" in found["Broken", "4x5 4x5"].reason


@pytest.fixture(scope="module")
def plain() -> Study:
    return study("reference", SUM, **QUICK)


def test_names_that_do_not_exist_are_refused(plain: Study) -> None:
    with pytest.raises(UnknownName, match="did you mean 'reference'"):
        plain.total("refrence")
    with pytest.raises(UnknownName, match="did you mean 'reference'"):
        plain.speed("refrence")
    with pytest.raises(UnknownName, match="unknown contestant"):
        plain.speed("reference", "nobody")
    with pytest.raises(UnknownName, match="did you mean 'backward'"):
        plain.trials[0].median("backwards")
    assert plain.trials[0].median("backward") is None


def test_times_that_cannot_be_are_pointed_out(plain: Study) -> None:
    record = plain.record.model_copy(deep=True)
    assert Study(record).trials[0].findings == []
    record.systems[0].trials[0].setup_ns = -5
    assert "a time below zero" in Study(record).trials[0].findings[0]
    record.systems[0].trials[0].setup_ns = 5
    rates = [{"kind": kind, "by": "numpy", "dtype": "float32", "value": 1.0} for kind in ("gemm", "copy")]
    record.roofline = {"rates": rates}
    assert "more than 100 % of the roof" in Study(record).trials[0].findings[0]
