"""How a set is divided into samples to train on and samples that are held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.training.dataset import Dataset
from deep_bench.training.recipes.division import Batch, Division
from deep_bench.training.recipes.ranking import leave_one_out
from deep_bench.training.sets import Mapped, Subset, split

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


SPLITS: Mapping[str, Callable[..., Division]] = MappingProxyType(
    {"from-last": from_last, "last": last, "leave-one-out": leave_one_out, "parts": parts, "random": random}
)
"""Name to split; its arguments but ``make`` are its settings."""
