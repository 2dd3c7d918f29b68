"""Branches and loops: the gradient runs through their graphs."""

from __future__ import annotations

__all__: list[str] = []
