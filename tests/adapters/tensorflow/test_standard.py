"""The standard's own cases, as they are and with all inputs but the first frozen: none may come out wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from deep_bench.testing import Case, freeze, run_case, standard_cases

SAMPLE = 100
FALLBACKS = {"node": 125}
"""Cases of a kind that the reference computes some node of: types without kernels, pictures, white space, other domains."""

REFUSED = {"node": 4, "simple": 2}
"""Cases of float8e8m0, which TensorFlow has no tensors of, and of a gradient inside a network."""


def judge(adapter, chosen: Iterable[Case]) -> Counter[str]:
    """How the cases are run, none of which may come out wrong or fail."""
    counts, bad = Counter[str](), []
    for case in chosen:
        outcome = run_case(adapter, case)
        counts[outcome.form if outcome.word == "passed" else outcome.word] += 1
        if outcome.word not in ("passed", "skipped", "refused"):
            bad.append(f"{case.name}: {outcome.word}: {outcome.detail}")
    print(dict(counts))
    assert not bad, "\n".join(bad)
    return counts


@pytest.mark.parametrize("form", ["as is", "frozen"])
def test_a_sample(adapter, form):
    chosen = random.Random(2).sample(standard_cases("node"), SAMPLE)
    counts = judge(adapter, map(freeze, chosen) if form == "frozen" else chosen)
    assert counts["native"] > SAMPLE / 2


@pytest.mark.full
@pytest.mark.parametrize("kind", ["node", "simple", "pytorch-converted", "pytorch-operator"])
@pytest.mark.parametrize("form", ["as is", "frozen"])
def test_all(adapter, kind, form):
    chosen = standard_cases(kind)
    counts = judge(adapter, map(freeze, chosen) if form == "frozen" else chosen)
    assert counts["fallback"] <= FALLBACKS.get(kind, 0)
    assert counts["refused"] <= REFUSED.get(kind, 0)
