"""deep_bench times and checks any piece of deep learning against slow references that a person can read.

Importing this package loads no framework; its names are resolved on first use.
"""

import lazy_loader

from deep_bench.deprecated import find_moved_modules

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
__all__ += ["__version__"]

find_moved_modules()
