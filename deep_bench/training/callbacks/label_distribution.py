"""Which labels the samples of a run really had."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.events import Moment
from deep_bench.measure.metric import Direction, Metric, MetricRecord
from deep_bench.training.progress import Progress


class LabelDistribution(Metric):
    r"""How far the labels as sampled are from what they should be: the total variation distance of the two distributions.

    :math:`\frac12 \sum_c |p_c - q_c|`, from 0 for the same to 1, over all samples of the run until now.

    Args:
        label: Name of the labels among the samples' arrays; whole numbers of at least 0.
        expected: How often each class should come, up to a common factor, such as the counts in the set
            (``np.bincount(labels_of(dataset))``); by default all alike, up to the highest label that came.

    Attributes:
        counts: How often each label came, int64.

    Raises:
        InvalidArgument: ``expected`` is no distribution.

    Example:
        >>> LabelDistribution("label", expected=[1, 1, 2]).measurement().unavailable
        'not available: no step was watched'
    """

    name, unit = "distance of labels as sampled", ""
    direction: Direction = "lower"
    moments = (Moment.BEFORE_STEP,)

    def __init__(self, label: str = "label", *, expected: ArrayLike | None = None) -> None:
        self.label = label
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)
        self.expected = None if expected is None else np.asarray(expected, np.float64)
        if self.expected is not None and not (
            self.expected.ndim == 1 and np.all(self.expected >= 0) and self.expected.sum() > 0
        ):
            raise InvalidArgument(
                f"expected={expected!r}", "how often each class should come: numbers of at least 0, not all 0"
            )

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Count the labels of the step's samples."""
        if self.label not in data.batch:
            raise InvalidInput(f"samples without {self.label!r}", f"one of {', '.join(data.batch)}")
        labels = np.asarray(data.batch[self.label]).reshape(-1)
        if labels.size and (labels.dtype.kind not in "iu" or labels.min() < 0):
            raise InvalidInput(f"{self.label!r} of type {labels.dtype}, from {labels.min()}", "whole numbers of at least 0")
        self.counts = _added(self.counts, np.bincount(labels.astype(np.int64)))

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each label; NaN before the first sample."""
        total = self.counts.sum()
        return self.counts / total if total else np.full(len(self.counts), np.nan)

    def measurement(self) -> MetricRecord:
        """One value for all steps."""
        if not self.counts.sum():
            return self.unavailable("no step was watched")
        expected = np.ones(len(self.counts)) if self.expected is None else self.expected
        apart = _added(self.shares, -expected / expected.sum())
        listing = ", ".join(f"{label}: {share:.4g}" for label, share in enumerate(self.shares[:20]))
        suffix = f", and {len(self.counts) - 20} more" if len(self.counts) > 20 else ""
        return self.found([np.abs(apart).sum() / 2], remark=f"share of each label: {listing}{suffix}")

    def snapshot(self) -> dict[str, np.ndarray]:
        """What it has seen, for a checkpoint."""
        return {"counts": self.counts}

    def restore(self, tree: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self.counts = np.array(tree["counts"], np.int64)


def _added(a: Any, b: Any) -> Any:
    """The sum of two, the shorter one taken to go on with zeros."""
    size = max(len(a), len(b))
    return np.pad(a, (0, size - len(a))) + np.pad(b, (0, size - len(b)))
