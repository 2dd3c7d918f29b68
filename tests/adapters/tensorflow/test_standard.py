"""The standard's own cases, as they are and with all inputs but the first frozen: refused is data, wrong is not allowed."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from deep_bench.testing import freeze, run_case, standard_cases

RANDOM = ("bernoulli", "random", "multinomial", "training_dropout")
"""Cases whose outputs are one draw of many."""

UNROUNDED_LENGTH = (
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
)
"""These take the stretch from the length before rounding; the standard's formula, from the output's."""

COARSE = 1e-4
"""Fourier transforms of numbers up to 100: where the result is zero, the cases ask for what rounding left of it."""


def cases():
    chosen = [c for c in standard_cases("node") if not any(w in c.name for w in RANDOM) and c.name not in UNROUNDED_LENGTH]
    return [replace(c, atol=COARSE if c.name.startswith("test_dft") else c.atol) for c in chosen]


def outcomes(adapter, chosen):
    found = [run_case(adapter, c) for c in chosen]
    forms = Counter(
        o.form if o.word == "passed" else o.word for o in found
    )
    print(dict(sorted(forms.items())))
    wrong = [f"{o.case}: {o.detail}" for o in found if o.word in ("wrong", "failed")]
    assert not wrong, "\n".join(wrong)
    return forms


@pytest.mark.parametrize("frozen", [False, True], ids=["as is", "frozen"])
def test_sample(adapter, frozen):
    chosen = random.Random(2).sample(cases(), 100)
    forms = outcomes(adapter, [freeze(c) for c in chosen] if frozen else chosen)
    assert forms["native"] > 50


@pytest.mark.full
@pytest.mark.parametrize("frozen", [False, True], ids=["as is", "frozen"])
def test_all(adapter, frozen):
    forms = outcomes(adapter, [freeze(c) for c in cases()] if frozen else cases())
    assert forms["native"] > 1200
