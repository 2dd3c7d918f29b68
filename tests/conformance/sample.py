"""A seeded sample of cases that has one for each operator."""

from __future__ import annotations

import random
from collections.abc import Iterable

from deep_bench.testing import Case


def one_for_each_operator(cases: Iterable[Case], seed: int, part: int = 0, parts: int = 1) -> frozenset[str]:
    """The names of the sample; a case counts for the last operator in it. Of several parts, each has other operators."""
    by_operator: dict[str, set[str]] = {}
    for case in cases:
        by_operator.setdefault(case.operators[-1], set()).add(case.name)
    choose = random.Random(seed).choice
    return frozenset([choose(sorted(names)) for _, names in sorted(by_operator.items())][part::parts])
