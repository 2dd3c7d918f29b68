"""The ONNX standard's own cases: none may come out wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from deep_bench.testing import Case, freeze, run_case, standard_cases

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)

SAMPLE = 150
FALLBACKS = {"node": 53, "simple": 6}
"""Cases of a kind that the reference computes some node of: images, strings, float4."""


def judge(chosen: Iterable[Case]) -> Counter[str]:
    """How the cases are run, none of which may come out wrong, fail or be refused."""
    adapter, counts, bad = TorchAdapter(), Counter[str](), []
    for case in chosen:
        with np.errstate(all="ignore"):  # some cases compare what overflows or is no number
            outcome = run_case(adapter, case)
        form = outcome.form
        counts[form if outcome.word == "passed" else outcome.word] += 1
        if outcome.word not in ("passed", "skipped"):
            bad.append(f"{case.name}: {outcome.word}: {outcome.detail}")
    print(dict(counts))
    assert not bad, "\n".join(bad)
    return counts


@pytest.mark.parametrize("form", ["as is", "frozen"])
def test_a_sample(form: str) -> None:
    chosen = random.Random(7).sample(standard_cases("node"), SAMPLE)
    judge(map(freeze, chosen) if form == "frozen" else chosen)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["node", "simple", "pytorch-converted", "pytorch-operator"])
@pytest.mark.parametrize("form", ["as is", "frozen"])
def test_all(kind: str, form: str) -> None:
    chosen = standard_cases(kind)
    counts = judge(map(freeze, chosen) if form == "frozen" else chosen)
    assert counts["fallback"] <= FALLBACKS.get(kind, 0)
