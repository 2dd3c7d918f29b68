"""Gradients of networks, as networks."""

from deep_bench.network.gradient.differentiate import differentiate, gradient_name

__all__ = ["differentiate", "gradient_name"]
