"""Every sample once, where what is in a batch depends on the samples: on their classes, or on their lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.training.dataset import Dataset, labels_of, lengths_of
from deep_bench.training.samplers.batches import Cut, count_of
from deep_bench.training.samplers.draws import generator, natural


class Stratified:
    r"""Every sample once, each class spread evenly over the epoch.

    The :math:`n_c` samples of class ``c`` are shuffled and put at the places :math:`(i + u_c) / n_c` of the epoch, with
    :math:`u_c` uniform in [0, 1). So a batch of :math:`B` samples has :math:`p_c B` of a class with share :math:`p_c`,
    give or take :math:`1 + p_c C`, where :math:`C` is the number of classes.

    Args:
        samples: The set, or the class of each sample.
        batch_size: Samples in a batch.
        seed: With the number of the epoch, it decides the order.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: No samples, no batch is left, or a negative seed.
        Unsupported: The set has no classes.

    Example:
        >>> labels = np.repeat([0, 1], [30, 10])
        >>> [int(labels[batch].sum()) for batch in Stratified(labels, batch_size=20).epoch(0)]
        [5, 5]
    """

    def __init__(self, samples: Dataset | ArrayLike, batch_size: int, *, seed: int = 0, drop_last: bool = False) -> None:
        labels = labels_of(samples) if isinstance(samples, Dataset) else _integers("classes", samples)
        self._cut = Cut(count_of(labels), batch_size, drop_last)
        self._seed = natural("seed", seed)
        _, self._class, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        self._sizes = sizes
        self._starts = np.cumsum(sizes) - sizes

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cut)

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        draws = generator(self._seed, number)
        mixed = draws.permutation(self._cut.count)
        by_class = mixed[np.argsort(self._class[mixed], kind="stable")]
        classes = self._class[by_class]
        rank = np.arange(self._cut.count) - self._starts[classes]
        place = (rank + draws.random(self._sizes.size)[classes]) / self._sizes[classes]
        return self._cut(by_class[np.argsort(place, kind="stable")])

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "stratified", **self._cut.facts(), "seed": self._seed, "classes": int(self._sizes.size)}


class Bucketed:
    """Every sample once, in batches of similar length, so that little is padded.

    The samples are shuffled and cut into pools; each pool is sorted by length and cut into batches, which are shuffled.
    With ``drop_last``, samples are left out before lengths are looked at, so that no length is favoured.

    Args:
        samples: The set, or the length of each sample.
        batch_size: Samples in a batch.
        pool: Batches in a pool. The more, the closer the lengths in a batch, and the less is left to chance.
        seed: With the number of the epoch, it decides the order.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: No samples, no batch is left, a pool below 1, or a negative seed.
        Unsupported: The set does not know its samples' lengths.

    Example:
        >>> lengths = np.array([9, 1, 8, 2, 9, 1])
        >>> sorted(sorted(lengths[batch].tolist()) for batch in Bucketed(lengths, batch_size=2).epoch(0))
        [[1, 1], [2, 8], [9, 9]]
    """

    def __init__(
        self, samples: Dataset | ArrayLike, batch_size: int, *, pool: int = 100, seed: int = 0, drop_last: bool = False
    ) -> None:
        self._lengths = lengths_of(samples) if isinstance(samples, Dataset) else _integers("lengths", samples)
        self._cut = Cut(count_of(self._lengths), batch_size, drop_last)
        self._pool = natural("pool", pool, least=1)
        self._seed = natural("seed", seed)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cut)

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        draws = generator(self._seed, number)
        mixed = draws.permutation(self._cut.count)[: self._cut.kept]
        pools = np.arange(mixed.size) // (self._pool * self._cut.size)
        order = mixed[np.lexsort((self._lengths[mixed], pools))]
        batches = draws.permutation(len(self))
        return (order[b * self._cut.size : (b + 1) * self._cut.size] for b in batches.tolist())

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "bucketed", **self._cut.facts(), "pool": self._pool, "seed": self._seed}


def _integers(subject: str, values: Any) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgument(f"{subject} of shape {array.shape} and type {array.dtype}", "one integer for each sample")
    return array.astype(np.int64, copy=False)
