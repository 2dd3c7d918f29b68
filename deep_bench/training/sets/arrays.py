"""A set whose samples are the rows of arrays, in memory or mapped from files."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_bench.errors import InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.dataset import checked_numbers
from deep_bench.training.sets.description import Description


class ArrayDataset:
    """Arrays of equal length; sample ``i`` is row ``i`` of each.

    An array that is mapped from a file (``np.load(path, mmap_mode="r")``) stays there: it is read when samples are, and a
    copy of the set in another process maps the same file.

    Args:
        arrays: Name to array. One called ``label``, of integers, gives the classes.
        description: Where the data come from.
        lengths: The length of each sample, where samples are padded to one shape.

    Raises:
        InvalidData: No array, one without rows to count, or unequal lengths.

    Example:
        >>> points = ArrayDataset({"x": np.eye(3, dtype=np.float32), "label": np.array([0, 1, 1])})
        >>> points[[2, 0]]["x"].tolist(), points.labels.tolist()
        ([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [0, 1, 1])
    """

    def __init__(
        self, arrays: Mapping[str, ArrayLike], *, description: Description | None = None, lengths: ArrayLike | None = None
    ) -> None:
        inputs = {name: np.asanyarray(array) for name, array in arrays.items()}
        counts = {name: array.shape[0] if array.ndim else None for name, array in inputs.items()}
        if len(set(counts.values())) != 1 or None in counts.values():
            shapes = ", ".join(f"{name} {array.shape}" for name, array in inputs.items()) or "no array"
            raise InvalidData(f"arrays that are no samples: {shapes}", "at least one array, all of as many rows")
        self.description = description or Description("arrays")
        self._given = inputs
        self._rows = {name: np.asarray(array) for name, array in inputs.items()}  # rows of a memmap would be memmaps
        self._count = next(iter(self._rows.values())).shape[0]
        self._lengths = lengths

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample."""
        return tuple(TensorSpec(name, array.shape[1:], array.dtype) for name, array in self._rows.items())

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The class of each sample, where there is an array ``label`` of one integer each."""
        labels = self._rows.get("label")
        return labels.astype(np.int64) if labels is not None and labels.ndim == 1 and labels.dtype.kind in "iu" else None

    @property
    def lengths(self) -> NDArray[np.int64] | None:
        """The length of each sample, where it was given."""
        return None if self._lengths is None else np.asarray(self._lengths)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers; fresh arrays.

        Raises:
            InvalidArgument: A number beyond the set.
        """
        numbers = checked_numbers(indices, self._count, repr(self.description.name))
        return {name: array.take(numbers, axis=0) for name, array in self._rows.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = {name: _Mapped.of(array) or array for name, array in self._given.items()}
        return _again, (arrays, self.description, self._lengths)


Order = Literal["C", "F"]


class _Mapped:
    """A whole mapped file, as it travels to another process."""

    def __init__(self, path: Path, dtype: np.dtype, offset: int, shape: tuple[int, ...], order: Order) -> None:
        self._path, self._dtype, self._offset, self._shape, self._order = path, dtype, offset, shape, order

    @classmethod
    def of(cls, array: np.ndarray) -> _Mapped | None:
        """``None`` for what is in memory, or only a part of what was mapped."""
        if not isinstance(array, np.memmap) or not isinstance(array.base, mmap.mmap) or array.filename is None:
            return None
        order: Order = "C" if array.flags.c_contiguous else "F"
        return cls(Path(array.filename), array.dtype, array.offset, array.shape, order)

    def open(self) -> np.ndarray:
        return np.memmap(self._path, self._dtype, "r", self._offset, self._shape, self._order)


def _again(arrays: Mapping[str, Any], description: Description, lengths: ArrayLike | None) -> ArrayDataset:
    opened = {name: array.open() if isinstance(array, _Mapped) else array for name, array in arrays.items()}
    return ArrayDataset(opened, description=description, lengths=lengths)
