"""How long a run will last, by the first answers."""

from __future__ import annotations

from types import MappingProxyType

from deep_bench.measure.units import duration
from deep_bench.mlperf.inference.scenario import ScenarioName

_FEWEST = MappingProxyType({"SingleStream": 100, "MultiStream": 662})
"""Queries that LoadGen issues at least, where the next comes when the last is answered."""

_MUCH = 1.5


def lasts(scenario: ScenarioName, seconds: float, query_s: float | None) -> str:
    """An estimate in words; empty where the run will last about as long as was asked for, or that cannot be told.

    Args:
        scenario: How queries come.
        seconds: What the run lasts at least.
        query_s: What a query takes; ``None`` where no pilot was asked.

    Example:
        >>> lasts("MultiStream", 2.0, 1.5)
        'about 993 s: at least 662 queries, and one takes 1.500 s'
        >>> lasts("SingleStream", 2.0, 0.001), lasts("Offline", 2.0, 9.0)
        ('', '')
    """
    fewest = _FEWEST.get(scenario)
    if fewest is None or query_s is None or fewest * query_s < _MUCH * seconds:
        return ""
    return f"about {fewest * query_s:.0f} s: at least {fewest} queries, and one takes {duration(query_s)}"
