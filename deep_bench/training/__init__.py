"""Layer 2: data sets, samplers, optimizers, and the training loop with its checkpoints, figures and checks.

What is imported on first use only is listed in a table, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.training.checkpoint import Checkpoints as Checkpoints
    from deep_bench.training.checkpoint import latest_checkpoint as latest_checkpoint
    from deep_bench.training.checkpoint import read_checkpoint as read_checkpoint
    from deep_bench.training.checkpoint import write_checkpoint as write_checkpoint
    from deep_bench.training.comparison import compare_optimizers as compare_optimizers
    from deep_bench.training.compose import accumulate as accumulate
    from deep_bench.training.compose import average as average
    from deep_bench.training.compose import chain as chain
    from deep_bench.training.compose import clip_norm as clip_norm
    from deep_bench.training.compose import clip_value as clip_value
    from deep_bench.training.compose import decay as decay
    from deep_bench.training.containers import convert as convert
    from deep_bench.training.containers import open_container as open_container
    from deep_bench.training.containers import write_container as write_container
    from deep_bench.training.conventions import like as like
    from deep_bench.training.dataset import Dataset as Dataset
    from deep_bench.training.evaluation import Evaluation as Evaluation
    from deep_bench.training.form import TrainingForm as TrainingForm
    from deep_bench.training.form import training_form as training_form
    from deep_bench.training.history import History as History
    from deep_bench.training.initial import initialize as initialize
    from deep_bench.training.loader import Loader as Loader
    from deep_bench.training.optimizer import Optimizer as Optimizer
    from deep_bench.training.preparation import Preparation as Preparation
    from deep_bench.training.recipes import RECIPES as RECIPES
    from deep_bench.training.recipes import Recipe as Recipe
    from deep_bench.training.recipes import load_recipe as load_recipe
    from deep_bench.training.runs import Runs as Runs
    from deep_bench.training.runs import several as several
    from deep_bench.training.sampler import Sampler as Sampler
    from deep_bench.training.schedules import Cosine as Cosine
    from deep_bench.training.schedules import OneCycle as OneCycle
    from deep_bench.training.schedules import Polynomial as Polynomial
    from deep_bench.training.schedules import StepDecay as StepDecay
    from deep_bench.training.schedules import WarmUp as WarmUp
    from deep_bench.training.trainer import Trainer as Trainer
    from deep_bench.training.validation import validate_training as validate_training
    from deep_bench.training.workload.train import train as train

_LAZY = {
    name: f"deep_bench.training.{module}"
    for module, names in {
        "checkpoint": "Checkpoints latest_checkpoint read_checkpoint write_checkpoint",
        "comparison": "compare_optimizers",
        "compose": "accumulate average chain clip_norm clip_value decay",
        "containers": "convert open_container write_container",
        "conventions": "like",
        "dataset": "Dataset",
        "evaluation": "Evaluation",
        "form": "TrainingForm training_form",
        "history": "History",
        "initial": "initialize",
        "loader": "Loader",
        "optimizer": "Optimizer",
        "preparation": "Preparation",
        "recipes": "RECIPES Recipe load_recipe",
        "runs": "Runs several",
        "sampler": "Sampler",
        "schedules": "Cosine OneCycle Polynomial StepDecay WarmUp",
        "trainer": "Trainer",
        "validation": "validate_training",
        "workload.train": "train",
    }.items()
    for name in names.split()
}

__all__ = [
    "RECIPES",
    "Checkpoints",
    "Cosine",
    "Dataset",
    "Evaluation",
    "History",
    "Loader",
    "OneCycle",
    "Optimizer",
    "Polynomial",
    "Preparation",
    "Recipe",
    "Runs",
    "Sampler",
    "StepDecay",
    "Trainer",
    "TrainingForm",
    "WarmUp",
    "accumulate",
    "average",
    "chain",
    "clip_norm",
    "clip_value",
    "compare_optimizers",
    "convert",
    "decay",
    "initialize",
    "latest_checkpoint",
    "like",
    "load_recipe",
    "open_container",
    "read_checkpoint",
    "several",
    "train",
    "training_form",
    "validate_training",
    "write_checkpoint",
    "write_container",
]

__getattr__, __dir__ = lazy(__name__, _LAZY)
