"""Conformance suites that anyone's adapter, kernel, communicator or distributed optimizer can be put through."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
