"""Random numbers that are a function of a counter, for many counters at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counters: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint64]:
    """Philox4x32-10: four random words of 32 bits for each counter of four such words.

    Args:
        counters: The counters, each word below 2**32, along a first axis of 4.
        key: Two words.

    Returns:
        Random words below 2**32, in the shape of ``counters``.

    Example:
        >>> [hex(word) for word in philox(np.zeros(4, np.uint64), (0, 0)).tolist()]
        ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']

    Source:
        Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC 2011, section 3.3.
    """
    a, b, c, d = counters
    for turn in range(_ROUNDS):
        keys = [np.uint64((word + turn * step) & 0xFFFFFFFF) for word, step in zip(key, _STEPS, strict=True)]
        first, second = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = (second >> _HALF) ^ b ^ keys[0], second & _LOW, (first >> _HALF) ^ d ^ keys[1], first & _LOW
    return np.stack([a, b, c, d])
