"""Whether LoadGen's figures of latencies are those that follow from its own trace: each by the same definition, exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import floor

import numpy as np
from numpy.typing import NDArray

from deep_bench.mlperf.inference.percentiles import SHARES, early_stopping
from deep_bench.mlperf.inference.record import InferenceRecord

_OF_SUMMARY = re.compile(r"^[\d.]+th percentile latency \(ns\) : (-?\d+)$", re.MULTILINE)


def disagreements(record: InferenceRecord) -> list[str]:
    """What LoadGen reports and its trace does not bear out; nothing without a trace.

    Compared are the extremes, each percentile, the percentile of the scenario (which LoadGen computes even where there is
    no such percentile), and the early-stopping estimate.
    """
    latencies = record.query_latencies() if record.scenario == "MultiStream" else record.latencies.latency_ns
    if not len(latencies):
        return []
    findings = []
    for figure, loadgen, ours in _figures(record, np.sort(latencies)):
        if loadgen is not None and loadgen != ours:
            shown = "none" if ours is None else f"{ours:.0f}"
            findings.append(f"{figure}: LoadGen reports {loadgen}, its trace gives {shown}")
    return findings


def _figures(record: InferenceRecord, ordered: NDArray[np.int64]) -> Iterator[tuple[str, object, float | None]]:
    """Name, LoadGen's and ours of each figure."""
    values, n = record.loadgen.values, len(ordered)
    query, per_query = ("query_", "per_query_") if record.scenario == "MultiStream" else ("", "")
    yield "the least latency in ns", values.get(f"result_min_{query}latency_ns"), int(ordered[0])
    yield "the largest latency in ns", values.get(f"result_max_{query}latency_ns"), int(ordered[-1])
    for share in SHARES:
        key = f"result_{100 * share:.2f}_percentile_{per_query}latency_ns"
        yield f"p{100 * share:g} in ns", values.get(key), int(ordered[floor(n * share)])
    if record.bound is not None:
        late = int(np.sum(ordered > round(record.bound * 1e9)))
        yield "queries above the bound", values.get("result_overlatency_query_count"), late
    share = record.percentile
    if not share or record.bound is not None:
        return
    if match := _OF_SUMMARY.search(record.loadgen.summary):
        place = floor(n * share)
        yield f"p{100 * share:.8g} of the summary, in ns", int(match[1]), int(ordered[place]) if 0 <= place < n else None
    if values.get("early_stopping_met"):
        yield "the early-stopping estimate in ns", values.get(record.rules.result), early_stopping(ordered, share)
