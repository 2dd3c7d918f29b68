"""Gradients of what makes tensors from a few numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.gradient.checks import alone, check

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
RANGE = "(double start, double limit, double delta) => (double[n] y) { z = Range(start, limit, delta) y = Mul(z, z) }"


@pytest.mark.parametrize("operator", ["MelWeightMatrix", "Range"])
def test_cases(operator: str) -> None:
    found = alone(operator)
    assert found
    assert [o for o in found if o.word not in ("right", "kink")] == []


@given(st.integers(-5, 5), st.integers(-4, 6), st.sampled_from([-1.5, -0.5, 0.5, 2.0]))
@settings(max_examples=15, deadline=None)
def test_any_range(start: int, count: int, delta: float) -> None:
    limit = start + (count - 0.5) * delta  # far from where the number of elements changes
    found = check(HEAD + RANGE, start=np.array(float(start)), limit=np.array(limit), delta=np.array(delta))
    assert found == "right"


def test_at_the_limit_the_number_of_elements_changes() -> None:
    assert check(HEAD + RANGE, start=np.array(1.0), limit=np.array(3.0), delta=np.array(1.0)) == "kink"
