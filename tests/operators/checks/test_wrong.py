"""Kernels that are wrong on purpose must be caught by the check that is meant for it."""

from __future__ import annotations

import pytest

from deep_bench.operators.checks import Problem
from deep_bench.operators.checks.run import check_of
from tests.operators.checks.correct import CASES
from tests.operators.checks.wrong import WRONG


@pytest.fixture(scope="module")
def problems():
    return {name: Problem(case, seed=3) for name, case in CASES.items()}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_caught(problems, name) -> None:
    operator, case, check, word = WRONG[name]
    finding = check_of(check)(operator, problems[case])
    assert (finding.word, bool(finding.reason)) == (word, True), str(finding)
