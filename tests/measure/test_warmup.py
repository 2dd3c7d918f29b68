from __future__ import annotations

import numpy as np
import pytest

from deep_bench.measure.timing import LONG_WINDOW, WINDOW, judge, trend, warm_up


def nothing() -> None:
    pass


class Clock:
    """A timer that makes the calls but says what it was told to."""

    def __init__(self, times) -> None:
        self.times = iter(times)
        self.last = 0

    def __call__(self, call) -> int:
        call()
        self.last = next(self.times, self.last)
        return self.last


def test_too_few_blocks_say_nothing() -> None:
    assert judge([1.0] * (WINDOW - 1))[0] is None


def test_equal_blocks_are_steady() -> None:
    assert judge([5.0] * WINDOW)[0] is True


def test_a_trend_is_not_steady() -> None:
    assert judge(np.geomspace(100, 50, LONG_WINDOW))[0] is False


def test_a_step_within_the_window_is_not_steady() -> None:
    assert judge([1482, 1483, 1492, 1483, 1492, 1021, 1011, 1002])[0] is None


def test_steadiness_is_judged_by_the_last_blocks_only() -> None:
    assert judge([50.0, 20.0, 10.0] + [5.0] * WINDOW)[0] is True


def test_noise_without_a_trend_is_steady() -> None:
    noisy = 100 + 30 * np.random.default_rng(0).permutation(np.linspace(-1, 1, LONG_WINDOW))
    verdict, reason = judge(noisy)
    assert verdict is True
    assert "noisy" in reason


def test_the_trend_of_a_line_is_its_slope() -> None:
    slope, p = trend(np.arange(20) * 3.0)
    assert slope == 3
    assert p < 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_noise_has_no_trend(seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(400, 24))
    alarms = np.mean([trend(row)[1] < 0.05 for row in values])
    assert alarms < 0.09


def test_the_first_call_and_the_cost_are_reported() -> None:
    result = warm_up(nothing, nothing, timer=Clock([900_000, *[200_000] * 10]), block_ns=0)
    assert result.steady is True
    assert result.first_call_ns == 900_000
    assert result.calls == 1 + WINDOW
    assert len(result.medians_ns) == WINDOW
    assert result.cost_ns > 0
    assert result.batch == 1


def test_what_keeps_changing_never_becomes_steady() -> None:
    growing = (int(1000 * 1.01**i) for i in range(10**6))
    result = warm_up(nothing, nothing, timer=Clock(growing), block_ns=0, block_calls=3, max_ns=30_000_000)
    assert result.steady is False
    assert "still changing" in result.reason


def test_short_calls_get_a_batch() -> None:
    assert warm_up(nothing, nothing, block_ns=0).batch > 1


def test_a_limit_of_nothing_leaves_the_first_call() -> None:
    result = warm_up(nothing, nothing, max_ns=0)
    assert result.steady is None
    assert result.calls == 1
