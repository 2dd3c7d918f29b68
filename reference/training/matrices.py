"""Rules for matrices as a whole: a preconditioner for each axis (Shampoo), momentum made orthogonal (Muon)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.reference.training.adam import AdamW
from deep_bench.training.optimizer import (
    BETA,
    COUNT,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    Allowed,
    Optimizer,
    Rate,
    each,
    norm,
    one_of,
    rate_at,
    setting,
    started,
)


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


QUINTIC = (3.4445, -4.7750, 2.0315)
"""The polynomial of Jordan et al.: it brings singular values from (0, 1] to about 0.7 to 1.2 in five turns."""


def orthogonal(g, turns, epsilon, xp):
    r"""The matrix with the same singular vectors and all singular values near 1.

    From :math:`x = g / \|g\|`, five times :math:`x \leftarrow (a + b A + c A^2) x` with :math:`A = x x^T`.
    """
    a, b, c = QUINTIC
    tall = xp.shape(g)[0] > xp.shape(g)[1]
    x = xp.transpose(g) if tall else g
    x = x / xp.maximum(norm([x], xp), epsilon)
    for _ in range(turns):
        gram = xp.matmul(x, xp.transpose(x))
        x = a * x + xp.matmul(b * gram + c * xp.matmul(gram, gram), x)
    return xp.transpose(x) if tall else x


@dataclass(frozen=True)
class Muon(Optimizer):
    r"""For matrices: :math:`v' = \mu v + (1 - \mu) g`, and a step along the orthogonal matrix nearest to it.

    With :math:`u = (1 - \mu) g + \mu v'` (Nesterov) and :math:`O` of `orthogonal`:

    .. math::
        w' = (1 - r \lambda) w - r c\, O(u), \qquad c = \sqrt{\max(1, \text{rows} / \text{columns})}

    Parameters that are no matrices are left to another rule.

    Args:
        lr: The rate :math:`r`, a number or a schedule; 0.02 in the original, 0.001 in torch.
        momentum: :math:`\mu`.
        weight_decay: :math:`\lambda`; 0.1 in torch.
        nesterov: Without it, :math:`u = v'`.
        turns: How often the polynomial is applied.
        epsilon: The least norm that :math:`u` is divided by.
        scale: ``"original"``: :math:`c` as above. ``"rms"``: :math:`0.2 \sqrt{\max(\text{rows}, \text{columns})}`, a step as
            long as AdamW's (Liu et al.).
        others: The rule for what is no matrix; ``None`` refuses it.

    torch computes :math:`O` in bfloat16.

    Source:
        Jordan et al., *Muon: an optimizer for hidden layers in neural networks*, 2024; Liu et al., *Muon is scalable for
        LLM training*, arXiv:2502.16982, section 2.2.
    """

    lr: Rate = setting(0.02, RATE)
    momentum: float = setting(0.95, BETA)
    weight_decay: float = setting(0.0, NOT_NEGATIVE)
    nesterov: bool = setting(True, FLAG)
    turns: int = setting(5, COUNT)
    epsilon: float = setting(1e-7, POSITIVE)
    scale: str = setting("original", one_of("original", "rms"))
    others: Optimizer | None = setting(
        AdamW(), Allowed("an optimizer or None", lambda value: value is None or isinstance(value, Optimizer))
    )

    @property
    def separable(self):
        return self.others is None or self.others.separable

    def init(self, parameters, xp):
        matrices, remaining = self._parted(parameters, xp)
        state = started(matrices, xp, "momentum")
        return {**state, "others": self.others.init(remaining, xp)} if self.others is not None and remaining else state

    def _parted(self, parameters, xp):
        matrices = {name: w for name, w in parameters.items() if len(xp.shape(w)) == 2}
        remaining = {name: w for name, w in parameters.items() if name not in matrices}
        if remaining and self.others is None:
            name, w = next(iter(remaining.items()))
            raise InvalidArgument(f"muon with {name!r} of shape {list(xp.shape(w))}", "matrices, or others=a rule for it")
        return matrices, remaining

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        r = rate_at(self.lr, state["steps"], xp)
        retention = 1 - r * self.weight_decay

        def rule(w, g, v):
            v = self.momentum * v + (1 - self.momentum) * g
            u = (1 - self.momentum) * g + self.momentum * v if self.nesterov else v
            rows, columns = xp.shape(w)
            scale = max(1.0, rows / columns) ** 0.5 if self.scale == "original" else 0.2 * max(rows, columns) ** 0.5
            return xp.cast(retention, w) * w - xp.cast(r * scale, w) * orthogonal(u, self.turns, self.epsilon, xp), v

        matrices, remaining = self._parted(parameters, xp)
        new, after = each(rule, gradients, state, matrices, xp, "momentum")
        if self.others is not None and remaining:
            moved, after["others"] = self.others.update(gradients, state["others"], remaining, xp)
            new |= moved
        return {name: new[name] for name in parameters}, after
