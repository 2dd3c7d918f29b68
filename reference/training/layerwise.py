"""Rules whose step is in proportion to the parameter's own size, and one that takes signs only: LARS, LAMB and Lion."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.training.optimizer import (
    BETA,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    SHARE,
    Optimizer,
    Rate,
    each,
    norm,
    one_of,
    rate_at,
    setting,
    started,
)


def ratio(numerator, denominator, xp):
    """One norm over another; 1 where either is 0."""
    usable = (numerator > 0) & (denominator > 0)
    return xp.where(usable, numerator / xp.where(usable, denominator, 1.0), 1.0)


@dataclass(frozen=True)
class LARS(Optimizer):
    r"""Momentum, with a rate for each parameter in proportion to its norm over its gradient's.

    .. math::
        \lambda &= \eta \frac{\|w\|}{\|g\| + \beta \|w\|} \\
        v' &= \mu v + r \lambda (g + \beta w), \qquad w' = w - v'

    Args:
        lr: The rate :math:`r`, a number or a schedule.
        momentum: :math:`\mu`.
        weight_decay: :math:`\beta`.
        trust: :math:`\eta`.
        relative_to: ``"sum"``: :math:`\|g\| + \beta \|w\|` as above (the paper). ``"decayed"``:
            :math:`\|g + \beta w\|` (optax).

    Where one of the norms is 0, :math:`\lambda` is 1.

    Source:
        You, Gitman and Ginsburg, *Large batch training of convolutional networks*, arXiv:1708.03888, algorithm 1.
    """

    lr: Rate = setting(0.1, RATE)
    momentum: float = setting(0.9, SHARE)
    weight_decay: float = setting(0.0005, NOT_NEGATIVE)
    trust: float = setting(0.001, POSITIVE)
    relative_to: str = setting("sum", one_of("sum", "decayed"))

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "momentum")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        r = rate_at(self.lr, state["steps"], xp)

        def rule(w, g, v):
            step = g + self.weight_decay * w
            size = norm([w], xp)
            step_norm = norm([step], xp) if self.relative_to == "decayed" else norm([g], xp) + self.weight_decay * size
            v = self.momentum * v + xp.cast(r, w) * ratio(self.trust * size, step_norm, xp) * step
            return w - v, v

        return each(rule, gradients, state, parameters, xp, "momentum")


@dataclass(frozen=True)
class LAMB(Optimizer):
    r"""Adam's step with decay, made as long as the parameter's norm.

    .. math::
        u &= \frac{m' / (1 - \beta_1^t)}{\sqrt{s' / (1 - \beta_2^t)} + \epsilon} + \lambda w \\
        w' &= w - r \frac{\|w\|}{\|u\|} u

    Args:
        lr: The rate :math:`r`, a number or a schedule.
        beta1, beta2: As in `Adam`, and so are :math:`m'` and :math:`s'`.
        epsilon: 1e-6 in the paper and optax, 1e-7 in Keras.
        weight_decay: :math:`\lambda`.
        correct_bias: As in `Adam`.

    Where one of the norms is 0, their ratio is 1.

    Source:
        You et al., *Large batch optimization for deep learning: training BERT in 76 minutes*, ICLR 2020, algorithm 2.
    """

    lr: Rate = setting(0.001, RATE)
    beta1: float = setting(0.9, BETA)
    beta2: float = setting(0.999, BETA)
    epsilon: float = setting(1e-6, NOT_NEGATIVE)
    weight_decay: float = setting(0.0, NOT_NEGATIVE)
    correct_bias: bool = setting(True, FLAG)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "mean", "square")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        r, weight, root = rate_at(self.lr, state["steps"], xp), 1.0, 1.0
        if self.correct_bias:
            t = state["steps"] + 1
            weight, root = 1 - xp.power(self.beta1, t), xp.sqrt(1 - xp.power(self.beta2, t))

        def rule(w, g, m, s):
            m = self.beta1 * m + (1 - self.beta1) * g
            s = self.beta2 * s + (1 - self.beta2) * (g * g)
            step = m / xp.cast(weight, w) / (xp.sqrt(s) / xp.cast(root, w) + self.epsilon) + self.weight_decay * w
            return w - xp.cast(r, w) * ratio(norm([w], xp), norm([step], xp), xp) * step, m, s

        return each(rule, gradients, state, parameters, xp, "mean", "square")


@dataclass(frozen=True)
class Lion(Optimizer):
    r"""The sign of a mean of gradients, with two speeds of forgetting.

    .. math::
        w' = w - r (\operatorname{sign}(\beta_1 m + (1 - \beta_1) g) + \lambda w), \qquad
        m' = \beta_2 m + (1 - \beta_2) g

    Args:
        lr: The rate :math:`r`, a number or a schedule; 1e-4 in the paper, 0.001 in Keras.
        beta1: Weighs the mean in the step.
        beta2: Weighs it in the state.
        weight_decay: :math:`\lambda`; 0 in the paper's listing, 0.001 in optax.

    Source:
        Chen et al., *Symbolic discovery of optimization algorithms*, NeurIPS 2023, algorithm 2.
    """

    lr: Rate = setting(1e-4, RATE)
    beta1: float = setting(0.9, BETA)
    beta2: float = setting(0.99, BETA)
    weight_decay: float = setting(0.0, NOT_NEGATIVE)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "mean")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        r = rate_at(self.lr, state["steps"], xp)

        def rule(w, g, m):
            step = xp.sign(self.beta1 * m + (1 - self.beta1) * g) + self.weight_decay * w
            return w - xp.cast(r, w) * step, self.beta2 * m + (1 - self.beta2) * g

        return each(rule, gradients, state, parameters, xp, "mean")
