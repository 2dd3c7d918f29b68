"""Casts: the gradient in the element type of the input."""

from __future__ import annotations

from deep_bench.tensor import is_float

__all__ = ["Cast", "CastLike"]


def Cast(at, x, **attributes):
    """``dx = dy``; an element type of 8 bits or fewer has no room for gradients, which stay as wide as they are."""
    return _back(at, x)


def CastLike(at, x, like, **attributes):
    """``dx = dy``, as for `Cast`; ``like`` has none."""
    return _back(at, x), None


def _back(at, x):
    to, of = (at.op.knowledge.dtype(v.value) for v in (at.y, x))
    if to is not None and not is_float(to):
        return None  # a step
    if of is not None and (not is_float(of) or of.itemsize < 2):
        return at.dy
    return at.dy.cast(x)
