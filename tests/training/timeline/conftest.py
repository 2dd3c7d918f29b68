"""A clock that only moves when it is told to, so that times can be compared exactly."""

from __future__ import annotations

import pytest

from deep_bench.training.timeline import live, stamps


class Clock:
    """Stands for ``perf_counter_ns``."""

    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        return self.now

    def ms(self, milliseconds: float) -> None:
        """Let time pass."""
        self.now += round(milliseconds * 1e6)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all timelines of a test."""
    made = Clock()
    for module in (live, stamps):
        monkeypatch.setattr(module, "perf_counter_ns", made)
    return made
