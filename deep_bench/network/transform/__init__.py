"""Transformations: a network made into another one that computes the same, and the check that it does."""

from deep_bench.network.transform.batch import batch, through_batch
from deep_bench.network.transform.check import Equivalence, check
from deep_bench.network.transform.cuts import cuts, extract, place_cuts
from deep_bench.network.transform.fold import fold, fuse_batchnorm
from deep_bench.network.transform.layout import layout, through_layout
from deep_bench.network.transform.micro_batch import Cost, measure_pieces, micro_batch, plan_pieces
from deep_bench.network.transform.precision import beyond_range, precision
from deep_bench.network.transform.replace import Match, by_name, replace

__all__ = [
    "Cost",
    "Equivalence",
    "Match",
    "batch",
    "beyond_range",
    "by_name",
    "check",
    "cuts",
    "extract",
    "fold",
    "fuse_batchnorm",
    "layout",
    "measure_pieces",
    "micro_batch",
    "place_cuts",
    "plan_pieces",
    "precision",
    "replace",
    "through_batch",
    "through_layout",
]
