"""How a set is divided into samples to train on and samples that are held out.

To learn from what users chose, each user's last choice is held out, and what they did not choose tells it apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.dataset import Dataset, description_of
from deep_bench.training.preparation import Draws
from deep_bench.training.sets import ArrayDataset, Mapped, Subset, split

Batch = dict[str, np.ndarray]
Prepare = Callable[[Batch, NDArray[np.int64], int], Batch]
"""From a batch, the numbers of its samples and the number of the epoch to what is made of it."""


@dataclass(frozen=True, eq=False)
class Division:
    """A set in two.

    Args:
        train: The samples to train on.
        held_out: The samples to evaluate on.
        prepare: From the seed of a run to what is done with each batch of the first; nothing without it.
    """

    train: Dataset
    held_out: Dataset
    prepare: Callable[[int], Prepare] | None = None


Make = Callable[..., Dataset]
"""What makes the set; its arguments are those that the recipe does not state."""


def parts(make: Make, train: str | Mapping[str, Any] = "train", held_out: str | Mapping[str, Any] = "test") -> Division:
    """The set's own parts.

    Args:
        make: What makes the set.
        train, held_out: The argument ``part`` of the set, or several arguments.
    """
    first, second = ({"part": part} if isinstance(part, str) else dict(part) for part in (train, held_out))
    return Division(make(**first), make(**second))


def random(make: Make, held_out: float = 0.2, seed: int = 0, stratified: bool = False) -> Division:
    """Samples drawn at random, the same in every run.

    Args:
        make: What makes the set.
        held_out: Their share.
        seed: Decides which.
        stratified: Each class has nearly the same share.
    """
    pieces = split(make(), {"train": 1 - held_out, "held out": held_out}, seed=seed, stratified=stratified)
    return Division(pieces["train"], pieces["held out"])


def last(make: Make, held_out: float = 0.2, gap: int = 0) -> Division:
    """The last samples, for those that follow each other in time.

    Args:
        make: What makes the set.
        held_out: Their share.
        gap: How many before them are left out, as they overlap them.

    Raises:
        InvalidArgument: Nothing would be left to train on, or to hold out.
    """
    whole = make()
    first = len(whole) - round(held_out * len(whole))
    if not 0 < first - gap <= first < len(whole):
        raise InvalidArgument(f"held_out={held_out}, gap={gap} of {len(whole)} samples", "some samples in each part")
    return Division(Subset(whole, np.arange(first - gap), "first"), Subset(whole, np.arange(first, len(whole)), "last"))


def from_last(
    make: Make,
    train: str | Mapping[str, Any] = "train",
    held_out: str | Mapping[str, Any] = "test",
    history: str = "history",
    future: str = "future",
    scale: float = 1.0,
) -> Division:
    """The set's own parts, its series counted from the last value that is known.

    Args:
        make: What makes the set.
        train, held_out: As in `parts`.
        history: Name of what is known, [n, times], which becomes [n, times, 1].
        future: Name of what is to be foretold, [n, times].
        scale: The unit that both are in afterwards.

    Raises:
        InvalidArgument: A scale that is not above 0.
    """
    if not 0 < scale < inf:
        raise InvalidArgument(f"scale={scale}", "a number above 0")
    whole = parts(make, train, held_out)
    change, name = FromLast(history, future, scale), f"from the last, in {scale:g}"
    return Division(Mapped(whole.train, change, name), Mapped(whole.held_out, change, name))


@dataclass(frozen=True)
class FromLast:
    """Counts series from the last known value; see `from_last`."""

    history: str
    future: str
    scale: float

    def __call__(self, batch: Batch) -> Batch:
        """The batch, changed."""
        past, following = batch[self.history], batch[self.future]
        last = past[:, -1:]
        return {self.history: ((past - last) / self.scale)[..., None], self.future: (following - last) / self.scale}


def leave_one_out(
    make: Callable[[], Dataset],
    *,
    user: str = "user",
    item: str = "item",
    time: str = "timestamp",
    label: str = "label",
    negatives: int = 4,
    candidates: int = 100,
    seed: int = 0,
) -> Division:
    """The last item of each user is held out, to be ranked among items that this user never chose.

    Of several at one time, the highest is the last.

    In training, each choice comes with items that this user never chose, drawn anew in every epoch; a batch has
    ``1 + negatives`` rows for each of its samples. Held out are ``candidates`` rows for each user: the choice, then the
    others.

    Args:
        make: What makes the set: one sample for each choice.
        user, item, time: Its arrays: numbers of users and items, from 0, and when it was.
        label: Name of a new array, float32: 1 for a choice, 0 for another item.
        negatives: How many items are drawn for each choice in training.
        candidates: How many items are ranked, the choice among them.
        seed: Decides which items a choice is ranked among.

    Raises:
        InvalidArgument: No candidates beside the choice, or a negative number.
        InvalidData: An array is missing, is no number from 0, or a user has too few items that they never chose.

    Source:
        He, Liao, Zhang, Nie, Hu and Chua, *Neural collaborative filtering*, WWW 2017, sections 3.1 and 4.1.
    """
    if candidates < 2 or negatives < 0:
        raise InvalidArgument(f"negatives={negatives}, candidates={candidates}", "at least 0, and at least 2")
    whole = make()
    users, items, times = _columns(whole, user, item, time)
    # the number of the latest sample of each user; of several at one time, that of the highest item
    order = np.lexsort((items, times, users))
    held = order[np.append(users[order][1:] != users[order][:-1], True)]
    unchosen = UnchosenItems.of(users, items, max(candidates - 1, 1))
    remaining = np.setdiff1d(np.arange(len(users)), held)
    ranked = unchosen.distinct(users[held], Draws(_CANDIDATES + seed, 0, _PLACE, held).uniform(candidates - 1))
    train = {user: users[remaining], item: items[remaining]}
    held_out = {
        user: np.repeat(users[held], candidates),
        item: np.concatenate([items[held][:, None], ranked], axis=1).reshape(-1),
        label: np.tile(np.eye(1, candidates, dtype=np.float32)[0], len(held)),
    }
    whose = description_of(whole)
    return Division(
        ArrayDataset(train, description=replace(whose, name=f"{whose.name}/all but the last")),
        ArrayDataset(held_out, description=replace(whose, name=f"{whose.name}/the last among {candidates}")),
        lambda run: NegativeSamples(unchosen, user, item, label, negatives, run),
    )


SPLITS: Mapping[str, Callable[..., Division]] = MappingProxyType(
    {"from-last": from_last, "last": last, "leave-one-out": leave_one_out, "parts": parts, "random": random}
)
"""Name to split; its arguments but ``make`` are its settings."""


_PLACE = 0
"""Of the draws; steps of a preparation count from 1."""


_CANDIDATES = 2**31
"""Set apart from the seeds of runs: which candidates a held-out choice is ranked among does not depend on them."""


@dataclass(frozen=True, eq=False)
class UnchosenItems:
    """The items that each user never chose.

    Args:
        items: Of each user, these items first, [users, items].
        counts: How many they are, [users].
    """

    items: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, users: NDArray[np.int64], items: NDArray[np.int64], least: int) -> UnchosenItems:
        """Those of each user, of whom each must have ``least``.

        Raises:
            InvalidData: One has not.
        """
        chosen = np.zeros((users.max() + 1, items.max() + 1), bool)
        chosen[users, items] = True
        counts = (~chosen).sum(axis=1)
        if counts.min() < least:
            poor = int(counts.argmin())
            raise InvalidData(f"user {poor} with {counts[poor]} items that they never chose", f"at least {least}")
        return cls(np.argsort(chosen, axis=1, kind="stable"), counts)

    def drawn(self, users: NDArray[np.int64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
        """Items of users [n] by random numbers in (0, 1), [n, k]; one may come twice."""
        return self.items[users[:, None], (draws * self.counts[users, None]).astype(np.int64)]

    def distinct(self, users: NDArray[np.int64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
        """Items of users [n] by random numbers, [n, k]; none twice: the first k steps of a shuffle (Fisher and Yates)."""
        rows, table = np.arange(len(users)), self.items[users]
        for place in range(draws.shape[1]):
            swap = place + (draws[:, place] * (self.counts[users] - place)).astype(np.int64)
            table[rows, place], table[rows, swap] = table[rows, swap], table[rows, place]
        return table[:, : draws.shape[1]]


@dataclass(frozen=True, eq=False)
class NegativeSamples:
    """Puts items that a user never chose beside each choice of a batch.

    Args:
        others: Those items.
        user, item, label: Names of arrays.
        negatives: How many.
        seed: With epoch and number of the sample, it decides which.
    """

    others: UnchosenItems
    user: str
    item: str
    label: str
    negatives: int
    seed: int

    def __call__(self, batch: Batch, numbers: NDArray[np.int64], epoch: int) -> Batch:
        """The batch with ``1 + negatives`` rows for each sample."""
        users, items = batch[self.user], batch[self.item]
        drawn = self.others.drawn(users, Draws(self.seed, epoch, _PLACE, numbers).uniform(self.negatives))
        rows = 1 + self.negatives
        return {
            self.user: np.repeat(users, rows),
            self.item: np.concatenate([items[:, None], drawn], axis=1).reshape(-1),
            self.label: np.tile(np.eye(1, rows, dtype=np.float32)[0], len(users)),
        }


def _columns(whole: Dataset, *names: str) -> list[np.ndarray]:
    samples = whole[np.arange(len(whole))]
    for name in names:
        if name not in samples:
            raise InvalidData(f"samples without {name!r}", f"one of {', '.join(samples)}", "name the array in the recipe")
    for name in names[:2]:
        numbers = samples[name]
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not numbers.size or numbers.min() < 0:
            raise InvalidData(f"{name!r} of shape {numbers.shape} and type {numbers.dtype}", "one number from 0 each")
    return [samples[names[0]].astype(np.int64), samples[names[1]].astype(np.int64), samples[names[2]]]
