"""A pilot before the test: LoadGen makes its queries up beforehand, from how fast the system is expected to be."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from threading import Event
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from deep_bench.mlperf.inference.ledger import Ledger
from deep_bench.mlperf.inference.scenario import Scenario
from deep_bench.mlperf.inference.system import System

_BUDGET_S = 1.0
_FEWEST = 5
_LATENCY_SHARE, _RATE_SHARE, _SERVER_SHARE = 0.7, 1.3, 0.5
"""What LoadGen is told to expect, as a share of what the pilot saw.

A query is taken to last 0.7 times the shortest: LoadGen then prepares more than it can put, which costs nothing. Samples of
Offline are taken to be answered 1.3 times as fast as seen, at the geometric mean of the fastest query's rate and of all:
too high a rate lengthens the run, with too low a one it ends too early. Server is asked for half the rate at which single
samples are answered in turn.
"""


class Pilot:
    """Puts queries to a system and waits for their answers.

    Args:
        loaded: Indices of loaded samples.

    Attributes:
        ledger: What the system's answers go to meanwhile.
        query_s: Seconds of a query on average, once it was asked.
    """

    def __init__(self, loaded: Sequence[int]) -> None:
        self.ledger = Ledger(self._answered)
        self._loaded = list(loaded)
        self._next, self._left = 0, 0
        self._done = Event()
        self.query_s: float | None = None

    def expected(self, system: System, rules: Scenario, most_at_once: int) -> float:
        """What LoadGen is told to expect.

        Args:
            system: Ready for queries.
            rules: The scenario's.
            most_at_once: Samples that run together.

        Returns:
            Milliseconds of a query (SingleStream, MultiStream), or samples a second (Server, Offline).
        """
        size = rules.samples or 4 * most_at_once
        times = self._times(system, size)
        mean = self.query_s = sum(times) / len(times)
        if rules.name == "Offline":
            return _RATE_SHARE * size / sqrt(min(times) * mean)
        return _SERVER_SHARE / mean if rules.name == "Server" else _LATENCY_SHARE * min(times) * 1e3

    def _times(self, system: System, size: int) -> list[float]:
        """Seconds of several queries."""
        begin = perf_counter()
        times: list[float] = []
        while len(times) < _FEWEST or perf_counter() - begin < _BUDGET_S:
            ids = list(range(self._next, self._next + size))
            self._next += size
            self._left = size
            self._done.clear()
            start = perf_counter()
            indices = [self._loaded[number % len(self._loaded)] for number in ids]
            self.ledger.issued(ids, indices)
            system.issue(ids, indices)
            system.flush()
            self._done.wait()
            times.append(perf_counter() - start)
        return times

    def _answered(self, ids: Sequence[int], rows: NDArray[np.generic]) -> None:
        del rows
        self._left -= len(ids)
        if self._left <= 0:
            self._done.set()
