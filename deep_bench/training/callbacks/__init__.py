"""What watches a training run, and may end it."""

from deep_bench.training.callbacks.display import CsvLines, Curves, JsonLines, ProgressBar
from deep_bench.training.callbacks.metrics import (
    GradientNorm,
    LabelDistribution,
    TrainingEnergy,
    TrainingMemory,
    WorstSamples,
)
from deep_bench.training.callbacks.stopping import (
    EarlyStopping,
    EvaluateEvery,
    NonFinite,
    Schedule,
    StopAtSignal,
    TargetReached,
    TimeLimit,
)

__all__ = [
    "CsvLines",
    "Curves",
    "EarlyStopping",
    "EvaluateEvery",
    "GradientNorm",
    "JsonLines",
    "LabelDistribution",
    "NonFinite",
    "ProgressBar",
    "Schedule",
    "StopAtSignal",
    "TargetReached",
    "TimeLimit",
    "TrainingEnergy",
    "TrainingMemory",
    "WorstSamples",
]
