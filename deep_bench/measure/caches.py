"""The last-level cache of this machine: how large it is, and how to empty it between samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_ASSUMED_BYTES = 64 * 2**20
_LARGEST_BYTES = 2**30


def last_level_bytes(folder: Path = _CACHES) -> int | None:
    """The size of the largest cache that the first processor has, in bytes; ``None`` where the system does not tell.

    Args:
        folder: Where Linux lists the caches.
    """
    sizes = []
    for file in folder.glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        sizes.append(int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text))
    return max(sizes, default=None)


class CacheFlush:
    """Empties the caches: a call reads and writes an array twice as large as the last-level cache.

    What lies in the caches of a device is not touched.

    Args:
        nbytes: The size of the array; by default twice that of the last-level cache, or 128 MiB where that is not known.

    Example:
        >>> flush = CacheFlush(2**20)
        >>> flush(), flush.nbytes
        (None, 1048576)
    """

    def __init__(self, nbytes: int | None = None) -> None:
        cache_bytes = last_level_bytes()
        target_bytes = 2 * (_ASSUMED_BYTES if cache_bytes is None else cache_bytes) if nbytes is None else nbytes
        self.nbytes = min(target_bytes, _LARGEST_BYTES)
        self._array = np.zeros(self.nbytes // 8, np.int64)

    def __call__(self) -> None:
        """Read and write all of the array."""
        self._array += 1
