"""What an operator must compute and move, counted from its definition: FLOPs and bytes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
