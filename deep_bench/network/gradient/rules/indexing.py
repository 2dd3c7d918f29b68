"""Gathering hands gradients back by scattering, and the other way round."""

from __future__ import annotations

__all__: list[str] = []
