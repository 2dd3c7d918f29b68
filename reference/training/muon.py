"""Muon: momentum, made orthogonal."""

from __future__ import annotations

from dataclasses import dataclass

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
