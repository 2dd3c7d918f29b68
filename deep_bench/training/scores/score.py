"""``Score``: what every figure of a network on a data set has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from deep_bench.errors import InvalidInput

Direction = Literal["lower", "higher"]


class Reads(NamedTuple):
    """What a score reads: the name of an output of the network, and of an array of the samples, if it reads one."""

    output: str
    array: str | None = None


class Score(ABC):
    """A figure of a network on a data set, gathered batch by batch; made anew for each evaluation.

    Of no samples at all, its value is NaN.

    Attributes:
        name: What it is.
        unit: Of its value, ``""`` for a plain number.
        direction: Whether ``"lower"`` or ``"higher"`` is better.
        reads: What it reads, so that a name that is not there is refused before training; ``None`` where it does not tell.
    """

    name: str
    unit: str = ""
    direction: Direction = "higher"
    reads: Reads | None = None

    @abstractmethod
    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch: what the network gave, and the samples.

        Raises:
            InvalidInput: They lack what it needs, or do not fit each other.
        """

    @abstractmethod
    def value(self) -> float:
        """What all batches so far amount to."""


def taken(arrays: Mapping[str, np.ndarray], name: str, where: str) -> np.ndarray:
    """One array by its name.

    Args:
        arrays: Name to array.
        name: Which.
        where: What ``arrays`` are, for the error.

    Raises:
        InvalidInput: There is none.

    Example:
        >>> taken({"logits": np.zeros(2)}, "label", "outputs")
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidInput: no 'label' among the outputs
        Expected: one of logits
    """
    if name not in arrays:
        raise InvalidInput(f"no {name!r} among the {where}", f"one of {', '.join(arrays) or '(none)'}")
    return np.asarray(arrays[name])
