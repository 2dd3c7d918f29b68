"""Layer 2: data sets, samplers, optimizers, and the training loop with its checkpoints, figures and checks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
