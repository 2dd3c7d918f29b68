"""What a record says of a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from deep_bench.training.dataset import Dataset

_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Description:
    """Where a set comes from.

    Args:
        name: What it is called, with the part of it: ``"mnist/train"``.
        source: Who made it, and where it is to be had.
        licence: Under what terms.
        synthetic: Its samples were drawn by a program; every record of a run on them says so.
    """

    name: str
    source: str = "not stated"
    licence: str = "not stated"
    synthetic: bool = False


def description_of(dataset: Dataset) -> Description:
    """A set's ``description``; for one that has none, its type and nothing else.

    Example:
        >>> import deep_bench as db
        >>> description_of(db.datasets["digits"]("test")).name
        'digits/test'
    """
    return getattr(dataset, "description", None) or Description(type(dataset).__name__)


def facts(dataset: Dataset, *, contents: bool = True) -> dict[str, Any]:
    """What a record keeps of a set, as plain JSON.

    Args:
        dataset: Any set.
        contents: Read all samples once for their checksum.

    Returns:
        ``name``, ``source``, ``licence``, ``synthetic``, ``samples`` (their number), ``specs`` in words, and ``sha256``,
        which is ``None`` without ``contents``.

    Example:
        >>> import deep_bench as db
        >>> facts(db.datasets["digits"](), contents=False)["specs"]
        ['image: float32[1, 8, 8]', 'label: int64[]']
    """
    return {
        **asdict(description_of(dataset)),
        "samples": len(dataset),
        "specs": [str(spec) for spec in dataset.specs],
        "sha256": content_sha256(dataset) if contents else None,
    }


def content_sha256(dataset: Dataset) -> str:
    """The checksum of all samples in order, the same in whatever container they lie.

    Of each array, its name, type and shape, and the elements of all samples in little-endian C order; of an array of
    objects, each one's length in bytes and its bytes.

    Returns:
        SHA-256 as 64 hexadecimal digits.

    Example:
        >>> from deep_bench.training.sets import ArrayDataset
        >>> one, other = ArrayDataset({"x": np.arange(3)}), ArrayDataset({"x": np.arange(3)[::-1]})
        >>> content_sha256(one) == content_sha256(other)
        False
    """
    sums = {
        spec.name: hashlib.sha256(str(replace(spec, dtype=spec.dtype.newbyteorder("="))).encode()) for spec in dataset.specs
    }
    for start in range(0, len(dataset), _AT_ONCE):
        batch = dataset[np.arange(start, min(start + _AT_ONCE, len(dataset)))]
        for name, running in sums.items():
            for piece in _bytes_of(batch[name]):
                running.update(piece)
    lines = sorted(f"{name} {running.hexdigest()}\n" for name, running in sums.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _bytes_of(array: np.ndarray) -> Iterator[bytes | memoryview]:
    if array.dtype != object:
        plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        yield plain.view(np.uint8).reshape(-1).data if plain.size else b""
        return
    for item in array:
        content = item if isinstance(item, bytes) else item.encode() if isinstance(item, str) else np.asarray(item).tobytes()
        yield len(content).to_bytes(8, "little")
        yield content
