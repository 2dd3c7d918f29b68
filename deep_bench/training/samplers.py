"""Which samples come in which order: all are `Sampler`, pure in (seed, epoch).

Those that promise each sample once keep it in every epoch; none needs more memory than some numbers for each sample.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.training.dataset import Dataset, labels_of, lengths_of

__all__ = ["Bucketed", "Infinite", "Sequential", "Shuffled", "Stratified", "Weighted", "WithReplacement"]


@runtime_checkable
class Sampler(Protocol):
    """The batches of an epoch, as numbers of samples.

    Pure in its arguments and the number of the epoch: any epoch can be replayed, and a run resumed in its middle.
    """

    def __len__(self) -> int:
        """The number of batches in an epoch."""

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The numbers of the samples in each batch of an epoch, which are counted from 0."""


_ORDER = 0
"""Sets the samplers' stream apart from others that are drawn from the same seed."""


def generator(seed: int, epoch: int) -> np.random.Generator:
    """The generator of one epoch's order.

    Raises:
        InvalidArgument: A negative seed or epoch, or one that is no integer.

    Example:
        >>> int(generator(0, 3).integers(100)) == int(generator(0, 3).integers(100))
        True

    Source:
        O'Neill, *PCG: A family of simple fast space-efficient statistically good algorithms for random number
        generation*, 2014; the seed is spread by NumPy's ``SeedSequence``.
    """
    key = (_ORDER, natural("epoch", epoch))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(natural("seed", seed), spawn_key=key)))


def natural(what: str, value: Any, least: int = 0) -> int:
    """An integer argument that may not be less than ``least``.

    Raises:
        InvalidArgument: It is less, or no integer.

    Example:
        >>> natural("seed", np.int64(3))
        3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise InvalidArgument(f"{what} {value!r}", f"an integer of at least {least}")
    return number


def count_of(samples: Sized | int) -> int:
    """The number of samples of a set, or that number itself.

    Raises:
        InvalidArgument: There is none.
    """
    return natural("the number of samples", len(samples) if isinstance(samples, Sized) else samples, least=1)


@dataclass(frozen=True, slots=True)
class BatchCut:
    """How an order of ``count`` samples is cut into batches.

    Args:
        count: The number of samples in an epoch.
        size: The number of samples in a batch.
        drop_last: Leave out the last batch if it is smaller than the others.

    Raises:
        InvalidArgument: A size below 1, or one that leaves no batch at all.

    Example:
        >>> [batch.tolist() for batch in BatchCut(5, 2)(np.arange(5))]
        [[0, 1], [2, 3], [4]]
        >>> len(BatchCut(5, 2, drop_last=True))
        2
    """

    count: int
    size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        natural("batch_size", self.size, least=1)
        if not len(self):
            came = f"batches of {self.size} from {self.count} samples, with drop_last: none is left"
            raise InvalidArgument(came, f"a batch_size of at most {self.count}", "or keep the last batch: drop_last=False")

    def __len__(self) -> int:
        return self.kept // self.size + (self.kept % self.size > 0)

    @property
    def kept(self) -> int:
        """The number of samples that come in an epoch."""
        return self.count - self.count % self.size if self.drop_last else self.count

    def __call__(self, order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The batches of an order; what would be dropped is not looked at."""
        return (order[start : min(start + self.size, self.kept)] for start in range(0, self.kept, self.size))

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"batch_size": self.size, "drop_last": self.drop_last}


class Sequential:
    """Every sample once, in the order of the set; the same in every epoch.

    Args:
        samples: The set, or its number of samples.
        batch_size: Samples in a batch.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: No samples, or no batch is left.

    Example:
        >>> [batch.tolist() for batch in Sequential(5, batch_size=2).epoch(0)]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, samples: Sized | int, batch_size: int, *, drop_last: bool = False) -> None:
        self._cut = BatchCut(count_of(samples), batch_size, drop_last)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cut)

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        natural("epoch", number)
        return self._cut(np.arange(self._cut.count))

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "sequential", **self._cut.facts()}


class Shuffled:
    """Every sample once, in an order drawn anew in every epoch, all orders being equally likely.

    With ``drop_last``, other samples are left out in each epoch.

    Args:
        samples: The set, or its number of samples.
        batch_size: Samples in a batch.
        seed: With the number of the epoch, it decides the order.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: No samples, no batch is left, or a negative seed.

    Example:
        >>> sampler = Shuffled(6, batch_size=3, seed=1)
        >>> sorted(np.concatenate(list(sampler.epoch(0))).tolist())
        [0, 1, 2, 3, 4, 5]
        >>> all((a == b).all() for a, b in zip(sampler.epoch(7), sampler.epoch(7), strict=True))
        True
    """

    def __init__(self, samples: Sized | int, batch_size: int, *, seed: int = 0, drop_last: bool = False) -> None:
        self._cut = BatchCut(count_of(samples), batch_size, drop_last)
        self._seed = natural("seed", seed)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cut)

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        return self._cut(generator(self._seed, number).permutation(self._cut.count))

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "shuffled", **self._cut.facts(), "seed": self._seed}


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
        self._cut = BatchCut(count_of(labels), batch_size, drop_last)
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
        self._cut = BatchCut(count_of(self._lengths), batch_size, drop_last)
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
        self._cut = BatchCut(self._count if per_epoch is None else natural("per_epoch", per_epoch, 1), batch_size, drop_last)
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
        self._cut = BatchCut(array.size if per_epoch is None else natural("per_epoch", per_epoch, 1), batch_size, drop_last)
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


class Infinite:
    """The epochs of another sampler one after another, cut elsewhere or not at all.

    With ``batches``, epoch ``k`` is batches ``k * batches`` up to ``(k + 1) * batches`` of that stream: for training that is
    evaluated every so many batches. Without, an epoch never ends, and starts with the other sampler's epoch of that number.

    Args:
        sampler: Where the batches come from.
        batches: Batches in an epoch; ``None`` for no end.

    Raises:
        InvalidArgument: Less than one batch.

    Example:
        >>> from deep_bench.training.samplers import Sequential
        >>> stream = Infinite(Sequential(3, batch_size=2), batches=3)
        >>> [batch.tolist() for batch in stream.epoch(1)]
        [[2], [0, 1], [2]]
    """

    def __init__(self, sampler: Sampler, batches: int | None = None) -> None:
        self._sampler = sampler
        self._batches = None if batches is None else natural("batches", batches, least=1)

    def __len__(self) -> int:
        """The number of batches in an epoch.

        Raises:
            Unsupported: It has no end.
        """
        if self._batches is None:
            raise Unsupported("an epoch without end has no length", advice="Infinite(sampler, batches=…) ends after so many")
        return self._batches

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        natural("epoch", number)
        if self._batches is None:
            return self._from(number, 0)
        begun, passed = divmod(number * self._batches, len(self._sampler))
        return islice(self._from(begun, passed), self._batches)

    def _from(self, epoch: int, passed: int) -> Iterator[NDArray[np.int64]]:
        yield from islice(self._sampler.epoch(epoch), passed, None)
        for later in count(epoch + 1):
            yield from self._sampler.epoch(later)

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        inner: dict[str, Any] = getattr(self._sampler, "facts", dict)()
        return {"sampler": "infinite", "batches": self._batches, "of": inner}
