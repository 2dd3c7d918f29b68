"""Experiments as recipes: what is fixed, what varies, what is accepted; run cell by cell, here or as jobs of SLURM."""

from __future__ import annotations

from deep_bench.recipes.cell import Cell
from deep_bench.recipes.recipe import READY, Experiment, load_experiment
from deep_bench.recipes.run import CellOutcome, Outcome, experiment_status, resume_experiment, run_experiment
from deep_bench.recipes.state import NotWritten

__all__ = [
    "READY",
    "Cell",
    "CellOutcome",
    "Experiment",
    "NotWritten",
    "Outcome",
    "experiment_status",
    "load_experiment",
    "resume_experiment",
    "run_experiment",
]
