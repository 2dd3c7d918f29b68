"""Sizes for the dimensions that a network leaves open."""

from deep_bench.graph.sizes import Sizes, choose_sizes

__all__ = ["Sizes", "choose_sizes"]
