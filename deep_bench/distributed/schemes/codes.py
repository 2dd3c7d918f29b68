"""Whole numbers of a few bits, packed into bytes; and vectors cut into groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WIDTHS = (1, 2, 4, 8, 16)


def width_of(largest: int) -> int:
    """The bits of a code: the fewest, among those that fill bytes without a rest, that hold numbers up to ``largest``."""
    return next(width for width in _WIDTHS if largest < 2**width)


def packed(codes: NDArray[np.uint16], width: int) -> NDArray[np.uint8]:
    """Codes of so many bits each, the first in the lowest bits of the first byte.

    Example:
        >>> packed(np.uint16([1, 2, 3]), 4).tolist(), unpacked(packed(np.uint16([1, 2, 3]), 4), 4, 3).tolist()
        ([33, 3], [1, 2, 3])
    """
    if width >= 8:
        return codes.astype(f"u{width // 8}").view(np.uint8)
    per_byte = 8 // width
    rows = np.zeros((-(-codes.size // per_byte), per_byte), np.uint8)
    rows.reshape(-1)[: codes.size] = codes
    return np.bitwise_or.reduce(rows << _shifts(width), axis=1)


def unpacked(message: NDArray[np.uint8], width: int, count: int) -> NDArray[np.unsignedinteger]:
    """The codes again; see `packed`."""
    if width >= 8:
        return message.view(f"u{width // 8}")
    return ((message[:, None] >> _shifts(width)) & np.uint8(2**width - 1)).reshape(-1)[:count]


def _shifts(width: int) -> NDArray[np.uint8]:
    return np.arange(0, 8, width, dtype=np.uint8)


def grouped(vector: np.ndarray, group: int) -> np.ndarray:
    """A vector as rows of so many elements, the last filled up with zeros."""
    rows = -(-vector.size // group)
    if rows * group == vector.size:
        return vector.reshape(rows, group)
    padded = np.zeros((rows, group), vector.dtype)
    padded.reshape(-1)[: vector.size] = vector
    return padded
