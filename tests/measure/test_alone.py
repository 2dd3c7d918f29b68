from __future__ import annotations

import time

import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.measure.session import time_call


def test_a_call_is_timed_until_the_interval_is_narrow() -> None:
    found = time_call(lambda: sum(range(2000)), ci_width=0.5)
    assert found.reached
    assert found.summary.n >= 30
    assert found.summary.interval is not None
    assert found.summary.n == sum(len(b.ns) for b in found.blocks)


def test_the_budget_ends_it() -> None:
    found = time_call(lambda: time.sleep(0.001), ci_width=1e-9, budget_s=0.05)
    assert not found.reached
    assert 1 <= found.summary.n < 60


def test_few_samples_do_not_do() -> None:
    assert time_call(lambda: time.sleep(0.001), ci_width=10.0, least_samples=50, budget_s=5.0).summary.n >= 50


def test_short_calls_are_batched() -> None:
    found = time_call(lambda: None, ci_width=0.9, budget_s=0.2)
    assert found.summary.batch > 1


@pytest.mark.parametrize("options", [{"ci_width": 0}, {"least_samples": 0}, {"budget_s": 0.0}, {"budget_s": float("inf")}])
def test_numbers_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match="above 0"):
        time_call(lambda: None, **options)
