"""Every framework on the standard's own cases: a stratified sample here, all of them in ``make test-full``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import deep_bench as db
from deep_bench.testing import standard_cases
from deep_bench.testing.case import KINDS
from deep_bench.testing.conformance import Conformance, run_conformance
from deep_bench.testing.coverage import row
from deep_bench.testing.report import as_text
from tests.conformance.sample import one_for_each_operator

COVERAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
SEED = 3
FORMS = pytest.mark.parametrize("frozen", [False, pytest.param(True, marks=pytest.mark.long)], ids=["as is", "frozen"])


@dataclass(frozen=True)
class Goal:
    """What a framework reaches at least, of the 2,024 cases.

    Args:
        passed: Cases passed, as they are and frozen.
        native: Of those, run by the framework's own code, composite operators written out in it included.
    """

    passed: int
    native: int


GOALS = {
    "onnxruntime": Goal(1839, 1839),
    "reference": Goal(2018, 2018),
    "tensorflow": Goal(2012, 1891),
    "torch": Goal(2014, 1955),
}

ONCE_FAILED = frozenset(
    {
        "test_dft_inverse",
        "test_dft_inverse_opset19",
        "test_equal_string",
        "test_equal_string_broadcast",
        "test_identity_opt",
        "test_identity_sequence",
        "test_loop13_seq",
        "test_loop16_seq_none",
        "test_optional_get_element_optional_sequence",
        "test_optional_has_element_empty_optional_input",
        "test_resize_downsample_scales_cubic_align_corners",
        "test_resize_downsample_scales_linear_align_corners",
        "test_sequence_insert_at_back",
        "test_sequence_map_add_1_sequence_1_tensor",
        "test_sequence_map_extract_shapes",
        "test_sequence_model8",
        "test_string_concat",
        "test_string_concat_broadcasting",
        "test_string_concat_utf8",
    }
)
"""Cases that some framework has failed at some time."""


@cache
def _sample(frozen: bool) -> frozenset[str]:
    """Half of the operators as they are, the others frozen: the whole runs in ``make test-full``."""
    cases = (case for kind in KINDS for case in standard_cases(kind))
    return ONCE_FAILED | one_for_each_operator(cases, SEED, part=int(frozen), parts=2)


def conformance(framework: str, frozen: bool, **options) -> Conformance:
    missing = db.frameworks.missing(framework)
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    return run_conformance(framework, frozen=frozen, **options)


@FORMS
@pytest.mark.parametrize("framework", GOALS)
def test_a_sample(framework: str, frozen: bool) -> None:
    sample = _sample(frozen)
    found = conformance(framework, frozen, only=lambda case: case.name in sample)
    assert len(found.results) > 100
    assert found.ok, as_text(found)
    if framework == "reference":
        assert set(found.words) <= {"passed", "skipped"}, as_text(found)


@pytest.mark.full
@FORMS
@pytest.mark.parametrize("framework", GOALS)
def test_all(framework: str, frozen: bool) -> None:
    found = conformance(framework, frozen)
    assert len(found.results) == 2024
    assert found.ok, as_text(found)
    goal, forms = GOALS[framework], found.passed_by_form
    assert found.words["passed"] >= goal.passed, as_text(found)
    assert found.words["passed"] - forms["fallback"] >= goal.native, as_text(found)
    assert row(found.as_json()) in COVERAGE.read_text(encoding="utf-8"), "docs/coverage.md is out of date: make coverage"


def test_every_case_that_once_failed_is_still_there() -> None:
    names = {case.name for kind in ("node", "simple") for case in standard_cases(kind)}
    assert names >= ONCE_FAILED
