"""Whether frameworks take the training steps that they should, and from where on nobody can tell."""

from deep_bench.training.validation.result import Chaos, Distance, Trained, Validation
from deep_bench.training.validation.validate import batches_of, validate_training

__all__ = ["Chaos", "Distance", "Trained", "Validation", "batches_of", "validate_training"]
