"""Layer 1: a whole ONNX network."""

from deep_bench.network.gradient import differentiate

__all__ = ["differentiate"]
