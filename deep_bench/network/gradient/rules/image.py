"""Resampling: each result hands its gradient back to the pixels it came from."""

from __future__ import annotations

__all__: list[str] = []
