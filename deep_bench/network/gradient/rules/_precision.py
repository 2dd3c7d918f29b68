"""The element type to compute a gradient in."""

from __future__ import annotations

import numpy as np


def wide(x):
    """``x`` in float32 if its element type has fewer bits: sums and products of such would lose what a gradient needs."""
    return x if x is None or x.dtype.itemsize >= 4 else x.cast(np.float32)


def total(*parts):
    """The sum of those gradients that are there; ``None`` if none is."""
    gradients = [part for part in parts if part is not None]
    result = gradients[0] if gradients else None
    for part in gradients[1:]:
        result = result + part
    return result
