"""Do two optimizers do the same? Their trajectories against the rounding errors of the first one's update."""

from deep_bench.training.comparison.compare import compare_optimizers
from deep_bench.training.comparison.result import OptimizerComparison, OptimizerVerdict, StepDifference

__all__ = ["OptimizerComparison", "OptimizerVerdict", "StepDifference", "compare_optimizers"]
