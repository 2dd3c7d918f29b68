"""Kernels that are right, each by another algorithm, must pass every check."""

from __future__ import annotations

import pytest

from deep_bench.operators.checks import CHECKS, check_operator
from tests.operators.checks.correct import CASES, CORRECT

ALWAYS = ("contract", "forward", "layout", "reruns", "fresh", "reuse", "unwritten", "unfinished", "patches")


@pytest.mark.long
@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_kernel_passes(name) -> None:
    operator, case = CORRECT[name]
    checks = [check for check in CHECKS if check != "remembering"]  # which is about time
    found = check_operator(operator, CASES[case], checks=checks, seed=5, isolate=False)
    assert found.faults == [], str(found)
    assert {f.name for f in found if f.word == "right"} >= set(ALWAYS), str(found)
    if operator.differentiates:
        assert [f.word for f in found if f.name in ("backward", "slopes")] == ["right", "right"], str(found)


@pytest.mark.parametrize("name", ["Gemm", "Softmax", "LayerNorm", "Gelu"])
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.long), *(pytest.param(s, marks=pytest.mark.full) for s in range(2, 12))]
)
def test_no_seed_raises_a_false_alarm(name, seed) -> None:
    operator, case = CORRECT[name]
    checks = ["forward", "sizes", "backward", "slopes", "batch"]
    found = check_operator(operator, CASES[case], checks=checks, seed=seed, isolate=False)
    assert found.faults == [], str(found)
    assert all(f.word == "right" for f in found), str(found)
