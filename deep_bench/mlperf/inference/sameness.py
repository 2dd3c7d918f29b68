"""Whether the answers of TEST01 are those of accuracy mode: byte for byte, or else equally often right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_bench.mlperf.inference.accuracy import checked, decoded
from deep_bench.mlperf.inference.logs import Answers

BASELINE_ACCURACY, COMPLIANCE_ACCURACY = "baseline_accuracy.txt", "compliance_accuracy.txt"


@dataclass(frozen=True)
class Sameness:
    """What came of a comparison of logged answers.

    Args:
        total: Answers that the audit logged.
        differing: Of these, those that differ from accuracy mode in a byte.
        missing: Those to samples that accuracy mode has no answer to.
        right: How many of accuracy mode's answers to the same samples are right, and of the audit's; ``None`` where none
            differs, one is missing, or nothing is classified.
        allowed: How far apart the two accuracies may be, as a share of the first.
    """

    total: int
    differing: int
    missing: int
    right: tuple[int, int] | None
    allowed: float

    @property
    def exact(self) -> bool:
        """Whether all are the same."""
        return self.total > 0 and not self.missing and not self.differing

    @property
    def passed(self) -> bool:
        """Whether all are the same, or equally often right."""
        return self.exact or (self.right is not None and self._apart <= self.allowed)

    @property
    def _apart(self) -> float:
        assert self.right is not None
        baseline, audit = self.right
        return abs(audit - baseline) / baseline if baseline else float(audit != baseline)

    def text(self) -> str:
        """What was found."""
        summary = f"{self.total} logged answers, {self.differing} differ from accuracy mode, {self.missing} are not there"
        if self.exact or self.missing or not self.total:
            return summary
        if self.right is None:
            return f"{summary}; nothing is classified, so there are no accuracies to compare instead"
        baseline, audit = self.right
        return (
            f"{summary}; {audit} are right, {baseline} of accuracy mode's to the same samples: "
            f"{100 * self._apart:.2g} % apart, at most {100 * self.allowed:.2g} % allowed"
        )

    def accuracies(self) -> dict[str, str]:
        """Name of each file that the rules ask for where answers differ, to its text; none where all are the same."""
        if self.right is None:
            return {}
        texts = [f"accuracy={100 * right / self.total:.3f}%, good={right}, total={self.total}\n" for right in self.right]
        return dict(zip((BASELINE_ACCURACY, COMPLIANCE_ACCURACY), texts, strict=True))


def sameness(audit: Answers, accuracy: Answers, labels: NDArray[np.int64] | None, share: float) -> Sameness:
    """Compare the answers that an audit logged with those of accuracy mode to the same samples.

    Rounding may differ from run to run, with the sizes of batches or the order of threads: then the rules take the
    accuracies instead, which may be 1 - x apart where x is the share of the reference's accuracy that is asked for. Each
    logged answer counts, also where a sample has several.

    Args:
        audit: Of the audit.
        accuracy: Of accuracy mode.
        labels: The class of each sample; ``None`` where nothing is classified.
        share: x.

    Raises:
        InvalidRecord: An answer that is no class, or to no sample of the data set.

    Example:
        >>> def classes(*found):
        ...     return Answers(np.arange(len(found)), tuple(int(one).to_bytes(8, "little") for one in found))
        >>> labels = np.zeros(200, np.int64)
        >>> found = sameness(classes(*[0] * 199, 1), classes(*[0] * 200), labels, 0.99)
        >>> found.exact, found.passed, found.right
        (False, True, (200, 199))

    Source:
        mlcommons/inference, ``compliance/TEST01``, on non-determinism.
    """
    reference = accuracy.by_index()
    pairs = [(index, data, reference.get(index)) for index, data in zip(audit.index.tolist(), audit.data, strict=True)]
    missing = sum(counterpart is None for _, _, counterpart in pairs)
    differing = sum(counterpart is not None and counterpart != data for _, data, counterpart in pairs)
    right = None
    if differing and not missing and labels is not None:
        expected = labels[checked(audit.index, len(labels))]
        answers = ([counterpart for _, _, counterpart in pairs if counterpart is not None], audit.data)
        baseline, audit_count = (int(np.sum(decoded(answer_set) == expected)) for answer_set in answers)
        right = (baseline, audit_count)
    return Sameness(len(pairs), differing, missing, right, 1 - share)
