"""Checks that anyone's kernel can be put through, each usable alone.

A check is a function of a kernel and a case, and gives a `Finding`. Instead of the case it takes a `Problem`: the case with
what is known of it, which serves several kernels and checks. `check_operator` runs them all.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
