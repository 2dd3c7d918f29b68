"""Which rank trains on which samples, and its part of the random numbers that are drawn for a whole batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import InvalidArgument
from deep_bench.training.form import TrainingForm
from deep_bench.training.samplers import BatchCut, Sampler, count_of, generator, natural

T = TypeVar("T")

Batch = NDArray[np.int64]


def check_ranks(rank: int, size: int) -> None:
    """Whether there is such a rank.

    Raises:
        InvalidArgument: There is not.
    """
    natural("the number of ranks", size, least=1)
    if natural("rank", rank) >= size:
        raise InvalidArgument(f"rank {rank} of {size}", f"0 to {size - 1}")


def bounds(count: int, size: int) -> list[int]:
    """Where ``count`` things are cut into ``size`` parts whose lengths differ by at most one.

    Example:
        >>> bounds(10, 4)
        [0, 2, 5, 7, 10]
    """
    return [count * rank // size for rank in range(size + 1)]


class Sharded:
    """Each rank's part of every batch of a sampler: all ranks together train on what one process would.

    A batch is cut into parts whose lengths differ by at most one. What is left over at the end of an epoch may be fewer
    samples than ranks; that batch is joined to the one before it, or behind it where it comes first, so that no rank is ever
    without samples and every sample that the sampler gives in an epoch comes exactly once. `remarks` tells of it. Batches
    that are smaller than the number of ranks by their size would make another training of it, and are refused.

    Args:
        sampler: The whole batches; the same on all ranks.
        rank: This one.
        size: The number of ranks.

    Raises:
        InvalidArgument: No such rank; and at the latest in an epoch, that it has fewer samples than there are ranks, or more
            than one batch of fewer.

    Example:
        >>> from deep_bench.training.samplers import Sequential
        >>> [[part.tolist() for part in Sharded(Sequential(7, batch_size=3), r, 2).epoch(0)] for r in range(2)]
        [[[0], [3, 4]], [[1, 2], [5, 6]]]
    """

    def __init__(self, sampler: Sampler, rank: int, size: int) -> None:
        check_ranks(rank, size)
        self._sampler, self._rank, self._size = sampler, rank, size
        self._length: int | None = None

    def __len__(self) -> int:
        """The number of batches in an epoch (the first one; those of unequal lengths may be joined differently later)."""
        if self._length is None:
            whole = len(self._sampler)
            self._length = whole if self._size == 1 else sum(1 for _ in self.whole(0))
        return self._length

    def epoch(self, number: int) -> Iterator[Batch]:
        """This rank's part of each batch of an epoch."""
        for batch in self.whole(number):
            begin, end = bounds(len(batch), self._size)[self._rank : self._rank + 2]
            yield batch[begin:end]

    def whole(self, number: int) -> Iterator[Batch]:
        """The batches of all ranks together."""
        ready: Batch | None = None
        short: Batch | None = None
        for batch in self._sampler.epoch(number):
            if len(batch) < self._size:
                if short is not None:
                    raise self._too_small(max(len(short), len(batch)))
                short = batch
                ready = batch if ready is None else np.concatenate([ready, batch])
            elif ready is not None and len(ready) < self._size:
                ready = np.concatenate([ready, batch])
            else:
                if ready is not None:
                    yield ready
                ready = batch
        if ready is None or len(ready) < self._size:
            raise InvalidArgument(
                f"an epoch of {0 if ready is None else len(ready)} samples for {self._size} ranks",
                "at least one for each rank",
                "take fewer ranks, or more samples",
            )
        yield ready

    def remarks(self) -> list[str]:
        """What is not as in a single process, in words; of the first epoch.

        Raises:
            InvalidArgument: See the class.
        """
        if self._size == 1:
            return []
        fewest = min((len(batch) for batch in self._sampler.epoch(0)), default=0)
        joined = len(self)
        if fewest >= self._size:
            return []
        return [
            f"one batch of an epoch has {fewest} samples for {self._size} ranks: it is joined to its neighbour, which makes "
            f"{joined} batches of {joined + 1}"
        ]

    def _too_small(self, samples: int) -> InvalidArgument:
        return InvalidArgument(
            f"batches of {samples} sample{'s' * (samples != 1)} for {self._size} ranks",
            "at least one sample for each rank: joined batches would be another training",
            f"start at most {samples} rank{'s' * (samples != 1)} that train; or take larger batches (sampler.batch="
            f"{self._size}), as many for each rank (--scaling weak), or all of them on all ranks (--samples replicated)",
        )

    def of(self, rank: int) -> Sharded:
        """That of another rank."""
        return Sharded(self._sampler, rank, self._size)

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it: the number of ranks is no part of it, as it changes nothing of the whole batches."""
        inner: dict[str, Any] = getattr(self._sampler, "facts", dict)()
        seed = {"seed": inner["seed"]} if "seed" in inner else {}
        return {"sampler": "sharded", "of": inner, **seed}


class Replicated:
    """Every rank has the whole of every batch of a sampler: for ranks that are to compute the same.

    Args:
        sampler: The batches.

    Example:
        >>> from deep_bench.training.samplers import Sequential
        >>> [batch.tolist() for batch in Replicated(Sequential(3, batch_size=2)).epoch(0)]
        [[0, 1], [2]]
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._sampler)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch."""
        return self._sampler.epoch(number)

    def of(self, rank: int) -> Replicated:
        """That of another rank: the same."""
        del rank
        return self

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "replicated", "of": getattr(self._sampler, "facts", dict)()}


class Reshuffled:
    """Each rank has a part of the set to itself for an epoch, and shuffles it; which part is drawn anew in every epoch.

    Every sample comes exactly once in an epoch, and all ranks have equally many batches: each part is cut into as many as
    ``batch_size`` needs for the longest one, evenly. So their lengths differ by at most one, between ranks as well.

    Args:
        samples: The set, or its number of samples.
        batch_size: Samples in a batch of all ranks together, at most; where ranks have one each, some may have two.
        rank: This one.
        size: The number of ranks.
        seed: With the number of the epoch, it decides the order.
        drop_last: Leave out, in each epoch others, what fills no whole batch.

    Raises:
        InvalidArgument: Fewer samples, or smaller batches, than ranks; or what `Shuffled` refuses.

    Example:
        >>> parts = [[p.tolist() for p in Reshuffled(7, batch_size=4, rank=r, size=2, seed=1).epoch(0)] for r in range(2)]
        >>> sorted(sample for rank in parts for batch in rank for sample in batch), [len(rank) for rank in parts]
        ([0, 1, 2, 3, 4, 5, 6], [2, 2])
    """

    def __init__(
        self, samples: Sized | int, batch_size: int, *, rank: int, size: int, seed: int = 0, drop_last: bool = False
    ) -> None:
        check_ranks(rank, size)
        self._cut = BatchCut(count_of(samples), batch_size, drop_last)
        if min(self._cut.kept, batch_size) < size:
            raise InvalidArgument(
                f"{self._cut.kept} samples in batches of {batch_size} for {size} ranks", "at least one for each rank in both"
            )
        self._rank, self._size, self._seed = rank, size, natural("seed", seed)
        longest = -(-self._cut.kept // size)
        # No batch is empty: it takes at most as many as a rank has samples.
        self._batches = min(-(-longest // max(batch_size // size, 1)), self._cut.kept // size)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return self._batches

    def epoch(self, number: int) -> Iterator[Batch]:
        """This rank's batches of an epoch."""
        order = generator(self._seed, number).permutation(self._cut.count)[: self._cut.kept]
        begin, end = bounds(len(order), self._size)[self._rank : self._rank + 2]
        share = order[begin:end]
        return (share[a:b] for a, b in pairwise(bounds(len(share), self._batches)))

    def of(self, rank: int) -> Reshuffled:
        """That of another rank."""
        size, cut = self._size, self._cut
        return Reshuffled(cut.count, cut.size, rank=rank, size=size, seed=self._seed, drop_last=cut.drop_last)

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "reshuffled", **self._cut.facts(), "seed": self._seed, "ranks": self._size}


def sharded_files(paths: Sequence[T], rank: int, size: int) -> list[T]:
    """The files of a set that one rank reads: each file goes to one rank, and their numbers differ by at most one.

    Ranks whose files hold different numbers of samples would have different numbers of batches: give each rank's sampler
    the same number, ``db.samplers["infinite"](…, batches=…)``.

    Args:
        paths: All files, in the same order on all ranks.
        rank: This one.
        size: The number of ranks.

    Raises:
        InvalidArgument: No such rank, fewer files than ranks, or one of them twice.

    Example:
        >>> [sharded_files(["a", "b", "c", "d", "e"], rank, 2) for rank in range(2)]
        [['a', 'b'], ['c', 'd', 'e']]
    """
    check_ranks(rank, size)
    names = [str(path) if isinstance(path, Path) else path for path in paths]
    if len(names) < size or len(set(names)) < len(names):
        raise InvalidArgument(
            f"{len(set(names))} different files of {len(names)} for {size} ranks", "at least one each, all once"
        )
    begin, end = bounds(len(paths), size)[rank : rank + 2]
    return list(paths[begin:end])


def rows_of_draws(
    form: TrainingForm,
    batch: Mapping[str, np.ndarray],
    seed: int,
    step: int,
    *,
    share: tuple[int, int],
    comm: Communicator,
) -> dict[str, np.ndarray]:
    """The rows of this rank's samples in what `TrainingForm.draw` draws for the batch of all ranks.

    Args:
        form: Says what is drawn.
        batch: This rank's samples.
        seed, step: Of the draws.
        share: How many samples this rank has, and how many all have.
        comm: The ranks, each of which has its part of the batch in their order.
    """
    local_count, total = share
    rows = form.data[0].shape[0] if form.data and form.data[0].shape else None
    begin = bounds(total, comm.size)[comm.rank]
    whole = {
        name: np.broadcast_to(np.zeros((), x.dtype), (total, *x.shape[1:])) if x.shape[:1] == (local_count,) else x
        for name, x in batch.items()
    }
    drawn = form.draw(whole, seed, step)
    return {spec.name: _part(drawn[spec.name], spec.shape, rows, begin, local_count) for spec in form.draws}


def _part(whole: np.ndarray, shape: Sequence[int | str], rows: Any, begin: int, count: int) -> np.ndarray:
    """Rows of what was drawn; the whole where it does not grow with the batch."""
    if not isinstance(rows, str) or rows not in shape:
        return whole
    return np.ascontiguousarray(whole.take(np.arange(begin, begin + count), axis=list(shape).index(rows)))
