"""Gradients of kernels that compute a NumPy function, against numerical differentiation of that function."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.operators import Case
from deep_bench.operators.checks import backward_check
from tests.operators.checks import functions
from tests.operators.checks.functions import Factor

SHAPES = [
    (functions.Softmax, [(3, 7)]),
    (functions.Softmax, [(40, 300)]),
    (functions.Affine, [(2, 3), (3, 4), (4,)]),
    (functions.Affine, [(30, 200), (200, 20), (20,)]),
    (functions.Hinge, [(5, 6)]),
    (functions.Hinge, [(100, 50)]),
    (functions.Largest, [(6, 8)]),
    (functions.Moments, [(4, 9)]),
    (functions.Hyperbolic, [(3, 3)]),
    (functions.Hyperbolic, [(80, 90)]),
    (functions.Normalized, [(4, 10)]),
    (functions.Normalized, [(10, 500)]),
]


def case_of(kind: type[Factor], shapes: list[tuple[int, ...]]) -> Case:
    return Case.of(kind().target, *shapes, outputs=2 if kind is functions.Moments else 1)


@pytest.mark.parametrize(("kind", "shapes"), SHAPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_right_gradients_pass(kind: type[Factor], shapes: list[tuple[int, ...]], seed: int) -> None:
    found = backward_check(kind(), case_of(kind, shapes), seed=seed)
    assert found.word == "right", found
    assert any(part.word == "right" for part in found.parts if part.place.startswith("float32"))


@pytest.mark.parametrize(("kind", "shapes"), SHAPES)
@pytest.mark.parametrize("factor", [1.01, 0.99])
def test_a_factor_of_one_percent_is_found(kind: type[Factor], shapes: list[tuple[int, ...]], factor: float) -> None:
    found = backward_check(kind(factor), case_of(kind, shapes))
    assert found.word == "wrong", found
    for form in ("float32", "float64"):
        assert any(part.word == "wrong" for part in found.parts if part.place.startswith(form)), form


def test_an_input_of_whole_numbers_has_no_gradient() -> None:
    case = Case.of(functions.weighted, (4, 5), np.arange(5))
    assert backward_check(functions.Weighted(), case).word == "right"
    assert backward_check(functions.Weighted(1.01), case).word == "wrong"


def test_of_several_outputs_each_is_taken_alone() -> None:
    found = backward_check(functions.Moments(1.01), case_of(functions.Moments, [(4, 9)]))
    places = {part.place.split(" alone")[0]: part.word for part in found.parts if "alone" in part.place}
    assert sorted(set(places.values())) == ["right", "wrong"]


def test_kinks_get_no_gradient() -> None:
    for kind, shape in ((functions.Hinge, (5, 6)), (functions.Largest, (6, 8))):
        found = backward_check(kind(), case_of(kind, [shape]))
        assert found.word == "right", found
        assert max(part.figures.get("masked", 0.0) for part in found.parts if "ties" in part.place) >= 1


def test_a_wrong_entry_is_named() -> None:
    found = backward_check(functions.Hyperbolic(1.01), Case.of(functions.hyperbolic, (3,)))
    jacobian = next(part for part in found.parts if "Jacobian" in part.place)
    assert "backward gives" in jacobian.reason
    assert jacobian.reason.startswith("d ")


@pytest.mark.parametrize(
    ("kind", "word", "reason"),
    [
        (functions.Spoiler, "wrong", "backward changes the gradient of"),
        (functions.Widening, "wrong", "as float64 instead of float32"),
        (functions.Raising, "failed", "ValueError: on purpose"),
    ],
)
def test_what_else_backward_may_do_wrong(kind: type[Factor], word: str, reason: str) -> None:
    found = backward_check(kind(), Case.of(functions.hyperbolic, (3, 4)))
    assert found.word == word
    assert reason in found.reason
