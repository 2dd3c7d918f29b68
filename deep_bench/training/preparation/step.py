"""One step of a preparation: a name, parameters that are plain data, and what it does to one array of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from deep_bench.training.preparation.draws import Draws

Layout = Literal["CHW", "HWC", "HW"]
"""The axes of one image: channels, height and width."""


class BadRow(Exception):
    """What a step cannot do, and for which row of the batch; the pipeline names the sample."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row, self.reason = row, reason


class Step(BaseModel, ABC):
    """Base of the steps: fields of a subclass are its parameters; `field` names the array it changes.

    An array holds the samples along its first axis. Images of different sizes, and encoded ones, are an array of objects.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    name: ClassVar[str]

    field: str = "image"

    @property
    def target(self) -> str:
        """What the array is called afterwards."""
        return self.field

    @abstractmethod
    def apply(self, values: np.ndarray, draws: Draws) -> np.ndarray:
        """The changed array, with as many rows. ``draws`` gives each sample its random numbers.

        Raises:
            BadRow: A sample that the step cannot be done on.
        """


class Fixed(Step):
    """Base of the steps that leave nothing to chance."""

    def apply(self, values: np.ndarray, draws: Draws) -> np.ndarray:  # noqa: ARG002
        """The changed array, whatever was drawn."""
        return self.change(values)

    @abstractmethod
    def change(self, values: np.ndarray) -> np.ndarray:
        """The changed array, with as many rows.

        Raises:
            BadRow: A sample that the step cannot be done on.
        """


def each(values: np.ndarray, change: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """Change row by row, where rows differ in size or a library takes one image at a time."""
    return joined(change(row, value) for row, value in enumerate(values))


def joined(rows: Iterable[np.ndarray]) -> np.ndarray:
    """Rows as one array if all have the same shape and type, else as an array of objects.

    Example:
        >>> joined([np.zeros(2), np.ones(2)]).shape, joined([np.zeros(2), np.ones(3)]).dtype
        ((2, 2), dtype('O'))
    """
    rows = list(rows)
    if len({(row.shape, row.dtype) for row in rows}) == 1:
        return np.stack(rows)
    objects = np.empty(len(rows), object)
    objects[:] = rows
    return objects


def dense(values: np.ndarray) -> np.ndarray:
    """The array, if all its samples have one shape.

    Raises:
        BadRow: They have not; the first that differs is named.
    """
    if values.dtype != object:
        return values
    shapes = [getattr(value, "shape", None) for value in values]
    odd = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), 0)
    came = f"shape {shapes[odd]} beside {shapes[0]}" if shapes[odd] else f"a {type(values[odd]).__name__}, no array"
    raise BadRow(odd, f"{came}; decode, and resize or crop to one size, before")


def floating(values: np.ndarray) -> np.ndarray:
    """The array, if its elements are real numbers that can be other than whole.

    Raises:
        BadRow: They cannot.
    """
    values = dense(values)
    if values.dtype.kind != "f":
        raise BadRow(0, f"elements of type {values.dtype}; make them float32 with `scale` or `cast` before")
    return values


def checked_axes(values: np.ndarray, layout: Layout) -> np.ndarray:
    """The array, if its samples have as many axes as a layout.

    Raises:
        BadRow: They have not.
    """
    ranks = [values.ndim - 1] if values.dtype != object else [getattr(value, "ndim", None) for value in values]
    for row, rank in enumerate(ranks):
        if rank != len(layout):
            raise BadRow(row, f"a sample of {rank} axes for the layout {layout}")
    return values
