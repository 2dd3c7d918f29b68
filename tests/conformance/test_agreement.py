"""Each framework's gradients agree with the derived network's to the last bits, by the rounding-error estimate."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.network.gradient import pullback
from deep_bench.testing import Case, standard_cases
from deep_bench.testing.agreement import gradient_agreement
from deep_bench.testing.conformance import has_gradient
from tests.conformance.sample import one_for_each_operator

SEED = 5
FINE = {"right", "kink", "known fault", "refused", "random"}


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(case for case in standard_cases("node") if has_gradient(case))


def _disagreeing(framework: str, cases: tuple[Case, ...], *, double: bool) -> list[str]:
    if missing := db.frameworks.missing(framework):
        pytest.skip(f"{', '.join(missing)} is not installed")
    found = [gradient_agreement(framework, case, double=double) for case in cases]
    assert sum(a.word == "right" for a in found) > len(found) / 2
    return [f"{a.case}: {a.word}: {a.reason}" for a in found if a.word not in FINE]


_SAMPLED = [*((name, False) for name in db.frameworks), ("torch", True)]


@pytest.mark.long
@pytest.mark.parametrize(("framework", "double"), [*_SAMPLED, pytest.param("tensorflow", True, marks=pytest.mark.full)])
def test_a_sample(framework: str, double: bool) -> None:
    chosen = one_for_each_operator(_cases(), SEED + double, part=1, parts=2)  # half of them: each takes long
    assert not _disagreeing(framework, tuple(case for case in _cases() if case.name in chosen), double=double)


@pytest.mark.full
@pytest.mark.parametrize("double", [False, True], ids=["own types", "float64"])
@pytest.mark.parametrize("framework", list(db.frameworks))
def test_all(framework: str, double: bool) -> None:
    assert not _disagreeing(framework, _cases(), double=double)


@pytest.mark.parametrize("double", [False, True], ids=["own types", "float64"])
def test_a_gradient_that_is_nearly_right_is_wrong(monkeypatch: pytest.MonkeyPatch, double: bool) -> None:
    plain = pullback.Pullback.gradients

    def off(self: pullback.Pullback, *args: Any, **options: Any) -> dict[str, np.ndarray]:
        return {name: gradient * gradient.dtype.type(1.001) for name, gradient in plain(self, *args, **options).items()}

    monkeypatch.setattr(pullback.Pullback, "gradients", off)
    case = next(case for case in _cases() if case.name == "test_matmul_2d")
    assert gradient_agreement("reference", case, double=double).word == "wrong"
