"""Attention and its relatives."""

from __future__ import annotations

__all__: list[str] = []
