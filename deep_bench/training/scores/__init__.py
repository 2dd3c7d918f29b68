"""Figures of a network on a data set, gathered batch by batch."""

from deep_bench.training.scores.accuracy import Accuracy
from deep_bench.training.scores.confusion import ConfusionMatrix
from deep_bench.training.scores.mean_output import MeanOutput
from deep_bench.training.scores.ranking import NDCG, HitRate
from deep_bench.training.scores.regression import (
    R2,
    MeanAbsoluteError,
    MeanSquaredError,
    RelativeError,
    RootMeanSquaredError,
)
from deep_bench.training.scores.sample_losses import SampleLosses, cross_entropies, squared_errors
from deep_bench.training.scores.score import Direction, Reads, Score
from deep_bench.training.scores.tokens import NatsPerToken, Perplexity

__all__ = [
    "NDCG",
    "R2",
    "Accuracy",
    "ConfusionMatrix",
    "Direction",
    "HitRate",
    "MeanAbsoluteError",
    "MeanOutput",
    "MeanSquaredError",
    "NatsPerToken",
    "Perplexity",
    "Reads",
    "RelativeError",
    "RootMeanSquaredError",
    "SampleLosses",
    "Score",
    "cross_entropies",
    "squared_errors",
]
