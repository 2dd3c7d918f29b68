"""Adafactor: the mean squares of a matrix from those of its rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.training.optimizer import (
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    Optimizer,
    Rate,
    one_of,
    rate_at,
    setting,
)


@dataclass(frozen=True)
class Adafactor(Optimizer):
    r"""Gradients over the root of their mean square, which is kept for rows and columns only, and steps of bounded length.

    With :math:`\beta = 1 - t^{-0.8}` and :math:`\mathrm{RMS}(x) = \|x\| / \sqrt{\text{elements}}`, for a matrix:

    .. math::
        R' &= \beta R + (1 - \beta) \operatorname{mean}_\text{columns}(g^2 + \epsilon_1), \qquad
        C' = \beta C + (1 - \beta) \operatorname{mean}_\text{rows}(g^2 + \epsilon_1) \\
        u &= g / \sqrt{R' C' / \operatorname{mean}(R')} \\
        w' &= w - \max(\epsilon_2, \mathrm{RMS}(w)) \min(r, 1 / \sqrt t) \frac{u}{\max(1, \mathrm{RMS}(u) / d)}

    The last two axes of a parameter are rows and columns; one with fewer axes keeps the mean of :math:`g^2 + \epsilon_1`.

    Args:
        lr: The largest relative step :math:`r`, a number or a schedule.
        decay: The exponent, 0.8.
        epsilon: :math:`\epsilon_1`.
        epsilon_beside: ``"square"``: it is added to each square, as above (the paper, Keras). ``"estimate"``: the least
            value of the mean of :math:`R'`, and the root of the least estimate (torch, whose :math:`\epsilon_1` is by
            default that of the element type).
        least_scale: :math:`\epsilon_2`.
        clip: :math:`d`.

    Source:
        Shazeer and Stern, *Adafactor: adaptive learning rates with sublinear memory cost*, ICML 2018, algorithms 4 and 5.
    """

    lr: Rate = setting(0.01, RATE)
    decay: float = setting(0.8, POSITIVE)
    epsilon: float = setting(1e-30, NOT_NEGATIVE)
    epsilon_beside: str = setting("square", one_of("square", "estimate"))
    least_scale: float = setting(1e-3, NOT_NEGATIVE)
    clip: float = setting(1.0, POSITIVE)

    separable = True

    def init(self, parameters, xp):
        state = {"steps": xp.array(0, int), "rows": {}, "columns": {}, "square": {}}
        for name, w in parameters.items():
            zeros = xp.zeros_like(w)
            if len(xp.shape(w)) < 2:
                state["square"][name] = zeros
            else:
                state["rows"][name] = xp.mean(zeros, [-1], keepdims=True)
                state["columns"][name] = xp.mean(zeros, [-2], keepdims=True)
        return state

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        t = xp.cast(state["steps"] + 1, float)
        fresh = t**-self.decay
        largest = xp.minimum(1 / xp.sqrt(t), rate_at(self.lr, state["steps"], xp))
        new, after = {}, {"steps": xp.array(state["steps"] + 1), "rows": {}, "columns": {}, "square": {}}
        with xp.untracked():
            for name, w in parameters.items():
                g, share = gradients[name], xp.cast(fresh, w)
                square = g * g + (self.epsilon if self.epsilon_beside == "square" else 0.0)
                for label, axis in (("rows", [-1]), ("columns", [-2]), ("square", [])):
                    if name in state[label]:
                        mean = xp.mean(square, axis, keepdims=True) if axis else square
                        after[label][name] = xp.array((1 - share) * state[label][name] + share * mean)
                u = g / xp.sqrt(self._estimate(name, after, xp))
                scale = xp.maximum(rms(w, xp), self.least_scale)
                new[name] = xp.array(w - xp.cast(largest, w) * scale * u / xp.maximum(rms(u, xp) / self.clip, 1.0))
        return new, after

    def _estimate(self, name, state, xp):
        """The mean squares of all elements."""
        least = self.epsilon if self.epsilon_beside == "estimate" else 0.0
        if name in state["square"]:
            return xp.maximum(state["square"][name], least * least)
        rows, columns = state["rows"][name], state["columns"][name]
        mean = xp.mean(rows, [-2], keepdims=True)
        return xp.maximum(rows / xp.maximum(mean, least) * columns, least * least)


def rms(x, xp):
    """The root of the mean square of all elements."""
    return xp.sqrt(xp.mean(x * x))
