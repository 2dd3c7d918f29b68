"""One bit an element, with error feedback."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.reference.distributed.scheme import Scheme, contributions, flat, total, unflat
from deep_bench.training.optimizer import COUNT, setting


@dataclass(frozen=True)
class OneBit(Scheme):
    r"""1-bit SGD: of each element only its sign is sent, and what that loses is added to the next gradient.

    With rank :math:`i`'s contribution :math:`c_i` and the quantisation error :math:`\Delta_i`, at first 0:

    .. math::
        a_i &= c_i + \Delta_i \\
        \Delta_i' &= a_i - Q^{-1}(Q(a_i)) \\
        x' &= \mathrm{inner}\left(x, \sum_i Q^{-1}(Q(a_i))\right)

    The threshold is 0: a bit says :math:`a \ge 0`. In each group of ``group`` elements of the vector, a bit stands for the
    mean of the group's elements that have it, which makes the square error smallest. The paper has one group for each column
    of a weight matrix; it also quantises the sum once more on its way back, which is not done here.

    Args:
        inner: The rule, in the same state on every rank.
        group: Elements that share a pair of values; the last group may be shorter.

    Source:
        Seide, Fu, Droppo, Li and Yu, *1-bit stochastic gradient descent and its application to data-parallel distributed
        training of speech DNNs*, Interspeech 2014, section 3.
    """

    group: int = setting(512, COUNT)

    decides = True

    def init(self, parameters):
        return {**super().init(parameters), "residual": [np.zeros_like(flat(x)) for x in parameters]}

    def step(self, gradients, samples, state, parameters):
        terms, residuals = [], []
        for contribution, residual in zip(contributions(gradients, samples), state["residual"], strict=True):
            vector = flat(contribution) + residual
            sent = self.decoded(vector)
            terms.append(unflat(sent, contribution))
            residuals.append(vector - sent)
        whole = total(terms)
        return self.updated([whole for _ in parameters], state, parameters, residual=residuals)

    def decoded(self, vector: np.ndarray) -> np.ndarray:
        """What others make of a vector's bits: the mean of the group's elements that have the same one."""
        groups = []
        for begin in range(0, vector.size, self.group):
            v = vector[begin : begin + self.group]
            positive = v >= 0
            decoded = np.zeros_like(v)
            for bit in (positive, ~positive):
                if bit.any():
                    decoded[bit] = np.sum(v[bit]) / np.sum(bit)
            groups.append(decoded)
        return np.concatenate(groups)
