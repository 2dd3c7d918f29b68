"""QSGD: gradients rounded at random to a few levels, so that they are right on average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.reference.distributed.scheme import Scheme, contributions, draws, flat, total, unflat
from deep_bench.training.optimizer import COUNT, one_of, setting


@dataclass(frozen=True)
class Quantised(Scheme):
    r"""QSGD, algorithm 1: every rank gives a quantised contribution, all add up what they got.

    The vector is cut into groups of ``group`` elements (the paper's buckets; the last may be shorter). Of a group :math:`v`
    with :math:`s` levels, element :math:`i` becomes

    .. math::
        Q_s(v_i) = \|v\|_2 \, \mathrm{sgn}(v_i) \, \xi_i, \qquad
        \xi_i = \begin{cases} (l + 1) / s & \text{with probability } s |v_i| / \|v\|_2 - l \\ l / s & \text{otherwise}
        \end{cases}

    where :math:`0 \le l < s` is the whole number with :math:`|v_i| / \|v\|_2 \in [l / s, (l + 1) / s]`: up where the
    element's draw is below that probability. A group of zeros stays one. It is unbiased, :math:`E\,Q_s(v) = v`, with
    :math:`E \|Q_s(v) - v\|^2 \le \min(d / s^2, \sqrt d / s) \|v\|^2`; there is no error feedback. How levels are coded into
    bits changes no value.

    Args:
        inner: The rule, in the same state on every rank.
        levels: :math:`s`.
        group: Elements that share a norm: the paper's :math:`d`.
        norm: ``"euclidean"``, or ``"max"`` for the largest magnitude.
        seed: Of the draws.

    Source:
        Alistarh, Grubic, Li, Tomioka and Vojnovic, *QSGD*, NIPS 2017, section 3.1 and lemma 3.1; buckets and
        the other norm are what its experiments use.
    """

    levels: int = setting(127, COUNT)
    group: int = setting(512, COUNT)
    norm: str = setting("euclidean", one_of("euclidean", "max"))
    seed: int = 0

    decides = True

    def step(self, gradients, samples, state, parameters):
        received = []
        for rank, contribution in enumerate(contributions(gradients, samples)):
            vector = flat(contribution)
            chance = draws(self.seed, state["steps"], rank, vector.size)
            received.append(unflat(self.quantise(vector, chance), contribution))
        whole = total(received)
        return self.updated([whole for _ in parameters], state, parameters)

    def quantise(self, vector: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """A vector, rounded by draws of the same length."""
        groups = []
        for begin in range(0, vector.size, self.group):
            v, u = vector[begin : begin + self.group], chance[begin : begin + self.group]
            size = np.sqrt(np.sum(v * v)) if self.norm == "euclidean" else np.max(np.abs(v))
            if size == 0:
                groups.append(v)
                continue
            place = np.abs(v) / size * self.levels
            lower = np.minimum(np.floor(place), self.levels - 1)
            level = lower + (u < place - lower)
            groups.append(size * np.sign(v) * (level / self.levels))
        return np.concatenate(groups)
