"""Gradients of networks, as networks."""

from deep_bench.network.gradient.backward import differentiate, gradient_name

__all__ = ["differentiate", "gradient_name"]
