"""What makes tensors from a few numbers."""

from __future__ import annotations

__all__: list[str] = []
