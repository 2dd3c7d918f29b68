from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.measure.compare import Figure, TotalPart, ratio_of_totals, times, total
from deep_bench.measure.timing import Block


def part(random: np.random.Generator, center: float, count: int = 1, blocks: int = 8, between: float = 0.0) -> TotalPart:
    """Blocks of normal samples around a center that differs a little from block to block."""
    made = []
    for number in range(blocks):
        level = center * (1 + between * random.standard_normal())
        ns = np.maximum(random.normal(level, 0.02 * center, 200), 1).astype(np.int64)
        made.append(Block(number, 1, ns, np.zeros(200, bool)))
    return TotalPart(count, times([made]))


def test_a_total_is_the_sum_of_the_medians_each_as_often_as_it_occurs() -> None:
    random = np.random.default_rng(0)
    parts = [part(random, 1e6), part(random, 1e4, count=30)]
    medians = [np.median(np.concatenate(p.figure.launches[0])) for p in parts]
    found = total(parts)
    assert found.value == pytest.approx(medians[0] + 30 * medians[1])
    assert found.interval[0] < found.value < found.interval[1]
    assert found.interval[1] - found.interval[0] < 0.02 * found.value


def test_intervals_of_totals_cover() -> None:
    random = np.random.default_rng(1)
    truth = 1e6 + 10 * 2e5
    found = [total([part(random, 1e6, between=0.01), part(random, 2e5, 10, between=0.01)], seed=i) for i in range(200)]
    held = np.mean([f.interval[0] <= truth <= f.interval[1] for f in found])
    assert 0.9 <= held <= 1.0
    assert np.median([(f.interval[1] - f.interval[0]) / truth for f in found]) < 0.04


def test_a_ratio_names_its_base() -> None:
    random = np.random.default_rng(2)
    found = ratio_of_totals([part(random, 2e6), part(random, 2e4, 100)], [part(random, 1e6), part(random, 1e4, 100)])
    assert found.value == pytest.approx(2.0, rel=0.01)
    assert found.interval[0] < found.value < found.interval[1]
    assert found.interval[1] - found.interval[0] < 0.05
    assert found.after == pytest.approx(4e6, rel=0.01)
    assert found.before == pytest.approx(2e6, rel=0.01)


def test_too_few_blocks_have_no_interval() -> None:
    random = np.random.default_rng(3)
    assert total([part(random, 1e6), part(random, 1e6, blocks=2)]).interval is None
    assert ratio_of_totals([part(random, 1e6, blocks=2)], [part(random, 1e6)]).interval is None


def test_nothing_has_no_total() -> None:
    with pytest.raises(InvalidArgument, match="nothing"):
        total([])


def launched(random: np.random.Generator, center: float, count: int, launches: int) -> TotalPart:
    levels = center * (1 + 0.05 * random.standard_normal(launches))
    return TotalPart(count, Figure("time", "ns", "lower", tuple(part(random, level).figure.launches[0] for level in levels)))


def test_of_several_launches_the_interval_is_over_their_totals() -> None:
    random = np.random.default_rng(4)
    parts = [launched(random, 1e6, 1, 7), launched(random, 1e4, 30, 7)]
    totals = [sum(p.count * np.median(np.concatenate(p.figure.launches[i])) for p in parts) for i in range(7)]
    found = total(parts)
    assert found.basis == "launches"
    assert found.value == pytest.approx(np.median(totals))
    assert found.interval == pytest.approx((min(totals), max(totals)))
    assert total([launched(random, 1e6, 1, 5)]).interval is None


def test_ratios_over_launches_cover() -> None:
    random = np.random.default_rng(5)
    found = [ratio_of_totals([launched(random, 2e6, 1, 8)], [launched(random, 1e6, 1, 8)], seed=i) for i in range(100)]
    assert {f.basis for f in found} == {"launches"}
    assert np.mean([f.interval[0] <= 2.0 <= f.interval[1] for f in found]) >= 0.9
    assert np.median([f.interval[1] - f.interval[0] for f in found]) < 0.5


def test_launches_that_not_all_have_do_not_count() -> None:
    random = np.random.default_rng(6)
    parts = [launched(random, 1e6, 1, 7), part(random, 1e6)]
    assert total(parts).basis == "blocks"
    assert ratio_of_totals(parts, parts).basis == "blocks"
