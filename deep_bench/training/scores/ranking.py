"""Whether what is relevant stands at the head of a list of candidates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.training.scores.mean import Mean
from deep_bench.training.scores.score import Reads, Score, taken


class HitRate(Score):
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

    def __init__(self, output: str, target: str, k: int = 10, *, candidates: int | None = None) -> None:
        self.name = f"hit rate@{k}"
        self.reads = Reads(output, target)
        self._lists = _Lists(output, target, k, candidates)
        self._mean = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        ranked, _ = self._lists.read(outputs, batch)
        self._mean.add(np.asarray((ranked[:, : self._lists.k] > 0).any(axis=1)))

    def value(self) -> float:
        """The share, from 0 to 1.

        Raises:
            InvalidInput: The last list is not complete.
        """
        self._lists.check_end()
        return self._mean.value()


class NDCG(Score):
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

    def __init__(self, output: str, target: str, k: int = 10, *, candidates: int | None = None) -> None:
        self.name = f"NDCG@{k}"
        self.reads = Reads(output, target)
        self._lists = _Lists(output, target, k, candidates)
        self._mean = Mean()

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """Take in a batch."""
        ranked, ideal = self._lists.read(outputs, batch)
        head = min(self._lists.k, ranked.shape[1])
        discount = 1 / np.log2(np.arange(head) + 2)
        gain, best = (gains[:, :head] @ discount for gains in (ranked, ideal))
        self._mean.add(gain / best)

    def value(self) -> float:
        """The mean, from 0 to 1.

        Raises:
            InvalidInput: The last list is not complete.
        """
        self._lists.check_end()
        return self._mean.value()


class _Lists:
    """Lists of candidates, checked, each in the order of its scores and in the best order."""

    def __init__(self, output: str, target: str, k: int, candidates: int | None) -> None:
        if k < 1 or (candidates is not None and k >= candidates):
            raise InvalidArgument(f"the first {k} of {candidates or 'all'} candidates", "at least 1, and not all of them")
        self.output, self.target, self.k, self.candidates = output, target, k, candidates
        self._seen = 0
        self._rest = np.zeros((0, 2))

    def read(
        self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The relevance of the candidates of each list, in the order of their scores and in the best order."""
        scores, gains = taken(outputs, self.output, "outputs"), taken(batch, self.target, "samples' arrays")
        if scores.shape != gains.shape or scores.ndim != (2 if self.candidates is None else 1):
            raise InvalidInput(
                f"{self.output!r} of shape {list(scores.shape)} beside {self.target!r} of shape {list(gains.shape)}",
                "two of shape [n, candidates]" if self.candidates is None else "two of shape [n]",
            )
        scores, gains = self._whole(scores.astype(np.float64), gains.astype(np.float64))
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
        return np.take_along_axis(gains, order, axis=1), -np.sort(-gains, axis=1)

    def _whole(self, scores: NDArray[np.float64], gains: NDArray[np.float64]) -> tuple[np.ndarray, np.ndarray]:
        """As lists; the beginning of one that is not complete is kept for the next batch."""
        if self.candidates is None:
            return scores, gains
        every = np.concatenate([self._rest, np.stack([scores, gains], axis=1)])
        whole = len(every) // self.candidates * self.candidates
        self._rest = every[whole:]
        lists = every[:whole].reshape(-1, self.candidates, 2)
        return lists[..., 0], lists[..., 1]

    def check_end(self) -> None:
        """Whether the last list is complete."""
        if len(self._rest):
            raise InvalidInput(
                f"a last list of {len(self._rest)} candidates", f"{self.candidates} in each list", "see to the set's length"
            )
