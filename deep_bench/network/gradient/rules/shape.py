"""Moving, joining and cutting tensors: the gradient moves back."""

from __future__ import annotations

__all__: list[str] = []
