"""Recurrent layers, through the loop that defines them."""

from __future__ import annotations

__all__: list[str] = []
