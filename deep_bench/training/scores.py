"""Figures of a network on a data set, gathered batch by batch; and the evaluation that gathers them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, inf, isfinite, sqrt
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidInput, UnknownName
from deep_bench.framework import A, Executor
from deep_bench.measure.metrics import Direction
from deep_bench.training.dataset import Dataset
from deep_bench.training.form import Feed
from deep_bench.training.loader import Fetch
from deep_bench.training.samplers import natural

__all__ = [
    "NDCG",
    "R2",
    "Accuracy",
    "ConfusionMatrix",
    "Direction",
    "HitRate",
    "MeanAbsoluteError",
    "MeanOutput",
    "MeanSquaredError",
    "NatsPerToken",
    "Perplexity",
    "Reads",
    "RelativeError",
    "RootMeanSquaredError",
    "SampleLosses",
    "Score",
    "cross_entropies",
    "squared_errors",
]


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


def array_named(arrays: Mapping[str, np.ndarray], name: str, where: str) -> np.ndarray:
    """One array by its name.

    Args:
        arrays: Name to array.
        name: Which.
        where: What ``arrays`` are, for the error.

    Raises:
        InvalidInput: There is none.

    Example:
        >>> array_named({"logits": np.zeros(2)}, "label", "outputs")
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidInput: no 'label' among the outputs
        Expected: one of logits
    """
    if name not in arrays:
        raise InvalidInput(f"no {name!r} among the {where}", f"one of {', '.join(arrays) or '(none)'}")
    return np.asarray(arrays[name])


class Mean:
    """The mean of values that come batch by batch.

    Each batch is summed in float64 by pairs, and the batches' sums exactly (Shewchuk); so the error does not grow with
    their number.

    Attributes:
        count: How many values there were.

    Example:
        >>> mean = Mean()
        >>> mean.add(np.array([1.0, 1e100])); mean.add(np.array([-1e100]))
        >>> mean.value(), Mean().value()
        (0.0, nan)

    Source:
        Shewchuk, Adaptive precision floating-point arithmetic, 1997, as in Python's ``math.fsum``; Higham, The accuracy of
        floating point summation, 1993, on summing by pairs.
    """

    def __init__(self) -> None:
        self._sums: list[float] = []
        self.count = 0

    def add(self, values: np.ndarray, weight: int = 1) -> None:
        """Take in values, each as so many."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._sums.append(float(np.sum(values, dtype=np.float64) * weight))
        self.count += values.size * weight

    def total(self) -> float:
        """The sum of all values."""
        with np.errstate(over="ignore", invalid="ignore"):
            rough = float(np.sum(self._sums))
        return fsum(self._sums) if isfinite(rough) else rough

    def value(self) -> float:
        """The mean; NaN of no values."""
        return self.total() / self.count if self.count else float("nan")


class _MeanScore(Score):
    """A score that is the mean of all values that batches give; or, where `value` says so, follows from it."""

    def __init__(self, reads: Reads | None) -> None:
        self.reads, self._mean = reads, Mean()

    @abstractmethod
    def values(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Those of a batch."""

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        self._mean.add(self.values(outputs, batch))

    def value(self) -> float:
        """The mean."""
        return self._mean.value()


@dataclass(frozen=True)
class LabelScores:
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

    def read(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> LabelScores:
        """The scores and labels of a batch, those of ignored positions left out.

        Raises:
            InvalidInput: They are missing, do not fit each other, or a label is no class; the message names the sample.
        """
        scores, labels = array_named(outputs, self.output, "outputs"), array_named(batch, self.target, "samples' arrays")
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
        return LabelScores(table, flat, samples)

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


def nats(found: LabelScores) -> NDArray[np.float64]:
    r"""The cross-entropy of each label, :math:`\log \sum_c e^{z_c} - z_y`, in float64 and without overflow.

    Example:
        >>> two = LabelScores(np.array([[1000.0, 0.0], [0.0, 0.0]]), np.array([0, 1]), np.array([0, 1]))
        >>> nats(two).round(4)
        array([0.    , 0.6931])
    """
    z = found.scores.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = z - z.max(axis=1, keepdims=True, initial=-np.inf)
        label_scores = np.take_along_axis(z, found.labels[:, None], axis=1)[:, 0]
        return np.asarray(np.log(np.exp(z).sum(axis=1)) - label_scores)


class MeanOutput(Score):
    """The mean of a scalar output over all samples, each batch by its size.

    That is the mean over samples where the output is one over the batch. Where a loss leaves labels out
    (``ignore_index``), batches differ in how many they count: take `NatsPerToken` there.

    Args:
        output: Its name.

    Example:
        >>> score = MeanOutput()
        >>> score.add({"loss": np.float32(1)}, {"x": np.zeros(3)})
        >>> score.add({"loss": np.float32(5)}, {"x": np.zeros(1)})
        >>> score.value()
        2.0
    """

    direction: Direction = "lower"

    def __init__(self, output: str = "loss") -> None:
        self.name = self.output = output
        self.reads = Reads(output)
        self._mean = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        value = array_named(outputs, self.output, "outputs")
        if value.size != 1:
            raise InvalidInput(f"{self.output!r} of shape {list(value.shape)}", "a single number, such as a mean loss")
        self._mean.add(value.astype(np.float64).reshape(1), weight=len(next(iter(batch.values()))))

    def value(self) -> float:
        """The mean."""
        return self._mean.value()


class Accuracy(Score):
    r"""The share of labels that are among the :math:`k` classes with the highest scores.

    Of equal scores, those of lower classes count as higher. Where a score is NaN, the answer is wrong.

    Args:
        output: Name of the scores, [n, C, …].
        target: Name of the labels, [n, …].
        k: How many classes may hold it.
        axis: The axis of classes.
        ignore: The label of positions that do not count.

    Raises:
        InvalidArgument: ``k`` is below 1, or the axis that of the samples.

    Example:
        >>> score = Accuracy("logits", "label")
        >>> score.add({"logits": np.array([[0.1, 0.9], [0.8, 0.2]])}, {"label": np.array([1, 1])})
        >>> score.value()
        0.5
    """

    def __init__(self, output: str, target: str, k: int = 1, *, axis: int = 1, ignore: int | None = None) -> None:
        if k < 1:
            raise InvalidArgument(f"k={k}", "at least 1")
        self.name = "accuracy" if k == 1 else f"top-{k} accuracy"
        self.k = k
        self.reads = Reads(output, target)
        self._labels = Labels(output, target, axis, ignore)
        self._right = self._all = 0

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        classified = self._labels.read(outputs, batch)
        classes = classified.scores.shape[1]
        if self.k > classes:
            raise InvalidInput(f"the first {self.k} of {classes} classes", f"k of at most {classes}")
        label_scores = np.take_along_axis(classified.scores, classified.labels[:, None], axis=1)
        ties = (classified.scores == label_scores) & (np.arange(classes) < classified.labels[:, None])
        before = ((classified.scores > label_scores) | ties).sum(axis=1)
        self._right += int(((before < self.k) & ~np.isnan(classified.scores).any(axis=1)).sum())
        self._all += len(classified.labels)

    def value(self) -> float:
        """The share, from 0 to 1."""
        return self._right / self._all if self._all else float("nan")


class ConfusionMatrix(Score):
    r"""How often each class was taken for each, with the precision and recall of every class.

    Its value is the balanced accuracy: the mean recall of the classes that occur. A class is predicted where its score is
    the highest, the lowest class of equal ones; where a score is NaN, none is.

    Args:
        output: Name of the scores, [n, C, …].
        target: Name of the labels, [n, …].
        axis: The axis of classes.
        ignore: The label of positions that do not count.

    Example:
        >>> score = ConfusionMatrix("logits", "label")
        >>> score.add({"logits": np.array([[3.0, 1], [2, 1], [0, 1], [1, 0]])}, {"label": np.array([0, 0, 1, 1])})
        >>> score.matrix.tolist(), score.precision.round(2).tolist(), score.recall.tolist(), score.value()
        ([[2, 0], [1, 1]], [0.67, 1.0], [1.0, 0.5], 0.75)

    Source:
        Brodersen et al., The balanced accuracy and its posterior distribution, ICPR 2010.
    """

    name = "balanced accuracy"

    def __init__(self, output: str, target: str, *, axis: int = 1, ignore: int | None = None) -> None:
        self.reads = Reads(output, target)
        self._labels = Labels(output, target, axis, ignore)
        self._counts: NDArray[np.int64] | None = None

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        classified = self._labels.read(outputs, batch)
        classes = classified.scores.shape[1]
        if self._counts is None:
            self._counts = np.zeros((classes, classes + 1), np.int64)
        if len(self._counts) != classes:
            raise InvalidInput(f"scores of {classes} classes", f"{len(self._counts)}, as in the batches before")
        predicted = np.where(np.isnan(classified.scores).any(axis=1), classes, classified.scores.argmax(axis=1))
        np.add.at(self._counts, (classified.labels, predicted), 1)

    @property
    def matrix(self) -> NDArray[np.int64]:
        """How often samples of the class of the row were taken for that of the column, [C, C]."""
        return self._table[:, :-1]

    @property
    def unpredicted(self) -> NDArray[np.int64]:
        """How often no class was predicted, since a score was NaN, for each right class, [C]."""
        return self._table[:, -1]

    @property
    def precision(self) -> NDArray[np.float64]:
        """The share of those taken for a class that are of it, [C]; NaN where none was."""
        return _shares(np.diag(self.matrix), self.matrix.sum(axis=0))

    @property
    def recall(self) -> NDArray[np.float64]:
        """The share of a class that was taken for it, [C]; NaN where it does not occur."""
        return _shares(np.diag(self.matrix), self._table.sum(axis=1))

    def value(self) -> float:
        """The balanced accuracy, from 0 to 1."""
        recalls = self.recall[~np.isnan(self.recall)]
        return float(recalls.mean()) if len(recalls) else float("nan")

    @property
    def _table(self) -> NDArray[np.int64]:
        return np.zeros((0, 1), np.int64) if self._counts is None else self._counts


def _shares(parts: NDArray[np.int64], wholes: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(parts, wholes, out=np.full(len(parts), np.nan), where=wholes > 0)


class _TokenScore(_MeanScore):
    """A score that follows from the cross-entropies of labels."""

    direction: Direction = "lower"

    def __init__(self, output: str, target: str, *, axis: int = 1, ignore: int | None = None) -> None:
        super().__init__(Reads(output, target))
        self._labels = Labels(output, target, axis, ignore)

    def values(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """The cross-entropy of each label."""
        return nats(self._labels.read(outputs, batch))


class NatsPerToken(_TokenScore):
    r"""The mean cross-entropy of all labels, :math:`-\log p_y`, in nats; each label counts alike, whatever its batch.

    Args:
        output: Name of the scores before the softmax, [n, C, …].
        target: Name of the labels, [n, …].
        axis: The axis of classes, or words.
        ignore: The label of positions that do not count.

    Example:
        >>> score = NatsPerToken("logits", "next", axis=2, ignore=-1)
        >>> score.add({"logits": np.zeros((1, 3, 4))}, {"next": np.array([[0, 2, -1]])})
        >>> round(score.value(), 4)
        1.3863
    """

    name, unit = "cross-entropy", "nat"


class Perplexity(_TokenScore):
    r"""The number of equally likely words that would be as hard to foresee, :math:`e^{\text{nats per token}}`.

    Args:
        output: Name of the scores before the softmax, [n, C, …].
        target: Name of the labels, [n, …].
        axis: The axis of classes, or words.
        ignore: The label of positions that do not count.

    Example:
        >>> score = Perplexity("logits", "next")
        >>> score.add({"logits": np.zeros((2, 4))}, {"next": np.array([0, 3])})
        >>> round(score.value(), 6)
        4.0
    """

    name = "perplexity"

    def value(self) -> float:
        """The perplexity, at least 1; infinite where float64 ends."""
        value = self._mean.value()
        return exp(value) if not value > 709 else inf


class _ListScore(_MeanScore):
    """A score of lists of candidates, each in the order of its scores and in the best order; `kind` says what of them."""

    kind: str

    def __init__(self, output: str, target: str, k: int = 10, *, candidates: int | None = None) -> None:
        if k < 1 or (candidates is not None and k >= candidates):
            raise InvalidArgument(f"the first {k} of {candidates or 'all'} candidates", "at least 1, and not all of them")
        super().__init__(Reads(output, target))
        self.name = f"{self.kind}@{k}"
        self.output, self.target, self.k, self.candidates = output, target, k, candidates
        self._seen = 0
        self._begun = np.zeros((0, 2))

    @abstractmethod
    def of_lists(self, ranked: NDArray[np.float64], ideal: NDArray[np.float64]) -> np.ndarray:
        """The value of each list: of the relevance of its candidates, in the order of their scores and in the best."""

    def values(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Those of all lists that are whole by now."""
        scores, gains = array_named(outputs, self.output, "outputs"), array_named(batch, self.target, "samples' arrays")
        if scores.shape != gains.shape or scores.ndim != (2 if self.candidates is None else 1):
            raise InvalidInput(
                f"{self.output!r} of shape {list(scores.shape)} beside {self.target!r} of shape {list(gains.shape)}",
                "two of shape [n, candidates]" if self.candidates is None else "two of shape [n]",
            )
        scores, gains = scores.astype(np.float64), gains.astype(np.float64)
        if self.candidates is not None:
            begun = np.concatenate([self._begun, np.stack([scores, gains], axis=1)])
            whole = len(begun) // self.candidates * self.candidates
            self._begun = begun[whole:]
            scores, gains = begun[:whole].T.reshape(2, -1, self.candidates)
        wrong = np.flatnonzero(~(np.isfinite(gains) & (gains >= 0)).all(axis=1) | ~(gains > 0).any(axis=1))
        if len(wrong):
            raise InvalidInput(
                f"list {self._seen + wrong[0]}: relevance of {gains[wrong[0]].max():g} at most",
                "at least one relevant candidate in each list, and no relevance below 0",
            )
        if gains.shape[1] <= self.k and len(gains):
            raise InvalidInput(f"the first {self.k} of {gains.shape[1]} candidates", "more candidates than k")
        self._seen += len(gains)
        keys = np.where(np.isnan(scores), np.inf, -scores)
        order = np.lexsort((gains, np.isnan(scores), keys), axis=1)
        return self.of_lists(np.take_along_axis(gains, order, axis=1), -np.sort(-gains, axis=1))

    def value(self) -> float:
        """The mean over all lists.

        Raises:
            InvalidInput: The last list is not complete.
        """
        if len(self._begun):
            raise InvalidInput(
                f"a last list of {len(self._begun)} candidates", f"{self.candidates} in each list", "see to the set's length"
            )
        return self._mean.value()


class HitRate(_ListScore):
    """The share of lists where something relevant is among the first ``k`` candidates.

    Candidates with equal scores are taken in the least favourable order, so that a network that gives all the same score
    hits nothing; so are those whose score is NaN, at the end.

    Args:
        output: Name of the scores: [n, candidates], or [n] with ``candidates``.
        target: Name of how relevant each is, 0 for not at all; of the same shape.
        k: How many stand at the head.
        candidates: The length of a list, where each sample is a single candidate and the lists follow each other.

    Raises:
        InvalidArgument: ``k`` is below 1, or not below the number of candidates.

    Example:
        >>> score = HitRate("score", "bought", k=2, candidates=3)
        >>> score.add({"score": np.array([0.1, 0.7, 0.9, 0.5, 0.5, 0.5])}, {"bought": np.array([0, 1, 0, 0, 0, 1])})
        >>> score.value()
        0.5

    Source:
        He et al., Neural collaborative filtering, WWW 2017, section 4.1.
    """

    kind = "hit rate"

    def of_lists(self, ranked: NDArray[np.float64], ideal: NDArray[np.float64]) -> np.ndarray:
        """Whether something relevant is at the head."""
        del ideal
        return np.asarray((ranked[:, : self.k] > 0).any(axis=1))


class NDCG(_ListScore):
    r"""The discounted cumulative gain of the first ``k`` candidates over that of the best order.

    :math:`\mathrm{DCG} = \sum_{i=1}^{k} g_i / \log_2(i + 1)` with the relevance :math:`g_i` of the candidate in place
    :math:`i`; averaged over lists. Equal scores are treated as in `HitRate`.

    Args:
        output: Name of the scores: [n, candidates], or [n] with ``candidates``.
        target: Name of how relevant each is, at least 0; of the same shape.
        k: How many stand at the head.
        candidates: The length of a list, where each sample is a single candidate and the lists follow each other.

    Raises:
        InvalidArgument: ``k`` is below 1, or not below the number of candidates.

    Example:
        >>> score = NDCG("score", "bought", k=2)
        >>> score.add({"score": np.array([[0.1, 0.7, 0.9]])}, {"bought": np.array([[0, 1, 0]])})
        >>> round(score.value(), 4)
        0.6309

    Source:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, 2002; with the discount of Burges et al.,
        2005, and linear gains.
    """

    kind = "NDCG"

    def of_lists(self, ranked: NDArray[np.float64], ideal: NDArray[np.float64]) -> np.ndarray:
        """The gain at the head over the largest that there can be."""
        head = min(self.k, ranked.shape[1])
        discount = 1 / np.log2(np.arange(head) + 2)
        return np.asarray((ranked[:, :head] @ discount) / (ideal[:, :head] @ discount))


class _ErrorScore(_MeanScore):
    """A score that follows from the mean error of all elements, squared unless `values` says another."""

    direction: Direction = "lower"

    def __init__(self, output: str, target: str, unit: str = "") -> None:
        super().__init__(Reads(output, target))
        self.output, self.target, self.unit = output, target, unit

    def values(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """The square of what each element differs by."""
        return squares(difference(outputs, batch, self.output, self.target))


class MeanSquaredError(_ErrorScore):
    r"""The mean of :math:`(y - t)^2` over all elements.

    Args:
        output: Name of the predictions :math:`y`.
        target: Name of what they should be, :math:`t`; of the same shape.
        unit: Of the result.

    Example:
        >>> score = MeanSquaredError("y", "t")
        >>> score.add({"y": np.array([1.0, 2.0])}, {"t": np.array([1.0, 4.0])})
        >>> score.value()
        2.0
    """

    name = "mean squared error"


class RootMeanSquaredError(_ErrorScore):
    r"""The root of the mean of :math:`(y - t)^2` over all elements, in the unit of the data.

    Args:
        output: Name of the predictions :math:`y`.
        target: Name of what they should be, :math:`t`.
        unit: Of the data.
    """

    name = "root mean squared error"

    def value(self) -> float:
        """The root."""
        return sqrt(self._mean.value())


class MeanAbsoluteError(_ErrorScore):
    r"""The mean of :math:`|y - t|` over all elements, in the unit of the data.

    Args:
        output: Name of the predictions :math:`y`.
        target: Name of what they should be, :math:`t`.
        unit: Of the data.
    """

    name = "mean absolute error"

    def values(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """What each element differs by, without its sign."""
        return np.abs(difference(outputs, batch, self.output, self.target))


class RelativeError(_ErrorScore):
    r"""The error relative to the data as a whole, :math:`\sqrt{\sum (y - t)^2 / \sum t^2}`.

    Single elements that are zero do no harm; data that are all zero have no relative error, so it is NaN there.

    Args:
        output: Name of the predictions :math:`y`.
        target: Name of what they should be, :math:`t`.

    Example:
        >>> score = RelativeError("y", "t")
        >>> score.add({"y": np.array([3.0, 5.0])}, {"t": np.array([3.0, 4.0])})
        >>> score.value()
        0.2
    """

    name = "relative error"

    def __init__(self, output: str, target: str) -> None:
        super().__init__(output, target)
        self._data = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        super().add(outputs, batch)
        self._data.add(squares(np.asarray(batch[self.target], np.float64)))

    def value(self) -> float:
        """The relative error, at least 0."""
        data = self._data.total()
        return sqrt(self._mean.total() / data) if data else float("nan")


class R2(Score):
    r"""The share of the data's variance that is explained, :math:`1 - \sum (y - t)^2 / \sum (t - \bar t)^2`.

    Taken for each element of a sample apart, then averaged. It needs two samples, and data that vary: else it is NaN.

    Args:
        output: Name of the predictions :math:`y`, [n, …].
        target: Name of what they should be, :math:`t`, [n, …].

    Example:
        >>> score = R2("y", "t")
        >>> score.add({"y": np.array([2.5, 0.0])}, {"t": np.array([3.0, -0.5])})
        >>> score.add({"y": np.array([2.0, 8.0])}, {"t": np.array([2.0, 7.0])})
        >>> round(score.value(), 4)
        0.9486

    Source:
        Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979, (2.1).
    """

    name = "R²"

    def __init__(self, output: str, target: str) -> None:
        self.output, self.target = output, target
        self.reads = Reads(output, target)
        self._count = 0
        self._mean: NDArray[np.float64] = np.zeros(0)
        self._spread: NDArray[np.float64] = np.zeros(0)
        self._errors: NDArray[np.float64] = np.zeros(0)

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        off = difference(outputs, batch, self.output, self.target)
        count = len(off)
        if not count:
            return
        columns = np.asarray(batch[self.target], np.float64).reshape(count, -1)
        mean = columns.mean(axis=0)
        spread, errors = ((x**2).sum(axis=0) for x in (columns - mean, off.reshape(count, -1)))
        if not self._count:
            self._count, self._mean, self._spread, self._errors = count, mean, spread, errors
            return
        if len(mean) != len(self._mean):
            raise InvalidInput(f"samples of {len(mean)} elements", f"{len(self._mean)}, as in the batches before")
        apart, both = mean - self._mean, self._count + count
        self._spread = self._spread + spread + apart**2 * (self._count * count / both)
        self._mean = self._mean + apart * (count / both)
        self._errors, self._count = self._errors + errors, both

    def value(self) -> float:
        """The share, at most 1; below 0 for predictions that are worse than the data's mean."""
        if self._count < 2 or not np.all(self._spread > 0):
            return float("nan")
        return float(np.mean(1 - self._errors / self._spread))


def difference(
    outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray], output: str, target: str
) -> NDArray[np.float64]:
    """Prediction less target, in float64.

    Raises:
        InvalidInput: One is missing, or their shapes differ.
    """
    y, t = array_named(outputs, output, "outputs"), array_named(batch, target, "samples' arrays")
    if y.shape != t.shape or not y.ndim:
        raise InvalidInput(
            f"{output!r} of shape {list(y.shape)} beside {target!r} of shape {list(t.shape)}",
            "two of the same shape, [n, …]",
        )
    with np.errstate(invalid="ignore", over="ignore"):
        return y.astype(np.float64) - t.astype(np.float64)


def squares(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The square of each element; infinite where it is too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.square(x)


Losses = Callable[[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], np.ndarray]
"""From outputs and samples to the loss of each sample, [n]."""


class SampleLosses(_MeanScore):
    """The loss of each sample, which shows those that are learned worst; its value is their mean.

    Args:
        of: Computes the losses of a batch: `cross_entropies`, `squared_errors`, or your own function of the outputs and the
            samples.
        name: What to call it.
        unit: Of the losses.

    Example:
        >>> score = SampleLosses(squared_errors("y", "t"))
        >>> score.add({"y": np.array([1.0, 2.0])}, {"t": np.array([1.0, 5.0])})
        >>> score.losses.tolist(), score.value()
        ([0.0, 9.0], 4.5)
    """

    direction: Direction = "lower"

    def __init__(self, of: Losses, name: str = "loss of a sample", unit: str = "") -> None:
        super().__init__(getattr(of, "reads", None))
        self.name, self.unit = name, unit
        self._of = of
        self._parts: list[NDArray[np.float64]] = []

    def values(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """The loss of each sample."""
        losses = np.asarray(self._of(outputs, batch), np.float64)
        count = len(next(iter(batch.values())))
        if losses.shape != (count,):
            raise InvalidInput(f"losses of shape {list(losses.shape)} for {count} samples", f"[{count}]")
        self._parts.append(losses)
        return losses

    @property
    def losses(self) -> NDArray[np.float64]:
        """That of each sample so far, in their order, [n]."""
        return np.concatenate([np.zeros(0), *self._parts])


@dataclass(frozen=True)
class _Losses:
    """Losses that tell what they read."""

    reads: Reads
    of: Losses

    def __call__(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.of(outputs, batch)


def cross_entropies(output: str, target: str, *, axis: int = 1, ignore: int | None = None) -> Losses:
    """The cross-entropy of each sample in nats, summed over its labels; those to be ignored add nothing.

    Args:
        output: Name of the scores before the softmax, [n, C, …].
        target: Name of the labels, [n, …].
        axis: The axis of classes.
        ignore: The label of positions that do not count.

    Example:
        >>> losses = cross_entropies("logits", "label")
        >>> losses({"logits": np.zeros((2, 4))}, {"label": np.array([0, 3])}).round(4)
        array([1.3863, 1.3863])
    """

    def losses(outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        classified = Labels(output, target, axis, ignore, seen=None).read(outputs, batch)
        return np.bincount(classified.samples, weights=nats(classified), minlength=len(batch[target]))

    return _Losses(Reads(output, target), losses)


def squared_errors(output: str, target: str) -> Losses:
    """The squared error of each sample, summed over its elements.

    Args:
        output: Name of the predictions, [n, …].
        target: Name of what they should be, [n, …].
    """

    def losses(outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> np.ndarray:
        off = squares(difference(outputs, batch, output, target))
        return off.reshape(len(off), -1).sum(axis=1)

    return _Losses(Reads(output, target), losses)


class Evaluation(Generic[A]):
    """Runs a network on a whole data set, in order, and scores it.

    Args:
        executor: The network to evaluate, prepared with ``mode="train"``, so that it takes parameters as they are.
        dataset: The samples; those of their arrays that the network has as inputs are fed.
        scores: Each makes a fresh `Score`.
        batch: The number of samples at a time; the last batch may be smaller.

    Attributes:
        scores: Those of the last evaluation, with all that they know; unused ones before the first.

    Raises:
        InvalidArgument: No samples, no scores, or two of one name.
        UnknownName: A score reads an output that the network does not have, or an array that the samples do not.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.training.scores import Accuracy, ConfusionMatrix
        >>> digits = db.datasets["digits"](part="test")
        >>> executor = db.frameworks["reference"]().prepare(db.load("digits-cnn"), mode="train")
        >>> made = [lambda: Accuracy("logits", "label"), lambda: ConfusionMatrix("logits", "label")]
        >>> evaluation = Evaluation(executor, digits, made)
        >>> figures = evaluation(executor.parameters, {})
        >>> sorted(figures), figures["accuracy"] > 0.9
        (['accuracy', 'balanced accuracy'], True)
        >>> evaluation.scores["balanced accuracy"].recall.shape
        (10,)
    """

    def __init__(
        self, executor: Executor[A], dataset: Dataset, scores: Sequence[Callable[[], Score]], *, batch: int = 256
    ) -> None:
        if not len(dataset) or not scores or natural("batch", batch) < 1:
            raise InvalidArgument(
                f"an evaluation on {len(dataset)} samples by {len(scores)} scores in batches of {batch}",
                "at least one of each",
            )
        self.executor, self.dataset, self.batch = executor, dataset, batch
        self._fetch = Fetch(dataset)
        self._makers = tuple(scores)
        self.scores = self._fresh()
        outputs = [spec.name for spec in executor.network.outputs] if executor.network is not None else []
        held = [spec.name for spec in getattr(dataset, "specs", ())]
        for score in self.scores.values():
            if score.reads is None:
                continue
            if outputs and score.reads.output not in outputs:
                raise UnknownName(f"output of the network for the {score.name}", score.reads.output, outputs)
            if held and score.reads.array is not None and score.reads.array not in held:
                raise UnknownName(f"array of the samples for the {score.name}", score.reads.array, held)

    def __call__(self, parameters: Mapping[str, A], statistics: Mapping[str, A]) -> dict[str, float]:
        """Name of each score to its value.

        Args:
            parameters: Native arrays, taken as they are, without a copy.
            statistics: Further inputs.

        Raises:
            InvalidInput: The data set lacks an input of the network or something that a score needs, or does not fit them.
            InvalidData: A sample cannot be read, or is something else than arrays by name.
        """
        for name, value in parameters.items():
            if value is not self.executor.parameters[name]:
                self.executor.parameters[name] = value
        self.scores, device = self._fresh(), self.executor.device
        feed = Feed([spec for spec in self.executor.inputs if spec.name not in statistics], self.executor.network)
        for start in range(0, len(self.dataset), self.batch):
            numbers = np.arange(start, min(start + self.batch, len(self.dataset)))
            batch = self._fetch(0, numbers)
            fed = {name: device.adopt(array) for name, array in feed(batch, numbers).items()}
            native = self.executor.forward({**fed, **statistics})
            device.synchronize()
            outputs = {name: device.to_numpy(value) for name, value in native.items()}
            for score in self.scores.values():
                score.add(outputs, batch)
        return {name: score.value() for name, score in self.scores.items()}

    def _fresh(self) -> dict[str, Score]:
        scores: dict[str, Score] = {}
        for make in self._makers:
            score = make() if callable(make) else make
            if score is make or not isinstance(score, Score):
                came = f"a {type(score).__name__} as what makes a score"
                raise InvalidArgument(came, "functions that each make a fresh Score", "scores=[lambda: Accuracy(…), …]")
            if score.name in scores:
                raise InvalidArgument(f"two scores named {score.name!r}", "a name of its own for each")
            scores[score.name] = score
        return scores
