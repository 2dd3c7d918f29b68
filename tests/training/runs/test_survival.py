"""Times to a target that some runs miss: against published tables and other code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deep_bench.errors import InvalidArgument
from deep_bench.training.figures import mlperf_score, success, survival

# Weeks of remission under 6-MP: Freireich et al., Blood 21 (1963), as in Cox (1972).
REACHED = [6, 6, 6, 7, 10, 13, 16, 22, 23]
CENSORED = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
# The estimate, as printed in Kleinbaum and Klein, Survival analysis, chapter 2.
PUBLISHED = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}


def test_a_published_estimate() -> None:
    found = survival([*REACHED, *CENSORED], [True] * len(REACHED) + [False] * len(CENSORED))
    assert found.times.tolist() == list(PUBLISHED)
    np.testing.assert_allclose(found.going, list(PUBLISHED.values()), atol=5e-4)
    assert (found.median, found.n, found.reached) == (23, 21, 9)
    assert found.interval is not None
    assert found.interval[1] is None  # too few events for an upper end


def greenwood(times: np.ndarray, reached: np.ndarray) -> tuple[list[float], list[float], list[float], list[float]]:
    """The estimate and its band, run by run from the formulas."""
    at, going, low, high = [], [], [], []
    share, variance = 1.0, 0.0
    for t in np.unique(times[reached]):
        risk, events = int((times >= t).sum()), int(((times == t) & reached).sum())
        share *= 1 - events / risk
        at.append(float(t))
        going.append(share)
        if risk == events:
            low.append(np.nan)
            high.append(np.nan)
            continue
        variance += events / (risk * (risk - events))
        width = stats.norm.ppf(0.975) * variance**0.5 / np.log(share)
        low.append(share ** np.exp(-width))
        high.append(share ** np.exp(width))
    return at, going, low, high


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=6, max_size=30))
def test_the_formulas(data: list[tuple[int, bool]]) -> None:
    times, reached = np.array([t for t, _ in data], float), np.array([r for _, r in data])
    found = survival(times.tolist(), reached.tolist())
    at, going, low, high = greenwood(times, reached)
    assert found.times.tolist() == at
    np.testing.assert_allclose(found.going, going, atol=1e-12)
    if reached.any():
        np.testing.assert_allclose(found.low, low, atol=1e-9)
        np.testing.assert_allclose(found.high, high, atol=1e-9)
    below = [t for t, share in zip(at, going, strict=True) if share <= 0.5 + 1e-12]
    assert found.median == (below[0] if below else None)
    if found.interval is not None:
        assert found.median is None or found.interval[0] <= found.median
        assert found.interval[1] is None or found.median is None or found.median <= found.interval[1]


def test_without_censoring_the_interval_is_that_of_order_statistics() -> None:
    found = survival(list(range(1, 11)), [True] * 10)
    assert (found.median, found.interval) == (5, (2, 9))


def test_three_runs_have_no_interval() -> None:
    found = survival([1.0, 2.0, 3.0], [True, True, False])
    assert (found.median, found.interval, len(found.low)) == (2.0, None, 0)
    assert success(2, 3).interval is None
    assert success(2, 3).exact is None
    assert survival([1.0] * 6, [True] * 6).interval == (1.0, 1.0)


def test_a_median_that_is_not_reached() -> None:
    found = survival([1.0] * 2 + [5.0] * 6, [True] * 2 + [False] * 6)
    assert found.median is None
    none = survival([5.0] * 8, [False] * 8)
    assert (none.median, none.interval, none.reached, len(none.times)) == (None, None, 0, 0)


def test_the_interval_of_the_median_covers_it() -> None:
    random = np.random.default_rng(0)
    truth, covered = np.log(2), 0
    for _ in range(400):
        times, limits = random.exponential(size=15), random.uniform(0.3, 3, size=15)
        found = survival(np.minimum(times, limits).tolist(), (times <= limits).tolist())
        if found.interval is None:
            covered += 1  # no claim
            continue
        low, high = found.interval
        covered += low <= truth and (high is None or truth <= high)
    assert covered / 400 > 0.92


def test_success() -> None:
    found = success(81, 263)  # Newcombe, Statist. Med. 17 (1998), table I
    assert found.interval == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert found.exact == pytest.approx((0.2527, 0.3676), abs=5e-5)
    for reached in range(11):
        found = success(reached, 10)
        assert found.interval is not None
        assert found.exact is not None
        assert 0 <= found.interval[0] <= found.share <= found.interval[1] <= 1
        assert found.exact[0] <= found.share <= found.exact[1]
    for bad in ((1, 0), (3, 2), (-1, 2)):
        with pytest.raises(InvalidArgument):
            success(*bad)


def test_mlperf() -> None:
    assert mlperf_score([5.0, 1.0, 3.0]).seconds == 3
    assert mlperf_score([5.0, None, 1.0, 3.0, 4.0]).seconds == 4
    assert mlperf_score([None, 1.0, None, 2.0, 3.0]).seconds is None
    assert mlperf_score([1.0, 2.0]).seconds is None
    ten = [float(x) for x in (9, 2, 7, 4, 5, 6, 3, 8, 1, 100)]
    assert mlperf_score(ten).seconds == pytest.approx(np.mean(sorted(ten)[1:-1]))


def test_times_that_are_none() -> None:
    for times, reached in (([], []), ([1.0], [True, False]), ([-1.0], [True]), ([float("nan")], [True])):
        with pytest.raises(InvalidArgument):
            survival(times, reached)
