"""TensorFlow: a network as one graph, channels-last inside."""

from deep_bench.adapters.tensorflow.adapter import TensorFlowAdapter

__all__ = ["TensorFlowAdapter"]
