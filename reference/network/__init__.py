"""Reference of layer 1: an executor that walks the graph, one NumPy function per node."""

from deep_bench.reference.network.adapter import ReferenceAdapter
from deep_bench.reference.network.executor import Arithmetic, ReferenceExecutor

__all__ = ["Arithmetic", "ReferenceAdapter", "ReferenceExecutor"]
