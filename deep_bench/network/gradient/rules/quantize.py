"""Quantization: steps, or straight through them."""

from __future__ import annotations

__all__: list[str] = []
