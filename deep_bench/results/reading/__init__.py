"""Record files as results: one file for each kind of record, and the table that names them."""

from deep_bench.results.reading.kinds import NO_RESULTS, record_kinds

__all__ = ["NO_RESULTS", "record_kinds"]
