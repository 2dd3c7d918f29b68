from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from deep_bench.measure.compare import Estimate, TotalPart, estimate, ratio, ratio_of_totals, resampled_medians, times
from deep_bench.measure.timing import Block
from deep_bench.results.result import time_figure

Make = Callable[..., list[Block]]


@pytest.mark.parametrize(("count", "between"), [(6, 0.0), (6, 0.05), (20, 0.02)])
def test_the_interval_of_a_ratio_covers(count: int, between: float, blocks: Make) -> None:
    random = np.random.default_rng(count)
    hits = 0
    for seed in range(60):
        ours = blocks(random, count, 50, 1.2e6, between=between)
        found = ratio([ours], [blocks(random, count, 50, between=between)], seed=seed)
        assert found.interval is not None
        hits += found.interval[0] <= 1.2 <= found.interval[1]
    assert hits >= 54


def test_a_ratio_names_its_absolute_times(blocks: Make) -> None:
    random = np.random.default_rng(0)
    ours, theirs = blocks(random, level=2e6), blocks(random)
    found = ratio([ours], [theirs])
    assert found.after == pytest.approx(2e6, rel=0.05)
    assert found.value == found.after / found.before
    assert found.basis == "blocks"
    assert found == ratio([ours], [theirs])


def test_few_blocks_have_no_interval(blocks: Make) -> None:
    random = np.random.default_rng(0)
    found = ratio([blocks(random, 5)], [blocks(random, 10)])
    assert found.interval is None
    assert found.word == "cannot tell"


def test_several_launches_are_what_is_resampled(blocks: Make) -> None:
    random = np.random.default_rng(1)
    ours = [blocks(random, 3, level=1e6 * level) for level in (1.0, 1.3, 0.8, 1.1)]
    found = ratio(ours, [blocks(random, 3) for _ in range(4)])
    assert found.basis == "launches"
    assert found.interval is not None
    assert found.interval[1] - found.interval[0] > 0.2


def test_resampled_medians_are_those_of_a_plain_bootstrap(blocks: Make) -> None:
    groups = [b.calls_ns for b in blocks(np.random.default_rng(2), 8, 40, between=0.05)]
    quick = resampled_medians(groups, np.random.default_rng(3), 400)
    random = np.random.default_rng(4)
    plain = [np.median(np.concatenate([groups[i] for i in random.integers(8, size=8)])) for _ in range(400)]
    assert np.quantile(quick, (0.05, 0.5, 0.95)) == pytest.approx(np.quantile(plain, (0.05, 0.5, 0.95)), rel=0.01)


@pytest.mark.parametrize(
    ("interval", "p", "p_equivalent", "word"),
    [
        ((0.7, 0.9), 0.001, 0.9, "faster"),
        ((1.1, 1.3), 0.001, 0.9, "slower"),
        ((0.97, 1.03), 0.9, 0.01, "equivalent"),
        ((1.001, 1.015), 0.01, 0.001, "equivalent"),
        ((0.9, 1.1), 0.9, 0.4, "cannot tell"),
        (None, None, None, "cannot tell"),
    ],
)
def test_the_word_follows_from_the_tests(
    interval: tuple[float, float] | None, p: float | None, p_equivalent: float | None, word: str
) -> None:
    assert Estimate("ratio", 1.0, 1.0, 1.0, interval, p, p_equivalent, "blocks", (9, 9)).word == word


@pytest.mark.parametrize("level", [0.97, 0.985, 1.0, 1.015, 1.03])
@pytest.mark.parametrize("between", [0.0, 0.01])
def test_p_values_and_intervals_say_the_same(level: float, between: float, blocks: Make) -> None:
    random = np.random.default_rng(8)
    for seed in range(10):
        ours, theirs = blocks(random, 8, level=level * 1e6, between=between), blocks(random, 8, between=between)
        found = ratio([ours], [theirs], seed=seed)
        low, high = found.interval
        assert (found.p <= 0.05) == (not low <= 1 <= high)
        if found.p_equivalent <= 0.05:
            assert 1 / 1.021 < found.value < 1.021


def test_equivalence_is_claimed_for_equals_and_rarely_at_the_margin(blocks: Make) -> None:
    random = np.random.default_rng(5)

    def words(level: float) -> Counter[str]:
        return Counter(ratio([blocks(random, level=level)], [blocks(random)], margin=0.05, seed=i).word for i in range(25))

    assert words(1e6)["equivalent"] > 20
    assert words(1.05e6)["equivalent"] <= 4
    assert words(1.5e6) == {"slower": 25}
    assert words(0.5e6) == {"faster": 25}


def busy(wall_ns: float, cpu_ns: float | None, seed: int) -> list[Block]:
    """Blocks of calls that were all preempted: what the clock on the wall has, and the thread's CPU time if it is known."""
    random = np.random.default_rng(seed)

    def drawn(level: float) -> np.ndarray:
        return random.normal(level, level / 100, 20).astype(np.int64)

    return [
        Block(i, 1, drawn(wall_ns), np.ones(20, bool), cpu_ns=None if cpu_ns is None else drawn(cpu_ns)) for i in range(10)
    ]


def test_times_by_two_clocks_are_compared_by_the_one_that_both_have() -> None:
    one_thread, two_threads = busy(64.6e6, 34.4e6, 0), busy(83.6e6, None, 1)
    assert times([one_thread]).median == pytest.approx(34.4e6, rel=0.01)
    found = ratio([two_threads], [one_thread])
    assert found.by_wall
    assert found.value == pytest.approx(83.6 / 64.6, rel=0.01)
    assert found.before == pytest.approx(64.6e6, rel=0.01)
    parts, base = ([TotalPart(2, times([blocks]))] for blocks in (two_threads, one_thread))
    whole = ratio_of_totals(parts, base)
    assert (whole.by_wall, whole.value) == (True, found.value)
    before, after = (time_figure("forward", [blocks]) for blocks in (one_thread, two_threads))
    assert estimate(before, after).value == pytest.approx(found.value)


def test_times_by_one_clock_are_compared_as_they_are() -> None:
    found = ratio([busy(80e6, 20e6, 0)], [busy(60e6, 40e6, 1)])
    assert not found.by_wall
    assert found.value == pytest.approx(0.5, rel=0.01)
    assert not ratio([busy(80e6, None, 0)], [busy(60e6, None, 1)]).by_wall
