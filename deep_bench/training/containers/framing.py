r"""The records of a TFRecord file.

A record is its length (uint64), the masked CRC-32C of these eight bytes, its bytes, and their masked CRC-32C, little-endian;
:math:`\operatorname{mask}(c) = ((c \gg 15) | (c \ll 17)) + \mathtt{a282ead8}_{16}` modulo :math:`2^{32}`.

The CRC comes from the package ``google-crc32c``, whose code uses the processor's own instruction: in Python it would take a
thousand times as long.

Source:
    TensorFlow, "TFRecord and tf.train.Example", section "TFRecords format details"; RFC 3720, appendix B.4 (CRC-32C).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidData, Unsupported

_HEAD = struct.Struct("<QI")
_SUM = struct.Struct("<I")
OVERHEAD = _HEAD.size + _SUM.size


def crc32c() -> Callable[[bytes], int]:
    """The checksum's function.

    Raises:
        Unsupported: Its package is not installed.
    """
    if find_spec("google_crc32c") is None:
        raise Unsupported(
            "TFRecord needs google-crc32c, which is not installed here", advice="pip install 'deep-bench[data]'"
        )
    from google_crc32c import value

    return value


def masked(crc: int) -> int:
    """A checksum as it is stored.

    Example:
        >>> f"{masked(0):08x}"
        'a282ead8'
    """
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def framed(data: bytes, crc: Callable[[bytes], int]) -> bytes:
    """Bytes as a record."""
    length = struct.pack("<Q", len(data))
    return length + _SUM.pack(masked(crc(length))) + data + _SUM.pack(masked(crc(data)))


def unframed(record: bytes, crc: Callable[[bytes], int]) -> bytes:
    """The bytes of a record.

    Raises:
        ValueError: A checksum is wrong, or the length.
    """
    length, length_sum = _HEAD.unpack_from(record)
    if length_sum != masked(crc(record[:8])) or length != len(record) - OVERHEAD:
        raise ValueError("the length, or its checksum, is wrong")
    data = record[_HEAD.size : -_SUM.size]
    (checksum,) = _SUM.unpack_from(record, len(record) - _SUM.size)
    if checksum != masked(crc(data)):
        raise ValueError(f"the checksum of its bytes is {masked(crc(data)):08x} instead of {checksum:08x}")
    return data


def is_framed(head: bytes) -> bool:
    """Whether a file with these first bytes begins with a record."""
    if len(head) < _HEAD.size or find_spec("google_crc32c") is None:
        return False
    return bool(_HEAD.unpack_from(head)[1] == masked(crc32c()(head[:8])))


def scan(path: Path, crc: Callable[[bytes], int]) -> NDArray[np.int64]:
    """Offset and size of each record of a file, by reading their lengths: (records, 2).

    Raises:
        InvalidData: The checksum of a length is wrong, or the last record is cut off.
    """
    places: list[tuple[int, int]] = []
    total, offset = path.stat().st_size, 0
    with open(path, "rb", buffering=1 << 16) as file:
        while offset < total:
            place = f"{path}, record {len(places)} at offset {offset}"
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise InvalidData(f"{place} is cut off", f"{_HEAD.size} bytes of length and checksum", "get the data again")
            length, length_sum = _HEAD.unpack(head)
            if length_sum != masked(crc(head[:8])):
                raise InvalidData(f"{place}: the checksum of its length is wrong", "a TFRecord file", "get the data again")
            size = length + OVERHEAD
            if offset + size > total:
                raise InvalidData(f"{place} has {total - offset} bytes", f"{size}", "it is cut off: get the data again")
            places.append((offset, size))
            offset += size
            file.seek(offset)
    return np.array(places, np.int64).reshape(-1, 2)
