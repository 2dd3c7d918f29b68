"""Samples drawn with replacement: some come several times in an epoch, others not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.training.samplers.batches import Cut, count_of
from deep_bench.training.samplers.draws import generator, natural


class WithReplacement:
    """Each sample is drawn from the whole set, all being equally likely.

    Args:
        samples: The set, or its number of samples.
        batch_size: Samples in a batch.
        per_epoch: Samples in an epoch; by default as many as the set has.
        seed: With the number of the epoch, it decides what is drawn.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: No samples, no batch is left, or a negative seed.

    Example:
        >>> [batch.shape for batch in WithReplacement(3, batch_size=4, per_epoch=10).epoch(0)]
        [(4,), (4,), (2,)]
    """

    def __init__(
        self, samples: Sized | int, batch_size: int, *, per_epoch: int | None = None, seed: int = 0, drop_last: bool = False
    ) -> None:
        self._count = count_of(samples)
        self._cut = Cut(self._count if per_epoch is None else natural("per_epoch", per_epoch, 1), batch_size, drop_last)
        self._seed = natural("seed", seed)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cut)

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        return self._cut(generator(self._seed, number).integers(self._count, size=self._cut.count))

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "with-replacement", **self._cut.facts(), "per_epoch": self._cut.count, "seed": self._seed}


class Weighted:
    r"""Each sample is drawn from the whole set, sample ``i`` with probability :math:`w_i / \sum_j w_j`.

    Args:
        weights: One finite, non-negative weight for each sample of the set.
        batch_size: Samples in a batch.
        per_epoch: Samples in an epoch; by default as many as the set has.
        seed: With the number of the epoch, it decides what is drawn.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: No weights, all zero, negative or not finite ones, no batch is left, or a negative seed.

    Example:
        >>> np.unique(np.concatenate(list(Weighted([0, 1, 0, 3], batch_size=50, per_epoch=50).epoch(0)))).tolist()
        [1, 3]
    """

    def __init__(
        self, weights: ArrayLike, batch_size: int, *, per_epoch: int | None = None, seed: int = 0, drop_last: bool = False
    ) -> None:
        array = np.asarray(weights, np.float64)
        usable = array.ndim == 1 and array.size and np.isfinite(array).all() and (array >= 0).all() and array.any()
        if not usable:
            raise InvalidArgument(
                f"weights {array!r}", "one finite weight for each sample, none of them negative, some of them positive"
            )
        self._up_to = np.cumsum(array)
        self._cut = Cut(array.size if per_epoch is None else natural("per_epoch", per_epoch, 1), batch_size, drop_last)
        self._seed = natural("seed", seed)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cut)

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        at = generator(self._seed, number).random(self._cut.count) * self._up_to[-1]
        # Rounding may bring a draw up to the total itself, which lies behind the last sample.
        last = int(np.searchsorted(self._up_to, self._up_to[-1], side="left"))
        return self._cut(np.minimum(np.searchsorted(self._up_to, at, side="right"), last))

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        weights = hashlib.sha256(self._up_to.tobytes()).hexdigest()
        facts = {**self._cut.facts(), "per_epoch": self._cut.count, "seed": self._seed}
        return {"sampler": "weighted", **facts, "weights_sha256": weights}
