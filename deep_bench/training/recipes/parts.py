"""What a recipe can name, besides what is in the registries of ``deep_bench``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from deep_bench.training import compose, schedules, scores
from deep_bench.training.recipes.splits import SPLITS

SCHEDULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "cosine": schedules.Cosine,
        "one-cycle": schedules.OneCycle,
        "polynomial": schedules.Polynomial,
        "step": schedules.StepDecay,
    }
)
"""Name to schedule of the learning rate."""

CHAIN: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "accumulate": compose.accumulate,
        "average": compose.average,
        "clip-norm": compose.clip_norm,
        "clip-value": compose.clip_value,
        "decay": compose.decay,
    }
)
"""Name to part around an optimizer."""

SCORES: Mapping[str, Callable[..., scores.Score]] = MappingProxyType(
    {
        "accuracy": scores.Accuracy,
        "confusion": scores.ConfusionMatrix,
        "cross-entropy": scores.NatsPerToken,
        "hit-rate": scores.HitRate,
        "mean-absolute-error": scores.MeanAbsoluteError,
        "mean-output": scores.MeanOutput,
        "mean-squared-error": scores.MeanSquaredError,
        "ndcg": scores.NDCG,
        "perplexity": scores.Perplexity,
        "r2": scores.R2,
        "relative-error": scores.RelativeError,
        "root-mean-squared-error": scores.RootMeanSquaredError,
    }
)
"""Name to score."""

__all__ = ["CHAIN", "SCHEDULES", "SCORES", "SPLITS"]
