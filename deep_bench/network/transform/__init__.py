"""Transformations: a network made into another one that computes the same, and the check that it does."""

from deep_bench.network.transform.check import Equivalence, check
from deep_bench.network.transform.extract import extract
from deep_bench.network.transform.fold import fold
from deep_bench.network.transform.fuse import fuse_batchnorm
from deep_bench.network.transform.pattern import by_name
from deep_bench.network.transform.replace import Match, replace

__all__ = ["Equivalence", "Match", "by_name", "check", "extract", "fold", "fuse_batchnorm", "replace"]
