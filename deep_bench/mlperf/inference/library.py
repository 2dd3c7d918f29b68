"""``Library``: the samples of a data set, loaded and unloaded as LoadGen asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.framework import fits
from deep_bench.graph import Network
from deep_bench.mlperf.inference.faults import RunFailed
from deep_bench.training.dataset import Dataset

_AT_ONCE = 1024


class Library:
    """LoadGen's *query sample library*: only loaded samples are in memory, and only these may be asked for.

    Args:
        dataset: The samples.
        network: What they are fed to: each of its inputs is an array of the data set, by name.

    Raises:
        InvalidArgument: An input that the data set does not have, or of another type or shape.

    Example:
        >>> import deep_bench as db
        >>> library = Library(db.datasets["digits"]("test"), db.load("digits-cnn"))
        >>> library.load([3, 5])
        >>> library.gather([5, 3, 5])["image"].shape, library.loaded
        ((3, 1, 8, 8), 2)
    """

    def __init__(self, dataset: Dataset, network: Network) -> None:
        self._dataset = dataset
        self._names = tuple(spec.name for spec in network.inputs)
        _check(dataset, network)
        self._stacks: dict[str, np.ndarray] = {}
        self._rows: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._dataset)

    @property
    def loaded(self) -> int:
        """How many samples are in memory."""
        return len(self._rows)

    def load(self, indices: Sequence[int]) -> None:
        """Bring samples into memory, in the place of those there.

        Raises:
            InvalidData: A sample that cannot be read.
        """
        numbers = np.unique(np.asarray(indices, np.int64))
        parts = [self._dataset[numbers[start : start + _AT_ONCE]] for start in range(0, len(numbers), _AT_ONCE)]
        self._stacks = {name: np.concatenate([part[name] for part in parts]) for name in self._names} if parts else {}
        self._rows = dict(zip(numbers.tolist(), range(len(numbers)), strict=True))

    def unload(self, indices: Sequence[int]) -> None:
        """Let samples go."""
        for index in indices:
            self._rows.pop(index, None)
        if not self._rows:
            self._stacks = {}

    def gather(self, indices: Sequence[int]) -> dict[str, np.ndarray]:
        """Loaded samples, stacked in this order; fresh arrays.

        Raises:
            RunFailed: A sample that is not loaded.
        """
        rows = self._rows_of(indices)
        return {name: stack[rows] for name, stack in self._stacks.items()}

    def fill(self, buffers: dict[str, np.ndarray], indices: Sequence[int]) -> None:
        """Copy loaded samples into the first rows of arrays, and the last of them into the rest.

        Raises:
            RunFailed: A sample that is not loaded.
        """
        rows = self._rows_of(indices)
        for name, buffer in buffers.items():
            stack = self._stacks[name]
            np.take(stack, rows, axis=0, out=buffer[: len(rows)])
            buffer[len(rows) :] = stack[rows[-1]]

    def _rows_of(self, indices: Sequence[int]) -> list[int]:
        try:
            return [self._rows[index] for index in indices]
        except KeyError as error:
            raise RunFailed(f"sample {error.args[0]}, which is not loaded", "one of the loaded samples") from None


def _check(dataset: Dataset, network: Network) -> None:
    if not len(dataset):
        raise InvalidData("a data set without samples", "at least one")
    first = dataset[np.zeros(1, np.int64)]  # what it gives, which preparation may have made another type
    for spec in network.inputs:
        sample = first.get(spec.name)
        if sample is None:
            came = f"the data set has no array {spec.name!r} for the input {spec}"
            available = ", ".join(f"{name}: {array.dtype}{list(array.shape[1:])}" for name, array in first.items())
            raise InvalidArgument(came, f"one of its arrays: {available}", "name the network's inputs as the data set does")
        fitting = spec.rank >= 1 and fits(replace(spec, shape=spec.shape[1:]), sample.shape[1:], {})
        if sample.dtype != spec.dtype or not fitting:
            came = f"samples of {spec.name}: {sample.dtype}{list(sample.shape[1:])} for the input {spec}"
            advice = "prepare them: --dataset recipe:NAME takes the samples that a recipe holds out, as it prepares them"
            raise InvalidArgument(came, "arrays of its type, and of its shape but the batch", advice)
