"""Scores of classes beside labels, checked and in one form, whatever their layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.training.scores.score import taken


@dataclass(frozen=True)
class Classified:
    """What a network said of each label that counts.

    Args:
        scores: Of each class, higher for more likely, [m, C].
        labels: The right classes, [m], each from 0 to C - 1.
        samples: The sample within the batch that each belongs to, [m].
    """

    scores: np.ndarray
    labels: NDArray[np.int64]
    samples: NDArray[np.int64]


@dataclass(eq=False)
class Labels:
    """Where the scores of classes and the labels are found.

    Args:
        output: Name of the scores, [n, …, C, …].
        target: Name of the labels: the shape of the scores without their axis of classes.
        axis: The axis of classes, counted from 0 or from the end; not the first.
        ignore: The label of positions that do not count.

    Attributes:
        seen: The number of samples so far, from which a sample in an error is numbered; ``None`` if that is not known.

    Raises:
        InvalidArgument: The axis is that of the samples.
    """

    output: str
    target: str
    axis: int = 1
    ignore: int | None = None
    seen: int | None = 0

    def __post_init__(self) -> None:
        if self.axis == 0:
            raise InvalidArgument("classes along axis 0", "another axis: the first is that of the samples")

    def read(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> Classified:
        """The scores and labels of a batch, those of ignored positions left out.

        Raises:
            InvalidInput: They are missing, do not fit each other, or a label is no class; the message names the sample.
        """
        scores, labels = taken(outputs, self.output, "outputs"), taken(batch, self.target, "samples' arrays")
        if _without(scores.shape, self.axis) != labels.shape:
            raise InvalidInput(
                f"{self.output!r} of shape {list(scores.shape)} beside {self.target!r} of shape {list(labels.shape)}",
                f"scores with the classes along axis {self.axis}, and labels of the shape that remains without it",
            )
        if labels.dtype.kind not in "iu":
            raise InvalidInput(f"{self.target!r} of type {labels.dtype}", "whole numbers: the classes' numbers")
        classes = scores.shape[self.axis]
        samples = np.broadcast_to(np.arange(len(labels)).reshape(-1, *(1,) * (labels.ndim - 1)), labels.shape).reshape(-1)
        table, flat = np.moveaxis(scores, self.axis, -1).reshape(-1, classes), labels.reshape(-1).astype(np.int64)
        if self.ignore is not None:
            mask = flat != self.ignore
            table, flat, samples = table[mask], flat[mask], samples[mask]
        self._check(flat, samples, classes)
        if self.seen is not None:
            self.seen += len(labels)
        return Classified(table, flat, samples)

    def _check(self, labels: NDArray[np.int64], samples: NDArray[np.int64], classes: int) -> None:
        wrong = np.flatnonzero((labels < 0) | (labels >= classes))
        if len(wrong):
            first = wrong[0]
            suffix = "" if self.ignore is None else f", or {self.ignore} to be ignored"
            which = f"sample {samples[first]} of its batch" if self.seen is None else f"sample {self.seen + samples[first]}"
            raise InvalidInput(
                f"{which}: label {labels[first]} in {self.target!r}",
                f"0 to {classes - 1}{suffix}",
                "correct the data, or say which label is ignored: ignore=…",
            )


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...] | None:
    """A shape without one of its axes; ``None`` if it has no such axis behind the first."""
    if not -len(shape) < axis < len(shape):
        return None
    return tuple(size for number, size in enumerate(shape) if number != axis % len(shape))


def nats(found: Classified) -> NDArray[np.float64]:
    r"""The cross-entropy of each label, :math:`\log \sum_c e^{z_c} - z_y`, in float64 and without overflow.

    Example:
        >>> two = Classified(np.array([[1000.0, 0.0], [0.0, 0.0]]), np.array([0, 1]), np.array([0, 1]))
        >>> nats(two).round(4)
        array([0.    , 0.6931])
    """
    z = found.scores.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = z - z.max(axis=1, keepdims=True, initial=-np.inf)
        label_scores = np.take_along_axis(z, found.labels[:, None], axis=1)[:, 0]
        return np.asarray(np.log(np.exp(z).sum(axis=1)) - label_scores)
