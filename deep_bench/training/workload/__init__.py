"""From a recipe to a training run on a framework."""

from __future__ import annotations

from deep_bench.training.workload.train import train
from deep_bench.training.workload.workload import Workload, workload

__all__ = ["Workload", "train", "workload"]
