"""The accuracy of a classification, beside that of the reference executor on the same samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from deep_bench import frameworks
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.mlperf.inference.ledger import NO_CLASS, NOT_ASKED
from deep_bench.mlperf.inference.logs import Answers
from deep_bench.mlperf.inference.record import AccuracyRecord
from deep_bench.mlperf.inference.scenario import TARGET_SHARE
from deep_bench.mlperf.inference.settings import Settings
from deep_bench.mlperf.inference.workload import ANSWER, Work

MOST_REFERENCE_SAMPLES = 10_000
"""The reference, which is slow, is asked of no more."""

_AT_ONCE = 64


class Judge:
    """Compares classes with those of the data set, and with the reference executor's.

    Args:
        work: What was run; its samples are classified.

    Raises:
        InvalidArgument: The data set is too large for the reference to be asked, and its accuracy is not stated; or one
            class for all samples reaches the target.

    Example:
        >>> from deep_bench.mlperf.inference.settings import Settings
        >>> from deep_bench.mlperf.inference.workload import make_work
        >>> judge = Judge(make_work("digits-cnn", "reference", None, Settings()))
        >>> found = judge.performance(np.where(np.arange(355) < 100, judge.reference, -1))
        >>> found.total, found.differing, found.met
        (100, 0, True)
    """

    def __init__(self, work: Work) -> None:
        assert work.labels is not None
        self._work, self._labels = work, work.labels
        self._stated = work.settings.reference_accuracy
        self._classes: NDArray[np.int64] | None = None
        if self._stated is None and len(self._labels) > MOST_REFERENCE_SAMPLES:
            came = f"{len(self._labels)} samples, on which the reference, which is slow, would have to be asked"
            raise InvalidArgument(came, f"at most {MOST_REFERENCE_SAMPLES}, or its accuracy", "--reference-accuracy 0.7646")
        check_target(work.settings, self._labels)

    @property
    def reference(self) -> NDArray[np.int64]:
        """The class of each sample by the reference executor, asked once."""
        if self._classes is None:
            work = self._work
            executor = frameworks["reference"]().prepare(work.network)
            size, count = work.fixed_batch or _AT_ONCE, len(self._labels)
            predictions = []
            for start in range(0, count, size):
                numbers = np.arange(start, start + size if work.fixed_batch else min(start + size, count)) % count
                batch = work.dataset[numbers]
                outputs = executor({spec.name: batch[spec.name] for spec in work.network.inputs})
                predictions.append(work.answers(outputs[work.output]))
            self._classes = np.concatenate(predictions)[:count].astype(np.int64)
        return self._classes

    def accuracy(self, answers: Answers) -> AccuracyRecord:
        """Of accuracy mode: the samples that LoadGen logged, which are all of the data set.

        Raises:
            InvalidRecord: An answer that is no class, to no sample of the data set, or a sample without one.
        """
        classes = np.full(len(self._labels), NOT_ASKED, np.int64)
        predictions = decoded(answers.data)
        classes[checked(answers.index, len(self._labels))] = np.where(predictions < 0, NO_CLASS, predictions)
        if missing := int(np.sum(classes == NOT_ASKED)):
            raise InvalidRecord(f"{missing} samples without an answer in the accuracy log", f"{len(classes)} answers")
        return self._compared("accuracy mode", classes)

    def performance(self, classes: NDArray[np.int64]) -> AccuracyRecord | None:
        """Of performance mode.

        Args:
            classes: The class of the last answer to each sample of the data set, as `Ledger.answers` gives them.

        Returns:
            ``None`` where none was asked for, or the reference's accuracy was stated and not all were.
        """
        mask = classes != NOT_ASKED
        if not mask.any() or (self._stated is not None and not mask.all()):
            return None
        return self._compared("performance mode", classes)

    def _compared(self, of: Literal["accuracy mode", "performance mode"], classes: NDArray[np.int64]) -> AccuracyRecord:
        mask = classes != NOT_ASKED
        predictions, labels = classes[mask], self._labels[mask]
        reference = None if self._stated is not None else self.reference[mask]
        measured = 0.0 if reference is None else float(np.mean(reference == labels))
        return AccuracyRecord(
            of=of,
            correct=int(np.sum(predictions == labels)),
            total=len(predictions),
            reference=measured if self._stated is None else self._stated,
            reference_from="measured" if self._stated is None else "stated",
            share=self._work.settings.target_share,
            differing=None if reference is None else int(np.sum(predictions != reference)),
            unclassed=int(np.sum((predictions < 0) | (predictions >= self._classes_known))),
            constant=_of_one_class(labels),
        )

    @property
    def _classes_known(self) -> int:
        """How many classes there are: of the network, or else of the data set."""
        size = self._work.network.outputs[0].shape[1]
        return max(size if isinstance(size, int) else 0, int(self._labels.max()) + 1)


def check_target(settings: Settings, labels: NDArray[np.int64]) -> None:
    """See that a target that was stated is not one that any answer reaches.

    Raises:
        InvalidArgument: One class for all samples does.
    """
    reference_accuracy = settings.reference_accuracy
    if reference_accuracy is None and settings.target_share >= TARGET_SHARE:
        return
    target = settings.target_share * (1.0 if reference_accuracy is None else reference_accuracy)
    constant = _of_one_class(labels)
    if len(np.unique(labels)) > 1 and target <= constant:
        of = "at best" if reference_accuracy is None else f"of the stated {reference_accuracy:g}"
        raise InvalidArgument(
            f"a target of accuracy of {target:.4g}, {100 * settings.target_share:g} % {of}",
            f"more than {constant:.4f}, which one class for all samples gives",
            "leave --target-share and --reference-accuracy out, or state what is asked for",
        )


def _of_one_class(labels: NDArray[np.int64]) -> float:
    """The accuracy of the best answer that is the same whatever the sample."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


def decoded(data: Iterable[bytes]) -> NDArray[np.int64]:
    """Answers as classes.

    Raises:
        InvalidRecord: One is not of 8 bytes.
    """
    parts = list(data)
    for part in parts:
        if len(part) != ANSWER.itemsize:
            raise InvalidRecord(f"an answer of {len(part)} bytes", f"a class, {ANSWER.itemsize} bytes")
    return np.frombuffer(b"".join(parts), ANSWER).astype(np.int64)


def checked(index: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Numbers of samples, all of a data set of so many.

    Raises:
        InvalidRecord: One is not.
    """
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < count:
        raise InvalidRecord(f"an answer to sample {int(index.max())}", f"samples 0 to {count - 1}")
    return index
