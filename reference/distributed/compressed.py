"""Schemes that send less than a gradient: low rank (PowerSGD), one bit, few levels (QSGD), largest elements only."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from deep_bench.reference.distributed.scheme import Arrays, Scheme, contributions, draws, flat, total, unflat
from deep_bench.training.optimizer import COUNT, Allowed, one_of, setting


@dataclass(frozen=True)
class LowRank(Scheme):
    r"""PowerSGD with error feedback (algorithm 2) and warm start (algorithm 1).

    Each parameter with two axes or more is a matrix, the first axis by all others; shorter ones are added up uncompressed.
    Of rank :math:`i`'s contribution :math:`c_i`, with the memory :math:`e_i`, at first 0, and a matrix :math:`Q` for each
    parameter that all ranks share:

    .. math::
        M_i &= c_i + e_i \\
        \hat P &= \mathrm{orthogonalised}\left(\sum_i M_i Q\right) \\
        Q' &= \sum_i M_i^\mathsf{T} \hat P \\
        e_i' &= M_i - \hat P (M_i^\mathsf{T} \hat P)^\mathsf{T} \\
        x' &= \mathrm{inner}\left(x, \hat P Q'^\mathsf{T}\right)

    :math:`Q'` is the next step's :math:`Q` (warm start). Contributions hold the mean already, which the paper takes in its
    two all-reduces. Memories are those of algorithm 2, line 9: what the rank's own matrix loses in the common basis. Their
    sum is :math:`\sum_i M_i - \hat P Q'^\mathsf{T}`, so nothing is lost.

    Args:
        inner: The rule, in the same state on every rank; with momentum that of algorithm 2 up to the form of the last line.
        rank: Columns of :math:`\hat P`, at most as many as the matrix has rows or columns.
        seed: The first :math:`Q` of parameter number :math:`p` is ``np.random.default_rng([seed, p]).standard_normal``.

    Source:
        Vogels, Karimireddy and Jaggi, *PowerSGD*, NeurIPS 2019, algorithms 1 and 2.
    """

    rank: int = setting(2, COUNT)
    seed: int = 0

    def init(self, parameters):
        bases = {}
        for number, (name, x) in enumerate(parameters[0].items()):
            if x.ndim > 1:
                rows, columns = matrix(x).shape
                shape = (columns, min(self.rank, rows, columns))
                bases[name] = np.random.default_rng([self.seed, number]).standard_normal(shape).astype(x.dtype)
        memory = [{name: np.zeros_like(x[name]) for name in bases} for x in parameters]
        return {**super().init(parameters), "basis": bases, "memory": memory}

    def step(self, gradients, samples, state, parameters):
        terms = contributions(gradients, samples)
        whole: Arrays = {}
        bases: Arrays = {}
        memory: list[Arrays] = [{} for _ in parameters]
        for name, x in parameters[0].items():
            if name not in state["basis"]:
                whole[name] = total(terms)[name]
                continue
            matrices = [matrix(c[name] + e[name]) for c, e in zip(terms, state["memory"], strict=True)]
            p = orthogonalised(sum(m @ state["basis"][name] for m in matrices))
            parts = [m.T @ p for m in matrices]
            bases[name] = sum(parts)
            whole[name] = (p @ bases[name].T).reshape(x.shape)
            for e, m, q in zip(memory, matrices, parts, strict=True):
                e[name] = (m - p @ q.T).reshape(x.shape)
        return self.updated([whole for _ in parameters], state, parameters, basis=bases, memory=memory)


def matrix(x: np.ndarray) -> np.ndarray:
    """The first axis by all others."""
    return x.reshape(x.shape[0], -1)


def orthogonalised(p: np.ndarray) -> np.ndarray:
    """Columns made orthonormal one after the other, by Gram and Schmidt, twice; a column of zeros stays one.

    Once is too little: where gradients have a lower rank than the scheme, what is left of a column is all rounding error,
    and as good as parallel to any other. Only the space that columns span matters, so any other way gives the same values.

    Example:
        >>> orthogonalised(np.array([[3.0, 1.0], [4.0, 0.0]])).round(2) + 0.0
        array([[ 0.6,  0.8],
               [ 0.8, -0.6]])
    """
    columns: list = []
    for column in p.T:
        for _ in range(2):
            for done in columns:
                column = column - np.sum(done * column) * done
            length = np.sqrt(np.sum(column * column))
            column = column / length if length > 0 else column
        columns.append(column)
    return np.stack(columns, axis=1)


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
