"""How weights are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType

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


Scheme = Callable[[np.random.Generator, tuple[int, int, int], Fans], np.ndarray]
"""From a generator, the shape (blocks, out, in) and the fans to weights in float64."""


def _normal(variance: Callable[[Fans], float]) -> Scheme:
    return lambda generator, shape, fans: generator.normal(0.0, sqrt(variance(fans)), shape)


def _uniform(variance: Callable[[Fans], float]) -> Scheme:
    def draw(generator: np.random.Generator, shape: tuple[int, int, int], fans: Fans) -> np.ndarray:
        bound = sqrt(3 * variance(fans))
        return generator.uniform(-bound, bound, shape)

    return draw


def _he(fans: Fans) -> float:
    return 2 / fans.fan_in


def _glorot(fans: Fans) -> float:
    return 2 / (fans.fan_in + fans.fan_out)


def _lecun(fans: Fans) -> float:
    return 1 / fans.fan_in


def _orthogonal(generator: np.random.Generator, shape: tuple[int, int, int], fans: Fans) -> np.ndarray:
    """Of each block, rows of length 1 at right angles, or columns where there are fewer of them."""
    del fans
    blocks, out, into = shape
    q, r = np.linalg.qr(generator.normal(size=(blocks, max(out, into), min(out, into))))
    q = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None]  # without this, not uniform over all such matrices
    return q if out >= into else np.swapaxes(q, 1, 2)


SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        "glorot-normal": _normal(_glorot),
        "glorot-uniform": _uniform(_glorot),
        "he-normal": _normal(_he),
        "he-uniform": _uniform(_he),
        "lecun-normal": _normal(_lecun),
        "lecun-uniform": _uniform(_lecun),
        "orthogonal": _orthogonal,
    }
)
"""Name to how weights are drawn; see `initialize` for the formulas."""
