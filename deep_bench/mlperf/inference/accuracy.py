"""The accuracy of a classification, beside that of the reference executor on the same samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from deep_bench import frameworks
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.mlperf.inference.logs import Answers
from deep_bench.mlperf.inference.record import AccuracyRecord
from deep_bench.mlperf.inference.workload import ANSWER, Work

MOST_REFERENCE_SAMPLES = 10_000
"""The reference, which is slow, is asked of no more."""

_AT_ONCE = 64


class Judge:
    """Compares classes with those of the data set, and with the reference executor's.

    Args:
        work: What was run; its samples are classified.

    Raises:
        InvalidArgument: The data set is too large for the reference to be asked, and its accuracy is not stated.

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

    @property
    def reference(self) -> NDArray[np.int64]:
        """The class of each sample by the reference executor, asked once."""
        if self._classes is None:
            work = self._work
            executor = frameworks["reference"]().prepare(work.network)
            size, count = work.fixed_batch or _AT_ONCE, len(self._labels)
            found = []
            for start in range(0, count, size):
                numbers = np.arange(start, start + size if work.fixed_batch else min(start + size, count)) % count
                batch = work.dataset[numbers]
                outputs = executor({spec.name: batch[spec.name] for spec in work.network.inputs})
                found.append(work.answers(outputs[work.output]))
            self._classes = np.concatenate(found)[:count].astype(np.int64)
        return self._classes

    def accuracy(self, answers: Answers) -> AccuracyRecord:
        """Of accuracy mode: the samples that LoadGen logged, which are all of the data set.

        Raises:
            InvalidRecord: An answer that is no class, to no sample of the data set, or a sample without one.
        """
        classes = np.full(len(self._labels), -1, np.int64)
        classes[checked(answers.index, len(self._labels))] = decoded(answers.data)
        if missing := int(np.sum(classes < 0)):
            raise InvalidRecord(f"{missing} samples without an answer in the accuracy log", f"{len(classes)} answers")
        return self._compared("accuracy mode", classes)

    def performance(self, classes: NDArray[np.int64]) -> AccuracyRecord | None:
        """Of performance mode.

        Args:
            classes: The last answer to each sample of the data set; -1 of those that were not asked for.

        Returns:
            ``None`` where the reference's accuracy was stated and not all samples were asked for.
        """
        if self._stated is not None and (classes < 0).any():
            return None
        return self._compared("performance mode", classes)

    def _compared(self, of: Literal["accuracy mode", "performance mode"], classes: NDArray[np.int64]) -> AccuracyRecord:
        asked = classes >= 0
        total = int(np.sum(asked))
        found = AccuracyRecord(
            of=of,
            correct=int(np.sum((classes == self._labels) & asked)),
            total=total,
            reference=self._stated or 0.0,
            reference_from="stated",
            share=self._work.settings.target_share,
        )
        if self._stated is None:
            found.reference_from = "measured"
            found.reference = float(np.mean((self.reference == self._labels)[asked])) if total else 0.0
            found.differing = int(np.sum((classes != self.reference) & asked))
        return found


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
