"""What training runs found: figures of one, and statistics of several."""

from deep_bench.training.runs.figures import Throughput, ToTarget, throughput
from deep_bench.training.runs.mlperf import MlperfScore, mlperf_score
from deep_bench.training.runs.one import kept
from deep_bench.training.runs.repeated import several
from deep_bench.training.runs.result import Runs
from deep_bench.training.runs.single import recorded
from deep_bench.training.runs.survival import Success, Survival, success, survival

__all__ = [
    "MlperfScore",
    "Runs",
    "Success",
    "Survival",
    "Throughput",
    "ToTarget",
    "kept",
    "mlperf_score",
    "recorded",
    "several",
    "success",
    "survival",
    "throughput",
]
