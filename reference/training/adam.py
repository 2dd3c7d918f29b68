"""Adam and what differs from it by a line: AMSGrad and AdamW."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import (
    BETA,
    FLAG,
    NOT_NEGATIVE,
    RATE,
    Optimizer,
    Rate,
    each,
    one_of,
    rate_at,
    setting,
    started,
)


@dataclass(frozen=True)
class Adam(Optimizer):
    r"""Running means of the gradient and of its square, each divided by the weight that it has gathered.

    .. math::
        m' &= \beta_1 m + (1 - \beta_1) g \\
        s' &= \beta_2 s + (1 - \beta_2) g^2 \\
        w' &= w - r \frac{m' / (1 - \beta_1^t)}{\sqrt{s' / (1 - \beta_2^t)} + \epsilon}

    Args:
        lr: The rate :math:`r`, a number or a schedule.
        beta1, beta2: How much of the means is kept.
        epsilon: 1e-8 in the paper, torch and optax, 1e-7 in Keras, 1e-6 in ONNX.
        epsilon_beside: ``"corrected"``: :math:`\epsilon` is added to the corrected root, as above (the paper's algorithm 1,
            torch, optax). ``"raw"``: to :math:`\sqrt{s'}`, and the rate is
            :math:`r \sqrt{1 - \beta_2^t} / (1 - \beta_1^t)` (the end of the paper's section 2, Keras, ONNX).
        correct_bias: Without it, both means are taken as they are.

    Source:
        Kingma and Ba, *Adam: a method for stochastic optimization*, ICLR 2015, algorithm 1.
    """

    lr: Rate = setting(0.001, RATE)
    beta1: float = setting(0.9, BETA)
    beta2: float = setting(0.999, BETA)
    epsilon: float = setting(1e-8, NOT_NEGATIVE)
    epsilon_beside: str = setting("corrected", one_of("corrected", "raw"))
    correct_bias: bool = setting(True, FLAG)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "mean", "square")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        rate, root = corrections(self, state["steps"], xp)

        def rule(w, g, m, s):
            m = self.beta1 * m + (1 - self.beta1) * g
            s = self.beta2 * s + (1 - self.beta2) * (g * g)
            return w - xp.cast(rate, w) * m / (xp.sqrt(s) / xp.cast(root, w) + self.epsilon), m, s

        return each(rule, gradients, state, parameters, xp, "mean", "square")


def corrections(rule, steps, xp):
    """The rate over the weight of the mean, and the root of the weight of the squares, which their root is divided by.

    With the epsilon beside the raw root, the rate is multiplied by the second instead, and the root divided by 1.
    """
    rate = rate_at(rule.lr, steps, xp)
    if not rule.correct_bias:
        return rate, 1.0
    t = steps + 1
    rate, root = rate / (1 - xp.power(rule.beta1, t)), xp.sqrt(1 - xp.power(rule.beta2, t))
    return (rate * root, 1.0) if rule.epsilon_beside == "raw" else (rate, root)


@dataclass(frozen=True)
class AMSGrad(Optimizer):
    r"""Adam that divides by the largest mean square so far, so that no step is longer than an earlier one would have been.

    With :math:`m'` and :math:`s'` of Adam:

    .. math::
        h' &= \max(h, s') \\
        w' &= w - r \frac{m' / (1 - \beta_1^t)}{\sqrt{h' / (1 - \beta_2^t)} + \epsilon}

    Args:
        lr, beta1, beta2, epsilon, epsilon_beside: As in `Adam`.
        correct_bias: The paper does not; torch, Keras and optax do.
        largest_of: ``"raw"``: of :math:`s'` (torch, Keras). ``"corrected"``: of :math:`s' / (1 - \beta_2^t)` (optax).

    Source:
        Reddi, Kale and Kumar, *On the convergence of Adam and beyond*, ICLR 2018, algorithm 2.
    """

    lr: Rate = setting(0.001, RATE)
    beta1: float = setting(0.9, BETA)
    beta2: float = setting(0.999, BETA)
    epsilon: float = setting(1e-8, NOT_NEGATIVE)
    epsilon_beside: str = setting("corrected", one_of("corrected", "raw"))
    correct_bias: bool = setting(True, FLAG)
    largest_of: str = setting("raw", one_of("raw", "corrected"))

    def __post_init__(self):
        super().__post_init__()
        if self.largest_of == "corrected" and not self.correct_bias:
            raise InvalidArgument("amsgrad with largest_of='corrected' and correct_bias=False", "a correction, or 'raw'")
        if self.largest_of == "corrected" and self.epsilon_beside == "raw":
            raise InvalidArgument("amsgrad with largest_of='corrected' and epsilon_beside='raw'", "the same for both")

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "mean", "square", "largest")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        rate, root = corrections(self, state["steps"], xp)
        weight = 1 - xp.power(self.beta2, state["steps"] + 1) if self.largest_of == "corrected" else 1.0

        def rule(w, g, m, s, h):
            m = self.beta1 * m + (1 - self.beta1) * g
            s = self.beta2 * s + (1 - self.beta2) * (g * g)
            h = xp.maximum(h, s / xp.cast(weight, w))
            divisor = 1.0 if self.largest_of == "corrected" else xp.cast(root, w)
            return w - xp.cast(rate, w) * m / (xp.sqrt(h) / divisor + self.epsilon), m, s, h

        return each(rule, gradients, state, parameters, xp, "mean", "square", "largest")


@dataclass(frozen=True)
class AdamW(Optimizer):
    r"""Adam whose weight decay does not pass through the means: :math:`w' = (1 - r \lambda) w - r u` with Adam's step u.

    Args:
        lr, beta1, beta2, epsilon, epsilon_beside, correct_bias: As in `Adam`.
        weight_decay: :math:`\lambda`; 0.01 in torch, 0.004 in Keras, 1e-4 in optax.
        decay_by_rate: torch, Keras and optax multiply the decay by the rate, as above. The paper multiplies it by the
            schedule's factor alone, which is 1 here: :math:`w' = (1 - \lambda) w - r u`.

    Source:
        Loshchilov and Hutter, *Decoupled weight decay regularization*, ICLR 2019, algorithm 2.
    """

    lr: Rate = setting(0.001, RATE)
    beta1: float = setting(0.9, BETA)
    beta2: float = setting(0.999, BETA)
    epsilon: float = setting(1e-8, NOT_NEGATIVE)
    epsilon_beside: str = setting("corrected", one_of("corrected", "raw"))
    correct_bias: bool = setting(True, FLAG)
    weight_decay: float = setting(0.01, NOT_NEGATIVE)
    decay_by_rate: bool = setting(True, FLAG)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "mean", "square")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        rate, root = corrections(self, state["steps"], xp)
        retention = 1 - self.weight_decay * (rate_at(self.lr, state["steps"], xp) if self.decay_by_rate else 1.0)

        def rule(w, g, m, s):
            m = self.beta1 * m + (1 - self.beta1) * g
            s = self.beta2 * s + (1 - self.beta2) * (g * g)
            step = xp.cast(rate, w) * m / (xp.sqrt(s) / xp.cast(root, w) + self.epsilon)
            return xp.cast(retention, w) * w - step, m, s

        return each(rule, gradients, state, parameters, xp, "mean", "square")
