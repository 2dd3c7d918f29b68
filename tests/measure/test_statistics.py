from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from deep_bench.measure.statistics import (
    autocorrelation,
    correlated,
    dispersion_p,
    drift,
    launch_interval,
    median_interval,
    modes,
    percentile,
    quantile_ranks,
    samples_needed,
    summarize,
)
from deep_bench.measure.timing import Block

Make = Callable[..., list[Block]]


def covered(make: Callable[[], list[np.ndarray]], median: float, repeats: int = 200) -> float:
    """The share of 95 % intervals that hold the true median."""
    intervals = [median_interval(make()) for _ in range(repeats)]
    return float(np.mean([i.low <= median <= i.high for i in intervals if i is not None]))


def test_ranks_are_those_of_le_boudecs_table() -> None:
    assert quantile_ranks(5) is None
    assert quantile_ranks(6) == (0, 5)
    assert quantile_ranks(100) == (39, 60)


@pytest.mark.parametrize("n", [6, 13, 50, 501])
def test_ranks_cover_with_at_least_the_confidence(n: int) -> None:
    ranks = quantile_ranks(n)
    assert ranks is not None
    assert stats.binom.cdf(ranks[1], n, 0.5) - stats.binom.cdf(ranks[0], n, 0.5) >= 0.95 - 1e-12


def test_intervals_of_independent_samples_cover() -> None:
    random = np.random.default_rng(0)
    assert covered(lambda: [random.lognormal(0, 0.2, 100) for _ in range(10)], 1.0) > 0.91


def test_intervals_of_a_single_block_cover() -> None:
    random = np.random.default_rng(1)
    assert covered(lambda: [random.exponential(size=30)], float(np.log(2))) > 0.91


@pytest.mark.parametrize("between", [0.01, 0.05])
def test_intervals_cover_where_blocks_differ(between: float, blocks: Make) -> None:
    random = np.random.default_rng(2)
    assert covered(lambda: [b.calls_ns for b in blocks(random, between=between)], 1e6) > 0.9


def test_intervals_cover_where_neighbours_are_alike() -> None:
    random = np.random.default_rng(3)

    def walk() -> list[np.ndarray]:
        noise = random.normal(size=(10, 100))
        for i in range(1, 100):
            noise[:, i] = 0.8 * noise[:, i - 1] + 0.6 * noise[:, i]
        return list(np.exp(0.1 * noise))

    assert covered(walk, 1.0) > 0.91
    assert correlated(walk())


def test_the_basis_is_the_samples_unless_they_are_correlated(blocks: Make) -> None:
    random = np.random.default_rng(4)
    different = [b.calls_ns for b in blocks(random, between=0.2)]
    assert median_interval(different).basis == "blocks"
    assert np.mean([median_interval([b.calls_ns for b in blocks(random)]).basis == "samples" for _ in range(100)]) > 0.7
    assert median_interval(different[:5]) is None


def test_identical_samples_have_an_interval_of_no_width() -> None:
    interval = median_interval([np.full(50, 7.0), np.full(50, 7.0)])
    assert (interval.low, interval.high) == (7.0, 7.0)


def test_the_dispersion_test_rarely_alarms_on_equal_blocks(blocks: Make) -> None:
    random = np.random.default_rng(5)
    assert np.mean([dispersion_p([b.calls_ns for b in blocks(random)]) < 0.05 for _ in range(200)]) < 0.1


def test_autocorrelation_is_known_for_simple_rows() -> None:
    assert autocorrelation([np.arange(1000.0)]) > 0.99
    assert autocorrelation([np.tile([1.0, 2.0], 500)]) < -0.99
    assert abs(autocorrelation([np.random.default_rng(0).normal(size=5000)])) < 0.05
    assert autocorrelation([np.arange(10.0)]) is None


@pytest.mark.parametrize(("p", "needed"), [(0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995)])
def test_percentiles_need_enough_samples(p: float, needed: int) -> None:
    assert samples_needed(p) == needed
    assert percentile(np.arange(needed - 1.0), p) is None
    assert percentile(np.arange(float(needed)), p) is not None


def test_the_bound_of_a_percentile_holds() -> None:
    random = np.random.default_rng(6)
    true = -np.log(0.01)
    assert np.mean([percentile(random.exponential(size=400), 0.99).bound >= true for _ in range(300)]) > 0.93


def test_percentiles_of_known_samples() -> None:
    found = percentile(np.arange(1.0, 1001.0), 0.9)
    assert found.value == 900
    assert 900 < found.bound < 930


def test_the_summary_of_known_samples() -> None:
    block = Block(0, 1, np.array([1, 2, 3, 4, 100]), np.zeros(5, bool), resume_ns=9)
    summary = summarize([block])
    assert (summary.n, summary.n_blocks, summary.batch) == (5, 1, 1)
    assert (summary.median, summary.lower_quartile, summary.upper_quartile) == (3, 2, 4)
    assert (summary.minimum, summary.maximum, summary.mean) == (1, 100, 22)
    assert summary.std == pytest.approx(np.std([1, 2, 3, 4, 100], ddof=1))
    assert summary.interval is None
    assert summary.relative_half_width is None
    assert summary.median_first == 9
    assert set(summary.percentiles.values()) == {None}
    assert summary.modes == ()
    assert summary.autocorrelation is None


def test_batched_samples_have_no_percentiles() -> None:
    block = Block(0, 10, np.random.default_rng(0).integers(9_000, 11_000, 5000), np.zeros(5000, bool))
    summary = summarize([block])
    assert summary.median == pytest.approx(1000, rel=0.05)
    assert set(summary.percentiles.values()) == {None}


def test_rare_preemption_changes_nothing_and_heavy_preemption_is_set_aside_but_stated() -> None:
    random = np.random.default_rng(7)
    quiet = random.normal(1000, 10, 1000).astype(np.int64)
    rare, heavy = np.zeros(1000, bool), np.zeros(1000, bool)
    rare[:5], heavy[:400] = True, True
    summary = summarize([Block(0, 1, np.where(rare, 5000, quiet), rare)])
    assert (summary.selection, summary.preempted) == ("all samples", 0.005)
    summary = summarize([Block(0, 1, np.where(heavy, 5000, quiet), heavy)])
    assert summary.selection == "samples not preempted"
    assert summary.median == pytest.approx(1000, rel=0.01)
    assert summary.median_not_preempted == summary.median
    assert 1000 < summary.median_of_all < 5000
    assert summary.n == 1000
    assert summary.maximum == 5000


def test_cpu_time_stands_in_where_most_samples_were_preempted() -> None:
    random = np.random.default_rng(7)
    cpu = random.normal(1000, 10, 100).astype(np.int64)
    preempted = np.arange(100) < 80
    long = Block(0, 1, np.where(preempted, 9000, cpu), preempted, None, cpu)
    summary = summarize([long])
    assert summary.selection == "preempted samples at their CPU time"
    assert summary.median == summary.median_cpu_time == pytest.approx(1000, rel=0.01)
    assert summary.median_of_all == 9000
    assert summarize([long, Block(0, 1, long.ns, preempted)]).selection == "all samples"  # the rest is no fair sample
    few = np.arange(100) < 20
    assert summarize([Block(0, 1, cpu, few, None, cpu)]).selection == "samples not preempted"


def test_all_samples_count_where_all_were_preempted() -> None:
    summary = summarize([Block(0, 1, np.arange(1, 101), np.ones(100, bool))])
    assert summary.selection == "all samples"
    assert summary.median_not_preempted is None


def test_drift_is_the_relative_change_and_noise_has_none() -> None:
    assert drift(np.linspace(100, 110, 20)) == pytest.approx(10 / 105)
    assert drift(np.random.default_rng(0).normal(100, 5, 20)) == 0.0
    assert drift([1.0]) == 0.0


def test_modes_are_found_and_not_invented() -> None:
    random = np.random.default_rng(8)
    both = np.concatenate([random.normal(1000, 10, 600), random.normal(1100, 10, 400)])
    assert modes(both) == pytest.approx((1000, 1100), rel=0.01)
    single = [len(modes(random.lognormal(7, s, n))) for s in (0.01, 0.3) for n in (100, 1000) for _ in range(20)]
    assert np.mean(np.array(single) == 1) > 0.95
    assert modes(np.full(200, 5.0)) == (5.0,)
    assert len(modes(np.round(random.normal(1000, 10, 2000) / 10) * 10)) == 1  # a coarse clock
    assert modes(both[:50]) == ()


def test_launches_have_an_interval_from_six_on() -> None:
    assert launch_interval([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    interval = launch_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0])
    assert (interval.low, interval.high, interval.basis) == (1.0, 6.0, "launches")


def test_no_interval_of_times_reaches_below_zero() -> None:
    """Blocks in two modes, far apart and each after its like, have an interval that is stretched much."""
    groups = [np.full(4, level) + np.arange(4) / 100 for level in (1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0)]
    interval = median_interval(groups)
    assert interval is not None
    assert interval.basis == "blocks"
    assert 0 <= interval.low < 1 < 5 < interval.high
