"""Experiments as recipes: what is fixed, what varies, what is accepted; run cell by cell, here or as jobs of SLURM."""

from __future__ import annotations

from deep_bench.experiments.cell import Cell
from deep_bench.experiments.experiment import Experiment
from deep_bench.experiments.load import READY, load_experiment
from deep_bench.experiments.outcome import CellOutcome, Outcome
from deep_bench.experiments.running import experiment_status, resume_experiment, run_experiment
from deep_bench.experiments.state import NotWritten

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
