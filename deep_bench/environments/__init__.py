"""Other Python environments: declared, built once, locked, and run in.

An adapter in another environment is named with an ``@``: ``torch@envs/torch29``, see `deep_bench.variant`. Its worker runs
under the interpreter there, and is timed there, in one measurement with all others.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
