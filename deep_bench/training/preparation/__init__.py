"""Pre-processing as data: a pipeline is a list of named steps with parameters, kept in the record."""

from __future__ import annotations

from deep_bench.training.preparation.pipeline import STEPS, Preparation
from deep_bench.training.preparation.step import Step

__all__ = ["STEPS", "Preparation", "Step"]
