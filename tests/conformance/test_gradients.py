"""The gradients of the standard's cases on every framework: a stratified sample here, all of them in ``make test-full``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import deep_bench as db
from deep_bench.testing import standard_cases
from deep_bench.testing.conformance import GradientConformance, has_gradient, run_gradients
from deep_bench.testing.gradient_coverage import line
from deep_bench.testing.report import gradients_as_text
from tests.conformance.sample import one_for_each_operator

PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"
SEED = 4
CASES = 885

GOALS = {"onnxruntime": 777, "reference": 823, "tensorflow": 801, "torch": 816}
"""How many cases are right at least, beside those at a kink."""


@cache
def _sample(part: int) -> frozenset[str]:
    """One half of the operators, or the other: each half runs on two frameworks."""
    return one_for_each_operator(filter(has_gradient, standard_cases("node")), SEED, part, parts=2)


def conformance(framework: str, **options) -> GradientConformance:
    missing = db.frameworks.missing(framework)
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    return run_gradients(framework, **options)


@pytest.mark.long
@pytest.mark.parametrize("framework", GOALS)
def test_a_sample(framework: str) -> None:
    sample = _sample(list(GOALS).index(framework) % 2)
    found = conformance(framework, only=lambda case: case.name in sample)
    assert len(found.results) > 50
    assert found.ok, gradients_as_text(found)


@pytest.mark.full
@pytest.mark.parametrize("framework", GOALS)
def test_all(framework: str) -> None:
    found = conformance(framework)
    assert len(found.results) == CASES
    assert found.ok, gradients_as_text(found)
    assert found.words["right"] >= GOALS[framework], gradients_as_text(found)
    assert line(found.as_json()) in PAGE.read_text(encoding="utf-8"), "docs/gradients.md is out of date: make gradients"


def test_the_cases_that_count() -> None:
    assert sum(map(has_gradient, standard_cases("node"))) == CASES
