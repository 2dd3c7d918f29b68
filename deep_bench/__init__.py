"""deep_bench times and checks any piece of deep learning against slow references that a person can read.

Importing this package loads no framework; names below are resolved on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
__all__ += ["__version__"]
