"""Containers that are arrays: in memory, mapped from a file, or read from HDF5."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.container import (
    Container,
    ContainerManifest,
    Origin,
    check_sums,
    fits,
    holds_numbers,
    refuse,
    stack,
)
from deep_bench.training.dataset import checked_numbers

if TYPE_CHECKING:
    from deep_bench.training.containers.kinds import Content

Verify = Callable[[ContainerManifest], None]


class ArrayField(Protocol):
    """One array of all samples, the first axis being their number."""

    def __len__(self) -> int: ...

    def read(self, indices: NDArray[np.int64]) -> np.ndarray:
        """These samples: a fresh array."""


class DenseField:
    """A NumPy array, in memory or mapped.

    Args:
        array: One entry for each sample.
        dtype: The type of what is read, where that differs.
    """

    def __init__(self, array: np.ndarray, dtype: np.dtype | None = None) -> None:
        self._array = np.asarray(array)  # a memmap as what it is underneath: each index would make a new one
        native = array.dtype.newbyteorder("=")
        self._dtype = native if dtype is None else dtype
        self._view = self._dtype.kind == "V" and native.kind == "u"
        self._as_it_is = array.dtype == self._dtype and array.flags.c_contiguous

    def __len__(self) -> int:
        return len(self._array)

    def read(self, indices: NDArray[np.int64]) -> np.ndarray:
        """These samples."""
        array = self._array[indices]
        if self._as_it_is:
            return array
        array = np.ascontiguousarray(array)
        if self._view:
            return array.astype(array.dtype.newbyteorder("="), copy=False).view(self._dtype)
        return array.astype(self._dtype, copy=False)


class JoinedField:
    """Several fields, one after the other, as one.

    Args:
        parts: At least one.
    """

    def __init__(self, parts: Sequence[ArrayField]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, indices: NDArray[np.int64]) -> np.ndarray:
        """These samples."""
        which = np.searchsorted(self._ends, indices, side="right")
        batch = None
        for number in np.unique(which) if len(which) else (0,):
            part, mask = self._parts[number], which == number
            start = self._ends[number] - len(part)
            values = part.read(indices[mask] - start)
            if batch is None:
                batch = np.empty((len(indices), *values.shape[1:]), values.dtype)
            batch[mask] = values
        assert batch is not None
        return batch


class RaggedField:
    """Samples of different sizes, each an array of its own.

    Args:
        arrays: One for each sample.
        spec: What they have in common.
    """

    def __init__(self, arrays: Sequence[np.ndarray], spec: TensorSpec) -> None:
        self._arrays, self._spec = arrays, spec

    def __len__(self) -> int:
        return len(self._arrays)

    def read(self, indices: NDArray[np.int64]) -> np.ndarray:
        """These samples: an array of objects, if they differ in size."""
        return stack([self._arrays[i] for i in indices], self._spec)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The first size of each sample."""
        return np.array([len(array) for array in self._arrays], np.int64)


class ArrayContainer(Container):
    """A container whose fields are arrays.

    Args:
        origin: Where they come from.
        specs: What they are.
        fields: The arrays, by name.
        release: Called when it is closed.
        verify: Compares what the format keeps with its checksums; by default the files as a whole are compared.
    """

    def __init__(
        self,
        origin: Origin,
        specs: Sequence[TensorSpec],
        fields: Mapping[str, ArrayField],
        *,
        release: Callable[[], None] | None = None,
        verify: Verify | None = None,
    ) -> None:
        self.origin, self.specs = origin, tuple(specs)
        self._fields: Mapping[str, ArrayField] | None = dict(fields)
        self._release, self._check = release, verify
        self._count = len(next(iter(fields.values())))
        self._name = str(origin.path or "the set")

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, np.ndarray]:
        """The samples of these numbers, in any order, as often as they come."""
        indices = checked_numbers(indices, self._count, self._name)
        return {name: field.read(indices) for name, field in self._open().items()}

    def column(self, name: str) -> np.ndarray:
        """One field of all samples."""
        return self.rows(name, np.arange(self._count))

    def rows(self, name: str, indices: NDArray[np.int64]) -> np.ndarray:
        """One field of some samples."""
        return self._open()[name].read(checked_numbers(indices, self._count, self._name))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sample.

        Raises:
            AttributeError: All are of one size, or several fields differ in theirs.
        """
        ragged_fields = [field for field in self._open().values() if isinstance(field, RaggedField)]
        if len(ragged_fields) != 1:
            raise AttributeError(f"{len(ragged_fields)} fields differ in length")
        return ragged_fields[0].lengths

    def close(self) -> None:
        """Let go of its arrays."""
        self._fields = None
        if self._release is not None:
            self._release()
            self._release = None

    def _open(self) -> Mapping[str, ArrayField]:
        if self._fields is None:
            raise InvalidArgument(f"{self.origin.path or 'this container'} was closed", "an open container", "open it again")
        return self._fields

    def _verify(self, manifest: ContainerManifest) -> None:
        if self._check is not None:
            self._check(manifest)
        else:
            check_sums(self.origin.folder, manifest.files)


def memory(arrays: Mapping[str, np.ndarray | Sequence[np.ndarray]], *, copy: bool = False) -> ArrayContainer:
    """Arrays in memory as a set of samples.

    Args:
        arrays: Name to an array whose first axis is the samples' number; or, if they differ in size, to a list of arrays.
        copy: Whether to copy them, so that later changes do not reach the set.

    Raises:
        InvalidArgument: No arrays, or of different numbers of samples.
        Unsupported: Elements that are no numbers.

    Example:
        >>> digits = memory({"image": np.zeros((10, 8, 8), np.uint8), "label": np.arange(10)})
        >>> print(*digits.specs, len(digits), digits[np.array([3, 3])]["label"])
        image: uint8[8, 8] label: int64[] 10 [3 3]
    """
    specs: list[TensorSpec] = []
    fields: dict[str, ArrayField] = {}
    for name, values in arrays.items():
        if isinstance(values, np.ndarray):
            spec = TensorSpec(name, values.shape[1:], values.dtype)
            fields[name] = DenseField(values.copy() if copy else values)
        else:
            spec = common_spec(name, values)
            fields[name] = RaggedField([array.copy() if copy else array for array in values], spec)
        if not holds_numbers(spec.dtype) or (isinstance(values, np.ndarray) and not values.ndim):
            raise refuse("memory", spec, "an array of numbers, one entry for each sample")
        specs.append(spec)
    same_counts({name: len(field) for name, field in fields.items()})
    return ArrayContainer(Origin("memory"), specs, fields)


def collected(content: Content) -> ArrayContainer:
    """All of a set, in memory."""
    if any(spec.open_dimensions for spec in content.specs):
        samples = list(content.samples())
        fields = {s.name: RaggedField([np.asarray(sample[s.name]) for sample in samples], s) for s in content.specs}
        return ArrayContainer(Origin("memory", classes=content.classes), content.specs, fields)
    arrays = {s.name: np.empty((content.count, *(int(d) for d in s.shape)), s.dtype) for s in content.specs}
    first = 0
    for batch in content.batches():
        for name, array in arrays.items():
            array[first : first + len(batch[name])] = batch[name]
        first += len(batch[content.specs[0].name])
    return ArrayContainer(
        Origin("memory", classes=content.classes), content.specs, {n: DenseField(a) for n, a in arrays.items()}
    )


def common_spec(name: str, arrays: Sequence[np.ndarray]) -> TensorSpec:
    """What arrays have in common; a size that differs gets a name.

    Raises:
        InvalidArgument: None at all, or of different types or ranks.

    Example:
        >>> print(common_spec("x", [np.zeros((2, 3)), np.zeros((5, 3))]))
        x: float64[x_0, 3]
    """
    kinds = {(array.dtype, array.ndim) for array in arrays}
    if len(kinds) != 1:
        raise InvalidArgument(f"{name}: {len(kinds)} types or ranks", "arrays of one type and rank, at least one")
    sizes = [set(column) for column in zip(*(array.shape for array in arrays), strict=True)]
    shape = tuple(next(iter(size)) if len(size) == 1 else f"{name}_{axis}" for axis, size in enumerate(sizes))
    return TensorSpec(name, shape, arrays[0].dtype)


def same_counts(counts: Mapping[str, int], place: Path | None = None) -> None:
    """See that all fields have as many samples.

    Raises:
        InvalidArgument: They have not, or there are none; `InvalidData` where they come from files.
    """
    if len(set(counts.values())) != 1:
        listing = ", ".join(f"{name} {count}" for name, count in counts.items()) or "no arrays"
        error = InvalidArgument if place is None else InvalidData
        raise error(f"{place}: {listing}" if place else listing, "at least one array, all with the same number of samples")


def check_batch(specs: Sequence[TensorSpec], batch: Mapping[str, np.ndarray], first: int, count: int) -> None:
    """See that a set gives what it promises.

    Raises:
        InvalidData: Other fields, types or sizes.
    """
    for spec in specs:
        whole = TensorSpec(spec.name, (count, *spec.shape), spec.dtype)
        if spec.name not in batch or not fits(whole, batch[spec.name]):
            array = batch.get(spec.name)
            description = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise InvalidData(f"{spec.name} of samples {first} to {first + count - 1} is {description}", str(whole))
