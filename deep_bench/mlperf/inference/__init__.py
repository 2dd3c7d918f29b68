"""A network of any framework under MLPerf's LoadGen.

`run` does all of it. A `System` of your own can take the executor's place. See ``docs/mlperf-inference.md``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
