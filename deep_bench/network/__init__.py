"""Layer 1: a whole ONNX network."""

from deep_bench.network.gradient import differentiate, gradient_name
from deep_bench.network.training_step import TrainingStep, training_step

__all__ = ["TrainingStep", "differentiate", "gradient_name", "training_step"]
