"""The check of gradients: slopes by differences, wrong gradients caught, the command."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.testing.conformance import run_gradients
from deep_bench.testing.gradient_coverage import page
from deep_bench.testing.gradients import slope
from deep_bench.testing.report import gradients_as_text
from tests.testing.wrong_gradients import FAULTS

MODULE = "tests.testing.wrong_gradients"
RIGHT = ("test_acos", "test_add", "test_asin")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda t: (1 + t) ** 3, 3),
        (lambda t: 1e3 * math.exp(t), 1e3),
        (lambda t: t * t, 0),
        (lambda t: 1e4 * t * t, 0),
        (lambda t: math.sin(40 * (1 + t)), 40 * math.cos(40)),
        (lambda t: max(0.0, t - 1e-4), 0),
        (lambda t: 5.0, 0),
        (lambda t: math.floor(0.4 + t), 0),
    ],
)
def test_smooth_functions_have_one_slope(function, expected: float) -> None:
    found = slope(function)
    assert found.word == "smooth"
    assert found.low == found.high == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("function", "word", "low", "high"),
    [
        (abs, "kink", -1, 1),
        (lambda t: max(0.0, 3 * t), "kink", 0, 3),
        (lambda t: math.sin(t) + max(0.0, t), "kink", 1, 2),
    ],
)
def test_kinks_have_two(function, word: str, low: float, high: float) -> None:
    found = slope(function)
    assert (found.word, found.low, found.high) == (word, pytest.approx(low, abs=1e-5), pytest.approx(high, abs=1e-5))
    assert found.admits((low + high) / 2, 0)
    assert not found.admits(high + 0.01, 1e-3)
    assert not found.admits(low - 0.01, 1e-3)


@pytest.mark.parametrize("function", [math.floor, lambda t: math.copysign(1, t), lambda t: abs(t) ** 0.5])
def test_jumps_have_none(function) -> None:
    assert slope(function).word == "jump"


def test_undefined_points() -> None:
    assert slope(lambda t: math.nan).word == "undefined"
    assert slope(lambda t: math.log(t) if t > 0 else -math.inf).word == "undefined"
    assert slope(lambda t: math.sqrt(t) if t >= 0 else math.nan).word == "undefined"


@pytest.fixture(scope="module")
def found():
    return run_gradients(f"{MODULE}:WrongGradients", only=lambda case: case.name in {*FAULTS, *RIGHT}, limit_s=30)


@pytest.mark.long
def test_wrong_gradients_are_caught(found) -> None:
    words = {r.name: r.word for r in found.results}
    expected = (
        dict.fromkeys(FAULTS, "wrong") | dict.fromkeys(RIGHT, "right") | {"test_sin": "failed", "test_sinh": "refused"}
    )
    assert words == expected
    assert not found.ok


@pytest.mark.long
def test_the_reasons_are_told(found) -> None:
    details = {r.name: r.outcome.detail for r in found.results}
    assert "at [2, 3, 4] is" in details["test_exp"] or "instead of" in details["test_exp"]
    assert "has shape [60] instead of [3, 4, 5]" in details["test_mul"]
    assert "SIGSEGV" in details["test_sin"]
    assert "no gradient here" in details["test_sinh"]
    assert "is nan instead of" in details["test_tanh"]


def test_gradients_by_other_names_are_a_failure() -> None:
    found = run_gradients(f"{MODULE}:Misnames", only=lambda case: case.name == "test_tanh")
    (result,) = found.results
    assert result.word == "failed"
    assert "gradients named 'x_' instead of 'x'" in result.outcome.detail


def test_the_report(found) -> None:
    text = gradients_as_text(found, width=200)
    assert "wrong-gradients" not in text.splitlines()[0]
    assert "1: there is no gradient here (test_sinh)" in text
    assert "wrong: test_atan: the gradient of x" in text
    assert "more operators: every case right" in text


def test_the_page(found) -> None:
    outputs = {"system": found.system, "onnx": "1", "frozen": False, "cases": [{"case": "test_add", "word": "passed"}]}
    text = page([found.as_json(), outputs])
    assert f"| {len(found.results)} | {len(RIGHT)} | 0 | 1 | {len(FAULTS) - 2} | 1 | 1 of 1 (100.0%) |" in text


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "conformance",
                "--gradients",
                "--on",
                "reference",
                "--operator",
                "Tanh",
                "--operator",
                "Floor",
                "--json",
                str(file),
            ]
        )
    assert ended.value.code == 0
    content = json.loads(file.read_text())
    assert content["words"] == {"right": 3, "kink": 1, "refused": 0, "wrong": 0, "failed": 0}
    assert "no gradient is wrong" in capsys.readouterr().out


def test_frozen_inputs_have_no_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["conformance", "--gradients", "--frozen", "--on", "reference"])
    assert ended.value.code == 2
    assert "give one of the two" in capsys.readouterr().err
