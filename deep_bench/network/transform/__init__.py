"""Transformations: a network made into another one that computes the same, and the check that it does."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
