"""Adam; what differs from it by a line (AMSGrad, AdamW); and rules that start from it (AdaMax, NAdam, RAdam)."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import (
    BETA,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    RATE,
    Allowed,
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


_FADING = Allowed("None, or a finite number above 0", lambda value: value is None or POSITIVE.fits(value))


@dataclass(frozen=True)
class AdaMax(Optimizer):
    r"""Adam with the largest recent gradient in place of the root of the mean square.

    .. math::
        m' &= \beta_1 m + (1 - \beta_1) g \\
        u' &= \max(\beta_2 u, |g| + \epsilon) \\
        w' &= w - \frac{r}{1 - \beta_1^t} \frac{m'}{u'}

    Args:
        lr: The rate :math:`r`, a number or a schedule; 0.002 in the paper, torch and optax, 0.001 in Keras.
        beta1, beta2: How much of the mean and of the largest gradient is kept.
        epsilon: 0 in the paper, 1e-8 in torch and optax, 1e-7 in Keras.
        epsilon_beside: ``"gradient"``: as above (torch, optax). ``"largest"``: it is added to :math:`u'` when that divides
            (Keras).

    Source:
        Kingma and Ba, *Adam: a method for stochastic optimization*, ICLR 2015, algorithm 2.
    """

    lr: Rate = setting(0.002, RATE)
    beta1: float = setting(0.9, BETA)
    beta2: float = setting(0.999, BETA)
    epsilon: float = setting(1e-8, NOT_NEGATIVE)
    epsilon_beside: str = setting("gradient", one_of("gradient", "largest"))

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "mean", "largest")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        rate = rate_at(self.lr, state["steps"], xp) / (1 - xp.power(self.beta1, state["steps"] + 1))
        early, late = (self.epsilon, 0.0) if self.epsilon_beside == "gradient" else (0.0, self.epsilon)

        def rule(w, g, m, u):
            m = self.beta1 * m + (1 - self.beta1) * g
            u = xp.maximum(self.beta2 * u, xp.abs(g) + early)
            return w - xp.cast(rate, w) * m / (u + late), m, u

        return each(rule, gradients, state, parameters, xp, "mean", "largest")


@dataclass(frozen=True)
class NAdam(Optimizer):
    r"""Adam with Nesterov's momentum, which grows from half of :math:`\beta_1` towards it.

    .. math::
        \mu_t &= \beta_1 (1 - 0.96^{t \psi} / 2), \qquad p_t = \mu_1 \mu_2 \cdots \mu_t \\
        \hat m &= \frac{\mu_{t+1} m'}{1 - p_t \mu_{t+1}} + \frac{(1 - \mu_t) g}{1 - p_t} \\
        w' &= w - r \frac{\hat m}{\sqrt{s' / (1 - \beta_2^t)} + \epsilon}

    Args:
        lr: The rate :math:`r`, a number or a schedule; 0.002 in torch, 0.001 in Keras and optax.
        beta1, beta2: As in `Adam`, and so are :math:`m'` and :math:`s'`.
        epsilon: 1e-8 in the paper, torch and optax, 1e-7 in Keras.
        momentum_decay: :math:`\psi`, 0.004 in the paper and torch, 1 in Keras. ``None``: :math:`\mu_t = \beta_1` (optax).

    Source:
        Dozat, *Incorporating Nesterov momentum into Adam*, ICLR workshop 2016, algorithm 2 and its appendix.
    """

    lr: Rate = setting(0.002, RATE)
    beta1: float = setting(0.9, BETA)
    beta2: float = setting(0.999, BETA)
    epsilon: float = setting(1e-8, NOT_NEGATIVE)
    momentum_decay: float | None = setting(0.004, _FADING)

    separable = True

    def init(self, parameters, xp):
        return {**started(parameters, xp, "mean", "square"), "momenta": xp.array(1.0, float)}

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        t = state["steps"] + 1
        rate, root = rate_at(self.lr, state["steps"], xp), xp.sqrt(1 - xp.power(self.beta2, t))
        current, ahead = self._momentum(t, xp), self._momentum(t + 1, xp)
        product = state["momenta"] * current
        of_mean, of_gradient = rate * (ahead / (1 - product * ahead)), rate * ((1 - current) / (1 - product))

        def rule(w, g, m, s):
            m = self.beta1 * m + (1 - self.beta1) * g
            s = self.beta2 * s + (1 - self.beta2) * (g * g)
            step = xp.cast(of_mean, w) * m + xp.cast(of_gradient, w) * g
            return w - step / (xp.sqrt(s) / xp.cast(root, w) + self.epsilon), m, s

        new, state = each(rule, gradients, state, parameters, xp, "mean", "square")
        return new, {**state, "momenta": xp.array(product)}

    def _momentum(self, t, xp):
        if self.momentum_decay is None:
            return self.beta1
        return self.beta1 * (1 - 0.5 * xp.power(0.96**self.momentum_decay, t))


@dataclass(frozen=True)
class RAdam(Optimizer):
    r"""Adam that divides by the root only once enough squares are gathered, and then by how uncertain it still is.

    .. math::
        \rho_\infty &= 2 / (1 - \beta_2) - 1, \qquad
        \rho_t = \rho_\infty - 2 t \beta_2^t / (1 - \beta_2^t) \\
        c_t &= \sqrt{\frac{(\rho_t - 4)(\rho_t - 2) \rho_\infty}{(\rho_\infty - 4)(\rho_\infty - 2) \rho_t}} \\
        w' &= w - r \frac{m'}{1 - \beta_1^t} \begin{cases}
            c_t \sqrt{1 - \beta_2^t} / (\sqrt{s'} + \epsilon) & \rho_t > \rho_{min} \\ 1 & \text{else} \end{cases}

    Args:
        lr: The rate :math:`r`, a number or a schedule.
        beta1, beta2: As in `Adam`, and so are :math:`m'` and :math:`s'`.
        epsilon: 1e-8 in torch and optax.
        epsilon_beside: ``"raw"``: as above (torch). ``"corrected"``: beside :math:`\sqrt{s' / (1 - \beta_2^t)}` (optax).
        threshold: :math:`\rho_{min}`, 4 in the paper, 5 in its code, torch and optax.

    Source:
        Liu et al., *On the variance of the adaptive learning rate and beyond*, ICLR 2020, algorithm 2.
    """

    lr: Rate = setting(0.001, RATE)
    beta1: float = setting(0.9, BETA)
    beta2: float = setting(0.999, BETA)
    epsilon: float = setting(1e-8, NOT_NEGATIVE)
    epsilon_beside: str = setting("raw", one_of("raw", "corrected"))
    threshold: float = setting(5.0, NOT_NEGATIVE)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "mean", "square")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        t = state["steps"] + 1
        rate = rate_at(self.lr, state["steps"], xp) / (1 - xp.power(self.beta1, t))
        gathered = xp.power(self.beta2, t)
        root = xp.sqrt(1 - gathered)
        most = 2 / (1 - self.beta2) - 1
        certainty = most - 2 * xp.cast(t, float) * gathered / (1 - gathered)
        enough = certainty > self.threshold
        safe = xp.maximum(certainty, 4.0)
        variance = (safe - 4) * (safe - 2) * most / ((most - 4) * (most - 2) * safe)
        scale = xp.sqrt(variance)

        def rule(w, g, m, s):
            m = self.beta1 * m + (1 - self.beta1) * g
            s = self.beta2 * s + (1 - self.beta2) * (g * g)
            if self.epsilon_beside == "raw":
                adapted = xp.cast(scale * root, w) * m / (xp.sqrt(s) + self.epsilon)
            else:
                adapted = xp.cast(scale, w) * m / (xp.sqrt(s) / xp.cast(root, w) + self.epsilon)
            return w - xp.cast(rate, w) * xp.where(enough, adapted, m), m, s

        return each(rule, gradients, state, parameters, xp, "mean", "square")
