"""Sparse gradients: each rank gives its largest elements only, and remembers the rest."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from deep_bench.reference.distributed.scheme import Scheme, contributions, flat, total, unflat
from deep_bench.training.optimizer import Allowed, setting

SHARE_ABOVE_0 = Allowed("a share above 0, at most 1", lambda value: 0 < value <= 1)


@dataclass(frozen=True)
class Sparse(Scheme):
    r"""Top-k with error feedback.

    With rank :math:`i`'s contribution :math:`c_i` as one vector and the residual :math:`\epsilon_i`, at first 0:

    .. math::
        a_i &= \epsilon_i + c_i \\
        \epsilon_i' &= a_i - \mathrm{TopK}(a_i) \\
        x' &= \mathrm{inner}\left(x, \sum_i \mathrm{TopK}(a_i)\right)

    TopK keeps the :math:`\lceil k d \rceil` elements of the vector's :math:`d` that are largest in
    magnitude, of equal ones the first, and puts zeros elsewhere. The sum has elements wherever *any* rank chose one, up to
    :math:`N \lceil k d \rceil`. Whether it travels as pairs or as a whole vector changes no value.

    What was added and not yet given is in the residuals: :math:`\sum_t \sum_i \mathrm{TopK}(a_i^t) + \sum_i \epsilon_i^T =
    \sum_t \sum_i c_i^t`. The papers multiply by the rate before they accumulate, here the inner rule does it afterwards: the
    same for SGD with a constant rate.

    Args:
        inner: The rule, in the same state on every rank.
        k: The share of the elements that each rank gives.

    Source:
        Renggli, Ashkboos, Aghagolzadeh, Alistarh and Hoefler, *SparCML*, SC 2019, algorithm 1 (without quantisation), and
        its sparse allreduce, which may switch to dense; Aji and Heafield, *Sparse communication for distributed gradient
        descent*, EMNLP 2017, algorithm 1 (gradient dropping).
    """

    k: float = setting(0.01, SHARE_ABOVE_0)

    decides = True

    def init(self, parameters):
        return {**super().init(parameters), "residual": [np.zeros_like(flat(x)) for x in parameters]}

    def step(self, gradients, samples, state, parameters):
        terms, residuals = [], []
        for contribution, residual in zip(contributions(gradients, samples), state["residual"], strict=True):
            accumulated = residual + flat(contribution)
            chosen = top(accumulated, ceil(self.k * accumulated.size))
            terms.append(unflat(np.where(chosen, accumulated, 0.0), contribution))
            residuals.append(np.where(chosen, 0.0, accumulated))
        whole = total(terms)
        return self.updated([whole for _ in parameters], state, parameters, residual=residuals)


def top(x: np.ndarray, k: int) -> np.ndarray:
    """Where the k elements of the largest magnitude are; among equal ones the first.

    Example:
        >>> top(np.array([1.0, -3.0, 3.0, 2.0]), 2)
        array([False,  True,  True, False])
    """
    order = np.argsort(-np.abs(x), kind="stable")
    chosen = np.zeros(x.shape, bool)
    chosen[order[:k]] = True
    return chosen
