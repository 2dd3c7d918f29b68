"""PowerSGD: gradients of low rank, by one step of power iteration."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.flat import Buffers
from deep_bench.distributed.optimizer import A
from deep_bench.distributed.schemes.around import WIDE, Compressed, zeros
from deep_bench.distributed.schemes.chance import SEED
from deep_bench.training.optimizer import COUNT, Arrays, setting


@dataclass(frozen=True)
class LowRank(Compressed[A]):
    r"""PowerSGD with error feedback and warm start. Each parameter of two axes or more is a matrix, the first axis by all
    others.

    With :math:`c_i = (n_i / \sum_j n_j) g_i` from :math:`n_i` samples, the error :math:`e_i`, 0 at first, and a :math:`Q`
    that all ranks share,

    .. math::
        M_i &= c_i + e_i, \quad \hat P = \operatorname{orthonormal}\left(\sum_j M_j Q\right), \quad
        Q_i = M_i^\mathsf{T} \hat P, \\
        Q' &= \sum_j Q_j, \quad e_i' = M_i - \hat P Q_i^\mathsf{T}, \quad x' = \operatorname{inner}(x, \hat P Q'^\mathsf{T}).

    All :math:`M Q` travel in one message together with the parameters of one axis, which are not compressed; all :math:`Q`
    in a second.

    Args:
        rank: The columns of :math:`\hat P`, at most as many as the matrix has rows or columns.
        seed: The first :math:`Q` of parameter number :math:`p` is drawn from (seed, :math:`p`).

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = LowRank(db.optimizers["sgd"](lr=1.0), comm, rank=1), {"w": np.zeros((2, 2))}
        ...     w, _ = rule.update({"w": np.array([[1.0, 2.0], [2.0, 4.0]])}, rule.init(w, NUMPY), w, NUMPY)
        ...     return w["w"].round(6).tolist()
        >>> run_local(2, on_rank)[0]
        [[-1.0, -2.0], [-2.0, -4.0]]

    Source:
        Vogels, Karimireddy and Jaggi, *PowerSGD: practical low-rank gradient compression for distributed optimization*,
        NeurIPS 2019, algorithms 1 and 2.
    """

    rank: int = setting(2, COUNT)
    seed: int = setting(0, SEED)

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        basis: dict[str, A] = {}
        for index, (name, w) in enumerate(parameters.items()):
            shape = xp.shape(w)
            if len(shape) > 1 and 0 not in shape:
                rows, columns = shape[0], prod(shape[1:])
                first = np.random.default_rng([self.seed, index]).standard_normal((columns, min(self.rank, rows, columns)))
                basis[name] = xp.array(first.astype(max(xp.dtype(w), WIDE, key=lambda dtype: dtype.itemsize)))
        return {"basis": basis, "residual": zeros({name: parameters[name] for name in basis}, xp)}

    def _sum(self, contribution: Buffers, state: Tree, xp: ArrayFunctions[A]) -> dict[str, Any]:
        matrices = {name: _matrix(part) for name, part in contribution.parts.items() if name in state["basis"]}
        vectors = {name: part for name, part in contribution.parts.items() if name not in matrices}
        for name, matrix in matrices.items():
            matrix += _matrix(xp.host(state["residual"][name]))
        small = {name: m @ xp.host(state["basis"][name]) for name, m in matrices.items()}
        summed = self._together({**vectors, **small})
        for name, part in vectors.items():
            part[...] = summed[name]
        left_factor = {name: np.linalg.qr(summed[name])[0] for name in matrices}
        mine = {name: m.T @ left_factor[name] for name, m in matrices.items()}
        errors = {
            name: xp.array((m - left_factor[name] @ mine[name].T).reshape(xp.shape(state["residual"][name])))
            for name, m in matrices.items()
        }
        right = self._together(mine)
        for name, matrix in matrices.items():
            matrix[...] = left_factor[name] @ right[name].T
        return {"basis": {name: xp.array(right[name]) for name in state["basis"]}, "residual": errors}

    def _together(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Sums over all ranks, with one message for each element type."""
        sums: dict[str, np.ndarray] = {}
        for dtype in dict.fromkeys(x.dtype for x in arrays.values()):
            alike = {name: x for name, x in arrays.items() if x.dtype == dtype}
            flat = np.concatenate([x.reshape(-1) for x in alike.values()])
            self.comm.allreduce(flat, out=flat)
            ends = np.cumsum([x.size for x in alike.values()])
            for (name, x), part in zip(alike.items(), np.split(flat, ends[:-1]), strict=True):
                sums[name] = part.reshape(x.shape)
        return sums


def _matrix(x: np.ndarray) -> np.ndarray:
    """The first axis by all others, in the same memory."""
    return x.reshape(len(x), -1)
