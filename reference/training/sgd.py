"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.training.optimizer import FLAG, RATE, SHARE, Optimizer, Rate, each, rate_at, setting, started


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
