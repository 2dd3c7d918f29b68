"""Shrinking a disagreement, a crash or slowness to the smallest network that still shows it."""

from deep_bench.network.reduction.predicates import Crashes, Slower, Wrong
from deep_bench.network.reduction.reduced import Reduced, reduce

__all__ = ["Crashes", "Reduced", "Slower", "Wrong", "reduce"]
