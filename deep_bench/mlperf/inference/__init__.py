"""A network of any framework under MLPerf's LoadGen.

`run` does all of it. A `System` of your own can take the executor's place. See ``docs/mlperf-inference.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.mlperf.inference.library import Library as Library
    from deep_bench.mlperf.inference.record import InferenceRecord as InferenceRecord
    from deep_bench.mlperf.inference.running import run as run
    from deep_bench.mlperf.inference.settings import Settings as Settings
    from deep_bench.mlperf.inference.storage import load_inference as load_inference
    from deep_bench.mlperf.inference.system import System as System
    from deep_bench.mlperf.inference.workload import Work as Work

_LAZY = {
    "InferenceRecord": "deep_bench.mlperf.inference.record",
    "Library": "deep_bench.mlperf.inference.library",
    "Settings": "deep_bench.mlperf.inference.settings",
    "System": "deep_bench.mlperf.inference.system",
    "Work": "deep_bench.mlperf.inference.workload",
    "load_inference": "deep_bench.mlperf.inference.storage",
    "run": "deep_bench.mlperf.inference.running",
}

__all__ = ["InferenceRecord", "Library", "Settings", "System", "Work", "load_inference", "run"]

__getattr__, __dir__ = lazy(__name__, _LAZY, ())
