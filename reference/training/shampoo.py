"""Shampoo: a preconditioner for each axis of a parameter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.training.optimizer import COUNT, POSITIVE, RATE, Optimizer, Rate, norm, rate_at, setting


@dataclass(frozen=True)
class Shampoo(Optimizer):
    r"""The gradient times an inverse root of what its rows, and one of what its columns, have gathered.

    .. math::
        L' = L + g g^T, \qquad R' = R + g^T g, \qquad w' = w - r L'^{-1/4} g R'^{-1/4}

    Both start from :math:`\epsilon I`. A vector is a column and has :math:`L'^{-1/2}` alone; of more than two axes, all but
    the first are one. The roots are found by Newton's coupled iteration, which takes products of matrices only.

    Args:
        lr: The rate :math:`r`, a number or a schedule.
        epsilon: :math:`\epsilon`.
        turns: Iterations for a root. One gains a factor of about 2.4 of the condition number (2.25 for vectors), and the
            last few double the digits.

    Source:
        Gupta, Koren and Singer, *Shampoo: preconditioned stochastic tensor optimization*, ICML 2018, algorithm 1; Guo and
        Higham, *A Schur–Newton method for the matrix pth root and its inverse*, 2006, equation 3.4, for the roots.
    """

    lr: Rate = setting(0.1, RATE)
    epsilon: float = setting(1e-4, POSITIVE)
    turns: int = setting(30, COUNT)

    separable = True

    def init(self, parameters, xp):
        state = {"steps": xp.array(0, int), "rows": {}, "columns": {}}
        for name, w in parameters.items():
            rows, columns = sides(xp.shape(w))
            state["rows"][name] = xp.array(self.epsilon * np.eye(rows), xp.dtype(w))
            if len(xp.shape(w)) > 1:
                state["columns"][name] = xp.array(self.epsilon * np.eye(columns), xp.dtype(w))
        return state

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        rate = rate_at(self.lr, state["steps"], xp)
        new, after = {}, {"steps": xp.array(state["steps"] + 1), "rows": {}, "columns": {}}
        with xp.untracked():
            for name, w in parameters.items():
                g = xp.reshape(gradients[name], sides(xp.shape(w)))
                order = 4 if name in state["columns"] else 2
                left_factor = state["rows"][name] + xp.matmul(g, xp.transpose(g))
                step = xp.matmul(inverse_root(left_factor, order, self.turns, xp), g)
                after["rows"][name] = xp.array(left_factor)
                if name in state["columns"]:
                    right = state["columns"][name] + xp.matmul(xp.transpose(g), g)
                    step = xp.matmul(step, inverse_root(right, order, self.turns, xp))
                    after["columns"][name] = xp.array(right)
                new[name] = xp.array(w - xp.cast(rate, w) * xp.reshape(step, xp.shape(w)))
        return new, after


def sides(shape):
    """Rows and columns of a parameter as a matrix."""
    return (shape[0] if shape else 1), int(np.prod(shape[1:], dtype=int))


def inverse_root(a, order, turns, xp):
    r""":math:`A^{-1/p}` of a symmetric positive definite matrix.

    From :math:`M = A / c^p`, :math:`X = I / c`, where :math:`c^p = \|A\| / (p + 1) \cdot 2` bounds the spectrum of
    :math:`M` by :math:`(p + 1) / 2`: again and again :math:`T = ((p + 1) I - M) / p`, :math:`X \leftarrow X T`,
    :math:`M \leftarrow T^p M`, which goes to :math:`I`.
    """
    p, n = order, xp.shape(a)[0]
    identity = xp.array(np.eye(n), xp.dtype(a))
    power = norm([a], xp) * (2 / (p + 1))
    root = xp.sqrt(xp.sqrt(power)) if p == 4 else xp.sqrt(power)
    m, x = a / power, identity / root
    for _ in range(turns):
        t = ((p + 1) * identity - m) / p
        x = xp.matmul(x, t)
        square = xp.matmul(t, t)
        m = xp.matmul(xp.matmul(square, square) if p == 4 else square, m)
    return x
