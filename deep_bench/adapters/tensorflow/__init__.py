"""TensorFlow: a network as one graph, channels-last inside; a Keras model, as an executor."""

from deep_bench.adapters.tensorflow.adapter import TensorFlowAdapter
from deep_bench.adapters.tensorflow.wrap import wrap

__all__ = ["TensorFlowAdapter", "wrap"]
