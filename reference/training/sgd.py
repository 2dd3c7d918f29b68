"""Gradient descent: plain, with momentum, and accelerated with a rate that it finds itself (AcceleGrad)."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.training.optimizer import FLAG, POSITIVE, RATE, SHARE, Optimizer, Rate, each, norm, rate_at, setting, started


@dataclass(frozen=True)
class SGD(Optimizer):
    r"""Stochastic gradient descent: :math:`w' = w - r g`.

    Args:
        lr: The rate :math:`r`, a number or a schedule.

    Source:
        Robbins and Monro, *A stochastic approximation method*, Ann. Math. Statist. 22 (1951).
    """

    lr: Rate = setting(0.01, RATE)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp)

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        r = rate_at(self.lr, state["steps"], xp)
        return each(lambda w, g: w - xp.cast(r, w) * g, gradients, state, parameters, xp)


@dataclass(frozen=True)
class Momentum(Optimizer):
    r"""Gradient descent with a heavy ball: :math:`v' = \mu v + (1 - d) g`, :math:`w' = w - r v'`.

    The first :math:`v'` is :math:`g` itself, whatever the dampening :math:`d`, as in torch and ONNX.

    Args:
        lr: The rate :math:`r`, a number or a schedule.
        momentum: :math:`\mu`.
        dampening: :math:`d`; ONNX's ``beta`` is :math:`1 - d`.
        rate_in_velocity: Keep :math:`v' = \mu v + (1 - d) r g` and step by it, as Sutskever et al. and Keras write it. It
            differs where the rate changes: steps done keep the rate of their time.

    Source:
        Polyak, *Some methods of speeding up the convergence of iteration methods*, 1964; Sutskever, Martens, Dahl and
        Hinton, *On the importance of initialization and momentum in deep learning*, ICML 2013, equations 1 and 2.
    """

    lr: Rate = setting(0.01, RATE)
    momentum: float = setting(0.9, SHARE)
    dampening: float = setting(0.0, SHARE)
    rate_in_velocity: bool = setting(False, FLAG)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "momentum")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        r = rate_at(self.lr, state["steps"], xp)
        share = xp.where(xp.array(state["steps"]) > 0, xp.array(1 - self.dampening, float), 1.0) if self.dampening else 1.0

        def rule(w, g, v):
            rate = xp.cast(r, w)
            v = self.momentum * v + xp.cast(share, w) * (rate * g if self.rate_in_velocity else g)
            return w - (v if self.rate_in_velocity else rate * v), v

        return each(rule, gradients, state, parameters, xp, "momentum")


@dataclass(frozen=True)
class Nesterov(Optimizer):
    r"""Gradient descent that looks ahead: :math:`v' = \mu v + g`, :math:`w' = w - r (g + \mu v')`.

    Written for the point that is looked ahead to, where gradients are evaluated, as torch, Keras and ONNX do.

    Args:
        lr: The rate :math:`r`, a number or a schedule.
        momentum: :math:`\mu`.
        rate_in_velocity: Keep :math:`v' = \mu v + r g`, and step by :math:`r g + \mu v'`, as Keras does.

    Source:
        Nesterov, *A method of solving a convex programming problem with convergence rate O(1/k²)*, 1983; Sutskever et al.,
        ICML 2013, equations 3 and 4, in the form of Bengio, Boulanger-Lewandowski and Pascanu, 2013, equation 7.
    """

    lr: Rate = setting(0.01, RATE)
    momentum: float = setting(0.9, SHARE)
    rate_in_velocity: bool = setting(False, FLAG)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "momentum")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        r = rate_at(self.lr, state["steps"], xp)

        def rule(w, g, v):
            rate = xp.cast(r, w)
            g = rate * g if self.rate_in_velocity else g
            v = self.momentum * v + g
            step = g + self.momentum * v
            return w - (step if self.rate_in_velocity else rate * step), v

        return each(rule, gradients, state, parameters, xp, "momentum")


@dataclass(frozen=True)
class AcceleGrad(Optimizer):
    r"""Two sequences, one of long steps and one of short, and gradients between them.

    With :math:`\alpha_t = 1` for :math:`t \le 2`, else :math:`(t + 1) / 4`, and :math:`\tau_t = 1 / \alpha_t`, for
    :math:`t = 0, 1, \ldots`:

    .. math::
        x &= \tau_t z + (1 - \tau_t) y, \qquad g = \nabla f(x) \\
        \eta_t &= 2 D / \sqrt{G^2 + \textstyle\sum_{i \le t} \alpha_i^2 \|g_i\|^2} \\
        z' &= \Pi(z - \alpha_t \eta_t g), \qquad y' = x - \eta_t g

    :math:`y` are the parameters; ``prepare`` gives :math:`x`, where gradients are to be evaluated. :math:`\Pi` projects on
    the ball of diameter :math:`D` around the start. What the guarantee is for, the mean of all :math:`y` with weights
    :math:`\alpha`, is in ``state["average"]``.

    Args:
        diameter: :math:`D`, of a ball around the start that has the minimum in it; the rate follows from it.
        gradient_bound: :math:`G`, a bound of the gradient's norm.
        project: Without it :math:`\Pi` does nothing.

    Source:
        Levy, Yurtsever and Cevher, *Online adaptive methods, universality and acceleration*, NeurIPS 2018, algorithm 2.
    """

    diameter: float = setting(1.0, POSITIVE)
    gradient_bound: float = setting(1.0, POSITIVE)
    project: bool = setting(True, FLAG)

    def init(self, parameters, xp):
        state, labels = started(parameters, xp), ("start", "z", "at", "average")
        with xp.untracked():
            starts = {label: {n: xp.array(w * 1) for n, w in parameters.items()} for label in labels}
        return {**state, **starts, "squares": xp.array(0.0, float), "weights": xp.array(0.0, float)}

    def prepare(self, parameters, state):
        return dict(state["at"])

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        with xp.untracked():
            alpha, following = weight(state["steps"], xp), weight(state["steps"] + 1, xp)
            squares = state["squares"] + (alpha * xp.cast(norm(gradients.values(), xp), float)) ** 2
            eta = 2 * self.diameter / xp.sqrt(self.gradient_bound**2 + squares)
            weights = state["weights"] + alpha
            z = {n: z - xp.cast(alpha * eta, z) * gradients[n] for n, z in state["z"].items()}
            if self.project:
                start = state["start"]
                away = {n: x - start[n] for n, x in z.items()}
                distance = xp.cast(norm(away.values(), xp), float)
                factor = xp.minimum(self.diameter / 2 / xp.maximum(distance, 1e-300), 1.0)
                z = {n: start[n] + xp.cast(factor, x) * x for n, x in away.items()}
            y = {n: xp.array(x - xp.cast(eta, x) * gradients[n]) for n, x in state["at"].items()}
            tau, share = 1 / following, alpha / weights
            after = {
                **state,
                "steps": xp.array(state["steps"] + 1),
                "z": {n: xp.array(x) for n, x in z.items()},
                "at": {n: xp.array(xp.cast(tau, w) * z[n] + xp.cast(1 - tau, w) * w) for n, w in y.items()},
                "average": {n: xp.array(a + xp.cast(share, a) * (y[n] - a)) for n, a in state["average"].items()},
                "squares": xp.array(squares),
                "weights": xp.array(weights),
            }
        return y, after


def weight(t, xp):
    """The weight of a step, counted from 0."""
    return xp.maximum((xp.cast(t, float) + 1) / 4, 1.0)
