"""Random numbers that depend on a seed and the number of an epoch, and on nothing else."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument

_ORDER = 0
"""Sets the samplers' stream apart from others that are drawn from the same seed."""


def generator(seed: int, epoch: int) -> np.random.Generator:
    """The generator of one epoch's order.

    Raises:
        InvalidArgument: A negative seed or epoch, or one that is no integer.

    Example:
        >>> int(generator(0, 3).integers(100)) == int(generator(0, 3).integers(100))
        True

    Source:
        O'Neill, *PCG: A family of simple fast space-efficient statistically good algorithms for random number
        generation*, 2014; the seed is spread by NumPy's ``SeedSequence``.
    """
    key = (_ORDER, natural("epoch", epoch))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(natural("seed", seed), spawn_key=key)))


def natural(what: str, value: Any, least: int = 0) -> int:
    """An integer argument that may not be less than ``least``.

    Raises:
        InvalidArgument: It is less, or no integer.

    Example:
        >>> natural("seed", np.int64(3))
        3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise InvalidArgument(f"{what} {value!r}", f"an integer of at least {least}")
    return number
