"""One batch, read and prepared; the same wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidData
from deep_bench.training.dataset import BadSample, Dataset, checked_numbers, where_is

Batch = dict[str, np.ndarray]
Prepare = Callable[[Batch, NDArray[np.int64], int], Batch]
"""From a batch, the numbers of its samples and the number of the epoch to what is made of it."""

_BATCH = "a dict: name to a NumPy array whose rows are the samples"
_AS_A_SET = "make one of arrays: ArrayDataset({'x': …, 'label': …})"


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads the samples of these numbers and prepares them.

    Raises:
        InvalidArgument: A list of samples in place of a set.
    """

    dataset: Dataset
    preparation: Prepare | None = None

    def __post_init__(self) -> None:
        if isinstance(self.dataset, list | tuple):
            came = f"a {type(self.dataset).__name__} as a set of samples"
            raise InvalidArgument(came, "a set that gives many samples at once, by name", _AS_A_SET)

    def __call__(self, epoch: int, numbers: NDArray[np.int64]) -> Batch:
        """The batch.

        Raises:
            InvalidArgument: The sampler gave a number that no sample has.
            InvalidData: A sample that cannot be read, or a batch that is no array by name with one row for each sample.
        """
        numbers = checked_numbers(numbers, len(self.dataset), self._set)
        try:
            batch = self.dataset[numbers]
        except DeepBenchError:
            raise
        except Exception as error:
            raise self._named(numbers, error) from error
        if not isinstance(batch, Mapping):
            raise InvalidData(f"{self._set}: a {type(batch).__name__} for the samples {shown(numbers)}", _BATCH, _AS_A_SET)
        for name, array in batch.items():
            if not isinstance(array, np.ndarray):
                came = f"{self._set}: {name!r} is a {type(array).__name__} for the samples {shown(numbers)}"
                raise InvalidData(came, _BATCH, "stack the samples: np.stack(…)")
            if not array.ndim or len(array) != len(numbers):
                came = f"{self._set}: {name!r} of shape {array.shape} for the samples {shown(numbers)}"
                raise InvalidData(came, f"{len(numbers)} rows, one for each sample")
        if self.preparation is None:
            return batch
        try:
            return self.preparation(batch, numbers, epoch)
        except BadSample as error:
            place = where_is(self.dataset, error.sample)
            if place is None:
                raise
            raise InvalidData(f"{error.came} ({place})", error.expected, error.advice) from error

    def _named(self, numbers: NDArray[np.int64], error: Exception) -> DeepBenchError:
        """The error with the first sample that cannot be read alone, if there is one."""
        for number in numbers:
            try:
                self.dataset[np.array([number])]
            except DeepBenchError as failure:
                return failure
            except Exception as alone:
                return InvalidData(f"sample {number} of {self._set} cannot be read: {_worded(alone)}")
        return InvalidData(f"the samples {shown(numbers)} of {self._set} cannot be read together: {_worded(error)}")

    @property
    def _set(self) -> str:
        description: Any = getattr(self.dataset, "description", None)
        return repr(description.name) if description else f"the {type(self.dataset).__name__}"


def _worded(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def shown(numbers: NDArray[np.int64]) -> str:
    """The numbers of a batch, those in the middle left out if there are many."""
    return np.array2string(numbers, threshold=8, edgeitems=3, separator=", ")
