"""Casts: the gradient in the element type of the input."""

from __future__ import annotations

__all__ = ["Cast", "CastLike"]


def Cast(at, x, **attributes):
    return at.dy.cast(x)


def CastLike(at, x, like, **attributes):
    return at.dy.cast(x), None
