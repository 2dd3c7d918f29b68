"""MLPerf's description of a system: what its programs ask for, filled from the environment and from what a user states."""

from deep_bench.mlperf.system.describe import Missing, describe, missing
from deep_bench.mlperf.system.facts import load_facts
from deep_bench.mlperf.system.fields import FIELDS, UNKNOWN, Field, Kind

__all__ = ["FIELDS", "UNKNOWN", "Field", "Kind", "Missing", "describe", "load_facts", "missing"]
