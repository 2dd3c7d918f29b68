"""Mistakes of somebody who writes a kernel are told by what was written, and what would be right."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidInput, UnknownName
from deep_bench.operators import Case
from deep_bench.operators.checks import check_operator, forward_check
from deep_bench.operators.checks.honesty import remembering_check
from deep_bench.operators.operator import KernelAdapter

QUICK: dict[str, Any] = {"budget": 0.1, "ci_width": 0.9, "dispatch": False, "progress": False, "twin": False}
RELU = Case.of("Relu", (4, 5))


class Relu(db.Operator):
    computes = "Relu"

    def forward(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)


class Misspelled(Relu):
    computes = "Reluu"


class TwoInputs(Relu):
    def forward(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.maximum(x, y)


class NoForward(db.Operator):
    computes = "Relu"


class SetupRaises(Relu):
    def setup(self, case: Case) -> None:
        raise OSError("no compiler")


def test_a_misspelled_operator_gets_the_nearest() -> None:
    for use in (lambda: db.operators.study(Misspelled, RELU, **QUICK), lambda: check_operator(Misspelled(), RELU)):
        with pytest.raises(UnknownName, match="did you mean 'Relu'"):
            use()


def test_a_class_without_forward_is_told_so() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("NoForward has no forward")) as caught:
        db.operators.study(NoForward, RELU, **QUICK)
    assert "define forward(self, …) in NoForward" in caught.value.advice


def test_another_number_of_inputs_is_told_before_the_call() -> None:
    said = re.escape("forward(x: np.ndarray, y: np.ndarray) -> np.ndarray does not take the 1 input of Relu (X)")
    said = said.replace("np\\.ndarray", "'?np\\.ndarray'?")
    with pytest.raises(InvalidInput, match=said):
        KernelAdapter(TwoInputs()).prepare(RELU.network())
    (trial,) = db.operators.study(TwoInputs, RELU, **QUICK).trials
    assert "kernel.py" not in trial.reason
    assert "missing a required argument: 'y'" in trial.reason


def test_an_error_says_when_it_came_in_plain_words() -> None:
    (trial,) = db.operators.study(SetupRaises, RELU, **QUICK).trials
    assert trial.reason.startswith("when it was set up or called first: OSError: no compiler (")


def native(**options: Any) -> db.Operator:
    source = 'extern "C" void f(const float *x, float *y, long n, float a) { for (long i = 0; i < n; ++i) y[i] = x[i]; }'
    chosen = {"signature": "const float *x, float *y, int64_t n = x.size", "computes": "LeakyRelu", **options}
    return db.operators.native(source, function="f", **chosen)


def test_a_device_that_does_not_exist_gets_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'cuda'") as caught:
        native(device="cdua")
    assert "cpu, cuda" in caught.value.expected


@pytest.mark.parametrize(("computes", "advice"), [("LeakyRelu", "did you mean 'alpha'"), ("Relu", "give it a value there")])
def test_an_attribute_that_the_operator_does_not_have_is_refused(computes: str, advice: str) -> None:
    signature = "const float *x, float *y, int64_t n = x.size, float alpah"
    with pytest.raises(InvalidArgument, match=f"{computes} has no attribute 'alpah'") as caught:
        native(computes=computes, signature=signature)
    assert advice in caught.value.advice
    assert native(computes=computes, signature=f"{signature} = 0.5").name == "f"


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "near"),
    [
        ("Gelu", [(4,)], {"approximate": "tanhh"}, "tanh"),
        ("MaxPool", [(1, 1, 4, 4)], {"kernel_shape": [2, 2], "auto_pad": "SAME_UPER"}, "SAME_UPPER"),
        ("Pad", [(4,), [1, 1]], {"mode": "reflct"}, "reflect"),
    ],
)
def test_a_text_that_an_attribute_cannot_be_is_refused(
    operator: str, shapes: list[Any], attributes: dict[str, Any], near: str
) -> None:
    with pytest.raises(UnknownName, match=f"did you mean '{near}'"):
        Case.of(operator, *shapes, **attributes)
    assert Case.of(operator, *shapes, **{**attributes, list(attributes)[-1]: near})


def test_underflow_is_not_taken_for_another_format() -> None:
    class Naive(db.Operator):
        computes = lambda a, b: np.hypot(a, b)  # noqa: E731

        def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return np.sqrt(a * a + b * b)

    finding = forward_check(Naive(), Case.of(Naive().target, (40, 50), (40, 50)))
    (tiny,) = [part for part in finding.parts if part.place.startswith("tiny")]
    assert (tiny.word, "underflow" in tiny.reason) == ("reduced precision", True), tiny.reason


def test_who_works_in_threads_is_not_said_to_remember() -> None:
    class Later(Relu):
        """Takes its time before the call returns, but for inputs like those it was first called with works in a thread."""

        first: float | None = None

        def forward(self, x: np.ndarray) -> np.ndarray:
            self.first = x[0, 0] if self.first is None else self.first
            if x[0, 0] == self.first:
                threading.Thread(target=spin).start()
            else:
                spin()
            return np.maximum(x, 0)

    assert remembering_check(Later(), RELU).word == "right"


def spin() -> None:
    end = time.thread_time_ns() + 3_000_000
    while time.thread_time_ns() < end:
        pass
