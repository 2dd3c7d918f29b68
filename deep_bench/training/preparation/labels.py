"""Steps on labels."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from deep_bench.training.preparation.step import BadRow, Fixed, dense
from deep_bench.training.preparation.values import Type, dtype_of


class Offset(Fixed):
    """A class counted from another number: 1 is taken off where a set counts from 1.

    Args:
        add: What is added.
    """

    name: ClassVar[str] = "offset"
    field: str = "label"
    add: int

    def change(self, values: np.ndarray) -> np.ndarray:
        """The shifted labels, int64."""
        return _whole(values).astype(np.int64) + self.add


class ArgMax(Fixed):
    """The number of the largest score: a class from one-hot labels or from a network's output. The first of equal ones."""

    name: ClassVar[str] = "argmax"
    field: str = "label"

    def change(self, values: np.ndarray) -> np.ndarray:
        """The numbers, int64."""
        return _scores(values, 1).argmax(axis=-1).astype(np.int64)


class TopK(Fixed):
    """The numbers of the ``k`` largest scores, largest first; of equal ones the first.

    Args:
        k: How many.
    """

    name: ClassVar[str] = "top_k"
    field: str = "label"
    k: Annotated[int, Field(ge=1)]

    def change(self, values: np.ndarray) -> np.ndarray:
        """The numbers, int64, along a last axis of ``k``."""
        scores = _scores(values, self.k)
        backwards = scores[..., ::-1]  # a stable sort keeps the last of equal ones last
        order = np.argsort(backwards, axis=-1, kind="stable")[..., ::-1][..., : self.k]
        return (scores.shape[-1] - 1 - order).astype(np.int64)


class OneHot(Fixed):
    """A class as a vector of zeros with a one.

    Args:
        classes: The number of classes, counted from 0.
        dtype: The type of the vector.
    """

    name: ClassVar[str] = "one_hot"
    field: str = "label"
    classes: Annotated[int, Field(ge=1)]
    dtype: Type = "float32"

    def change(self, values: np.ndarray) -> np.ndarray:
        """The vectors, along a last axis."""
        labels = _whole(values)
        wrong = np.flatnonzero(((labels < 0) | (labels >= self.classes)).reshape(len(labels), -1).any(axis=1))
        if wrong.size:
            raise BadRow(int(wrong[0]), f"label {labels[wrong[0]]} of {self.classes} classes, counted from 0")
        return (labels[..., None] == np.arange(self.classes)).astype(dtype_of(self.dtype))


def _whole(values: np.ndarray) -> np.ndarray:
    values = dense(values)
    if values.dtype.kind not in "iu":
        raise BadRow(0, f"labels of type {values.dtype}, where whole numbers are needed")
    return values


def _scores(values: np.ndarray, least: int) -> np.ndarray:
    values = dense(values)
    if values.ndim < 2 or values.shape[-1] < least:
        raise BadRow(0, f"scores of shape {values.shape[1:]}, where at least {least} along an axis are needed")
    return values
