"""PowerSGD: gradients of low rank, by one step of power iteration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.reference.distributed.scheme import Arrays, Scheme, contributions, total
from deep_bench.training.optimizer import COUNT, setting


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
