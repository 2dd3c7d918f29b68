"""Records of all kinds as one data set: read, shown, exported, compared, reported."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
