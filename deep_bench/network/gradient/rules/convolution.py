"""Convolutions: the gradient of the data is the transposed convolution, that of the weights a product with columns."""

from __future__ import annotations

__all__: list[str] = []
