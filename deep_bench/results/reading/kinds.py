"""Kinds of records, and what reads them."""

from __future__ import annotations

from deep_bench.registry import Registry

MEASUREMENT = "measurement"
"""The kind of a record that names none: of a network, of operators or of communication."""

record_kinds = Registry(
    "kind of record",
    "deep_bench.record_kinds",
    builtin={
        MEASUREMENT: "deep_bench.results.reading.measurement:read",
        "mlperf": "deep_bench.mlperf.inference.reading:read",
        "scaling": "deep_bench.results.reading.scaling:read",
        "training": "deep_bench.results.reading.training:read",
    },
)
"""What ``kind`` is in a record's file, to the function that makes results of the file."""

NO_RESULTS = frozenset({"bundle", "machine", "timeline"})
"""Kinds of files that deep_bench writes beside records, and that hold no results."""
