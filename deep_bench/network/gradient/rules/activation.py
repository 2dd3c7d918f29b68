"""Activations and the softmax family."""

from __future__ import annotations

__all__: list[str] = []
