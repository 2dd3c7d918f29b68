"""Scenarios and modes of MLPerf Inference: how queries come, what is measured, and what the rules ask for."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

ScenarioName = Literal["SingleStream", "MultiStream", "Server", "Offline"]
Mode = Literal["performance", "accuracy", "submission", "find-peak"]

MODES: tuple[Mode, ...] = ("performance", "accuracy", "submission", "find-peak")
FULL_DURATION_S = 600.0
"""What a run must last at least."""

SHORT_DURATION_S = 2.0
OFFLINE_SAMPLES = 24_576
"""The samples of the one query of Offline, at least."""

IN_MEMORY = 1024
"""Samples that are in memory at once, of a data set that has so many: what most benchmarks of the rules ask for at least."""

TARGET_SHARE = 0.99
"""Of the reference's accuracy that the rules ask for."""

TOO_SHORT = "not a valid submission duration"
"""How the remark on a run of less than `FULL_DURATION_S` begins."""

UNVERIFIED = "Result not verified by MLCommons Association."
"""What the rules ask to be said of a result that MLCommons has not reviewed."""


@dataclass(frozen=True)
class Scenario:
    """How queries come, and what counts.

    Args:
        name: LoadGen's name.
        comes: When the next query comes, in words.
        metric: What counts, in words, with places for the percentile and the samples of a query.
        unit: Of the metric.
        direction: Which is better.
        result: The key in LoadGen's detailed log.
        percentile: Of the latencies of queries that the rules look at, in ``mlperf.conf``; 0 where they look at none.
        samples: Of a query, there; 0 where that is all of them.
    """

    name: ScenarioName
    comes: str
    metric: str
    unit: str
    direction: Literal["lower", "higher"]
    result: str
    percentile: float
    samples: int


SCENARIOS = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            Scenario(
                "SingleStream", "when the last is answered", "{percentile} percentile latency (early-stopping estimate)",
                "s", "lower", "early_stopping_latency_ss", 0.9, 1,
            ),
            Scenario(
                "MultiStream", "when the last is answered",
                "{percentile} percentile latency of a query of {samples} samples (early-stopping estimate)",
                "s", "lower", "early_stopping_latency_ms", 0.99, 8,
            ),
            Scenario(
                "Server", "at random, as a Poisson process", "completed samples a second",
                "samples/s", "higher", "result_completed_samples_per_sec", 0.99, 1,
            ),
            Scenario(
                "Offline", "all at once", "samples a second", "samples/s", "higher", "result_samples_per_second", 0.0, 0
            ),
        )
    }
)  # fmt: skip
"""By name."""


def too_short(seconds: float) -> list[str]:
    """A remark on a run that lasts less than the rules ask for.

    Example:
        >>> too_short(2.0), too_short(600.0)
        (['not a valid submission duration: at least 2 s instead of 600 s'], [])
    """
    if seconds >= FULL_DURATION_S:
        return []
    return [f"{TOO_SHORT}: at least {seconds:g} s instead of {FULL_DURATION_S:g} s"]


def too_few_samples(count: int) -> list[str]:
    """A remark on an Offline query of fewer samples than the rules ask for.

    Example:
        >>> too_few_samples(355)
        ['not a valid submission: at least 355 samples instead of 24576']
    """
    return (
        [f"not a valid submission: at least {count} samples instead of {OFFLINE_SAMPLES}"] if count < OFFLINE_SAMPLES else []
    )
