"""What a training set must offer, what may be asked of any, and what a record says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidData, Unsupported
from deep_bench.tensor import TensorSpec

_AT_ONCE = 4096


@runtime_checkable
class Dataset(Protocol):
    """Samples that are read by number, many at once.

    What else a set knows of its samples, it offers as further attributes: ``labels``, the class of each sample (int64), and
    ``lengths``, its length (int64). Samplers that need them ask for them with `labels_of` and `lengths_of`. A method
    ``where(number)`` says in words where a sample lies, for messages; `where_is` asks for it.

    Example:
        >>> import deep_bench as db
        >>> digits = db.datasets["digits"]()
        >>> batch = digits[np.array([3, 1])]
        >>> batch["image"].shape, batch["label"].tolist()
        ((2, 1, 8, 8), [3, 1])
    """

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample, without the axis of the batch."""

    def __len__(self) -> int:
        """The number of samples."""

    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, np.ndarray]:
        """The samples of these numbers, stacked along a first axis in this order; fresh arrays.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read; the message names it and its file.
        """


class BadSample(InvalidData):
    """A sample that was read and that nothing can be made of; ``sample`` is its number."""

    sample: int = -1


def checked_numbers(indices: Any, count: int, whose: str = "the set") -> NDArray[np.int64]:
    """Numbers of samples as an int64 array of rank 1, none of them negative or beyond the set.

    Raises:
        InvalidArgument: Anything else.

    Example:
        >>> checked_numbers([2, 0], 3)
        array([2, 0])
    """
    numbers = np.asarray(indices)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        came = f"{type(indices).__name__} of shape {numbers.shape} and type {numbers.dtype} as numbers of samples"
        raise InvalidArgument(came, "a sequence of integers", "dataset[[3]] is a batch of one")
    numbers = numbers.astype(np.int64, copy=False)
    if numbers.size and numbers.view(np.uint64).max() >= count:  # a negative number is a large one
        beyond = int(numbers[(numbers < 0) | (numbers >= count)][0])
        raise InvalidArgument(f"sample {beyond} of {whose}", f"0 to {count - 1}")
    return numbers


def labels_of(dataset: Dataset) -> NDArray[np.int64]:
    """The class of each sample: the set's ``labels``, or else what it gives as ``label``, which is read once through.

    Args:
        dataset: Any set.

    Returns:
        The classes, int64 of shape (n,).

    Raises:
        Unsupported: The set has neither.
        InvalidData: There are not as many as samples, or they are no integers.

    Example:
        >>> import deep_bench as db
        >>> labels_of(db.datasets["digits"]())[:4]
        array([0, 1, 2, 3])
    """
    labels = getattr(dataset, "labels", None)
    if labels is None:
        if not any(spec.name == "label" and spec.shape == () and spec.dtype.kind in "iu" for spec in dataset.specs):
            listing = ", ".join(map(str, dataset.specs))
            raise Unsupported(f"a set of {listing} has no classes", "`labels`, or an integer `label` in each sample")
        blocks = (np.arange(start, min(start + _AT_ONCE, len(dataset))) for start in range(0, len(dataset), _AT_ONCE))
        labels = np.concatenate([np.zeros(0, np.int64), *(dataset[block]["label"] for block in blocks)])
    return _one_each(labels, dataset, "labels")


def lengths_of(dataset: Dataset) -> NDArray[np.int64]:
    """The length of each sample, as its set's ``lengths`` says.

    Returns:
        The lengths, int64 of shape (n,).

    Raises:
        Unsupported: The set does not know them.
        InvalidData: There are not as many as samples, or they are no integers.
    """
    lengths = getattr(dataset, "lengths", None)
    if lengths is None:
        raise Unsupported(f"a {type(dataset).__name__} does not know its samples' lengths", "an attribute `lengths`")
    return _one_each(lengths, dataset, "lengths")


def where_is(dataset: Dataset, number: int) -> str | None:
    """Where a sample lies, in words: its file, and its place there; ``None`` of a set that does not say."""
    where = getattr(dataset, "where", None)
    return None if where is None else where(number)


def _one_each(values: Any, dataset: Dataset, subject: str) -> NDArray[np.int64]:
    values = np.asarray(values)
    if values.shape != (len(dataset),) or values.dtype.kind not in "iu":
        raise InvalidData(f"{subject} of shape {values.shape} and type {values.dtype}", f"{len(dataset)} integers")
    return values.astype(np.int64, copy=False)


_HASHED_AT_ONCE = 1024


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
    for start in range(0, len(dataset), _HASHED_AT_ONCE):
        batch = dataset[np.arange(start, min(start + _HASHED_AT_ONCE, len(dataset)))]
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
