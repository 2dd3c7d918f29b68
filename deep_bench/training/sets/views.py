"""Sets made from another set: some of its samples, or all of them changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.dataset import Dataset, checked_numbers, labels_of, lengths_of, where_is
from deep_bench.training.samplers import Shuffled, Stratified
from deep_bench.training.sets.description import Description, description_of


class Subset:
    """Some samples of a set, in a chosen order; a sample may come twice.

    Args:
        dataset: The set.
        numbers: The numbers of the samples in it.
        name: What the part is called, after the name of the set; by default how many it has.

    Raises:
        InvalidArgument: A number beyond the set.

    Example:
        >>> import deep_bench as db
        >>> few = Subset(db.datasets["digits"](), [5, 7], "few")
        >>> few[[1]]["label"].tolist(), few.description.name
        ([7], 'digits/all/few')
    """

    def __init__(self, dataset: Dataset, numbers: Any, name: str | None = None) -> None:
        whole = description_of(dataset)
        self._dataset = dataset
        self._numbers = checked_numbers(numbers, len(dataset), repr(whole.name))
        self.description = replace(whole, name=f"{whole.name}/{name or f'{len(self._numbers)} of {len(dataset)}'}")

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample."""
        return self._dataset.specs

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample.

        Raises:
            Unsupported: The whole set has no classes.
        """
        return labels_of(self._dataset)[self._numbers]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sample.

        Raises:
            Unsupported: The whole set does not know them.
        """
        return lengths_of(self._dataset)[self._numbers]

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the part.
            InvalidData: A sample that cannot be read.
        """
        return self._dataset[self._numbers[checked_numbers(indices, len(self), repr(self.description.name))]]

    def where(self, number: int) -> str | None:
        """Where a sample lies."""
        return where_is(self._dataset, int(self._numbers[number]))


class Described:
    """A set as it is, with the description of where it comes from.

    Args:
        dataset: The set.
        description: Where it comes from.

    Example:
        >>> import deep_bench as db
        >>> Described(db.datasets["digits"](), Description("mine")).description.name
        'mine'
    """

    def __init__(self, dataset: Dataset, description: Description) -> None:
        self._dataset = dataset
        self.description = description

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample."""
        return self._dataset.specs

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample.

        Raises:
            Unsupported: The set has no classes.
        """
        return labels_of(self._dataset)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sample.

        Raises:
            Unsupported: The set does not know them.
        """
        return lengths_of(self._dataset)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read.
        """
        return self._dataset[checked_numbers(indices, len(self), repr(self.description.name))]

    def where(self, number: int) -> str | None:
        """Where a sample lies."""
        return where_is(self._dataset, number)


class Mapped:
    """All samples of a set, changed by a function of a batch.

    Args:
        dataset: The set.
        change: From a batch (name to stacked arrays) to another with as many samples; each sample may depend on itself only.
            To be read in other processes, it must be importable.
        name: What was done, after the name of the set.

    Raises:
        InvalidArgument: The set is empty, so that what comes out cannot be found.
        InvalidData: What comes out is no array by name.

    Example:
        >>> import deep_bench as db
        >>> inverted = Mapped(db.datasets["digits"](), lambda batch: {"image": 1 - batch["image"]}, "inverted")
        >>> print(*inverted.specs)
        image: float32[1, 8, 8]
    """

    def __init__(
        self, dataset: Dataset, change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]], name: str = "changed"
    ) -> None:
        whole = description_of(dataset)
        if not len(dataset):
            raise InvalidArgument(f"the empty set {whole.name!r} to change", "a set with samples")
        self._dataset = dataset
        self._change = change
        self.description: Description = replace(whole, name=f"{whole.name}/{name}")
        self.specs = specs_of(change(dataset[np.zeros(1, np.int64)]))

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, indices: Any) -> dict[str, np.ndarray]:
        """The samples of these numbers.

        Raises:
            InvalidArgument: A number beyond the set.
            InvalidData: A sample that cannot be read.
        """
        return self._change(self._dataset[checked_numbers(indices, len(self), repr(self.description.name))])

    def where(self, number: int) -> str | None:
        """Where a sample lies."""
        return where_is(self._dataset, number)


def specs_of(batch: Mapping[str, np.ndarray]) -> tuple[TensorSpec, ...]:
    """The arrays of one sample of a batch.

    Raises:
        InvalidData: It is no array by name.

    Example:
        >>> print(*specs_of({"x": np.zeros((5, 2))}))
        x: float64[2]
    """
    if not isinstance(batch, Mapping) or not all(isinstance(array, np.ndarray) for array in batch.values()):
        raise InvalidData(f"a {type(batch).__name__} as a batch", "a dict: name to a NumPy array whose rows are the samples")
    return tuple(TensorSpec(name, array.shape[1:], array.dtype) for name, array in batch.items())


def split(dataset: Dataset, parts: Mapping[str, float], *, seed: int = 0, stratified: bool = True) -> dict[str, Subset]:
    """A set cut into parts at random, each sample in exactly one.

    Args:
        dataset: The set.
        parts: Name to share; the shares sum to 1.
        seed: Decides which sample goes where.
        stratified: Each class has nearly the same share in each part (`Stratified` says how nearly).

    Returns:
        Name to part. Samples keep the order they have in the set.

    Raises:
        InvalidArgument: Shares that are not positive or do not sum to 1, or a part that would be empty.
        Unsupported: ``stratified``, and the set has no classes.

    Example:
        >>> import deep_bench as db
        >>> parts = split(db.datasets["digits"](), {"train": 0.9, "test": 0.1}, seed=1)
        >>> len(parts["train"]), len(parts["test"]), parts["test"].description.name
        (1617, 180, 'digits/all/test')
    """
    shares = np.array(list(parts.values()), np.float64)
    if not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
        raise InvalidArgument(f"parts {dict(parts)!r}", "positive shares that sum to 1")
    ends = np.rint(np.cumsum(shares) * len(dataset)).astype(np.int64)
    sizes = np.diff(ends, prepend=0)
    if (sizes < 1).any():
        empty = list(parts)[int(np.argmin(sizes))]
        raise InvalidArgument(f"part {empty!r} of {len(dataset)} samples has none", "at least one sample in each part")
    everything = len(dataset)
    kind = Stratified(dataset, everything, seed=seed) if stratified else Shuffled(everything, everything, seed=seed)
    order = next(iter(kind.epoch(0)))
    pieces = zip(parts, np.split(order, ends[:-1]), strict=True)
    return {name: Subset(dataset, np.sort(piece), name) for name, piece in pieces}
