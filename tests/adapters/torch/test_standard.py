"""The ONNX standard's own cases: none may come out wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from deep_bench.testing import Case, freeze, run_case, standard_cases

torch = pytest.importorskip("torch")

from deep_bench.adapters.torch import TorchAdapter  # noqa: E402 (after the skip)

RANDOM = ("test_bernoulli", "test_training_dropout", "test_random", "test_multinomial")
UNROUNDED = {
    # They take the stretch from the length before rounding; the standard's formula takes the output's.
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
}
# Where the right result is zero these cases ask for what rounding in float32 left of it.
COARSE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}
SAMPLE = 150


def cases(kind: str = "node") -> list[Case]:
    chosen = [c for c in standard_cases(kind) if not c.name.startswith(RANDOM) and c.name not in UNROUNDED]
    return [replace(c, atol=COARSE.get(c.name, c.atol)) for c in chosen]


def judge(chosen: Iterable[Case]) -> None:
    adapter, counts, bad = TorchAdapter(), Counter[str](), []
    for case in chosen:
        with np.errstate(all="ignore"):  # some cases compare what overflows or is no number
            outcome = run_case(adapter, case)
        form = outcome.form
        counts[form if outcome.word == "passed" else outcome.word] += 1
        if outcome.word in ("wrong", "failed"):
            bad.append(f"{case.name}: {outcome.word}: {outcome.detail}")
    print(dict(counts))
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("form", ["as is", "frozen"])
def test_a_sample(form: str) -> None:
    chosen = random.Random(7).sample(cases(), SAMPLE)
    judge(map(freeze, chosen) if form == "frozen" else chosen)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["node", "simple", "pytorch-converted", "pytorch-operator"])
@pytest.mark.parametrize("form", ["as is", "frozen"])
def test_all(kind: str, form: str) -> None:
    judge(map(freeze, cases(kind)) if form == "frozen" else cases(kind))
