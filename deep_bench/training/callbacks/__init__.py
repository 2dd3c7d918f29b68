"""What watches a training run, and may end it."""

from deep_bench.training.callbacks.bar import ProgressBar
from deep_bench.training.callbacks.curves import Curves
from deep_bench.training.callbacks.early_stopping import EarlyStopping
from deep_bench.training.callbacks.evaluate_every import EvaluateEvery
from deep_bench.training.callbacks.gradient_norm import GradientNorm
from deep_bench.training.callbacks.label_distribution import LabelDistribution
from deep_bench.training.callbacks.lines import CsvLines, JsonLines
from deep_bench.training.callbacks.non_finite import NonFinite
from deep_bench.training.callbacks.resources import TrainingEnergy, TrainingMemory
from deep_bench.training.callbacks.schedule import Schedule
from deep_bench.training.callbacks.stop_at_signal import StopAtSignal
from deep_bench.training.callbacks.target import TargetReached
from deep_bench.training.callbacks.time_limit import TimeLimit
from deep_bench.training.callbacks.worst_samples import WorstSamples

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
