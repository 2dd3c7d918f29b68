"""How the elements of a weight lie: which of them make up one element of a result, and how many terms it sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Fans:
    """How many terms a weight's product sums.

    Args:
        fan_in: In each element of the result.
        fan_out: In each element of the gradient by what comes in.
    """

    fan_in: float
    fan_out: float


Weighed = tuple[np.ndarray, Fans]
"""The positions of a weight's elements as (blocks, out, in), and the terms that are summed."""

Layout = Callable[[np.ndarray, Mapping[str, Any]], Weighed]
"""From the positions of a weight's elements, in its shape, and the attributes of the node to how they lie."""


def blocks(matrices: np.ndarray, fan_in: float | None = None, fan_out: float | None = None) -> Weighed:
    """Of matrices [blocks, out, in]; by default as many terms are summed as a row or a column has elements."""
    _, out, into = matrices.shape
    return matrices, Fans(into if fan_in is None else fan_in, out if fan_out is None else fan_out)
