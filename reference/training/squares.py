"""Rules that divide by the root of gathered squares: AdaGrad, RMSProp and AdaDelta."""

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
    one_of,
    rate_at,
    setting,
    started,
)


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    r"""Each element has a rate of its own, which falls with the squares of its gradients so far.

    .. math::
        h' = h + g^2, \qquad w' = w - \frac{r}{1 + d (t - 1)} \frac{g}{\sqrt{h'} + \epsilon}

    Args:
        lr: The rate :math:`r`, a number or a schedule; 0.01 in torch, 0.001 in Keras.
        decay: :math:`d`, of torch and ONNX.
        epsilon: 1e-10 in torch, 1e-7 in Keras and optax, 1e-6 in ONNX.
        epsilon_beside: ``"root"``: as above (torch, ONNX). ``"square"``: :math:`\sqrt{h' + \epsilon}` (Keras, optax).
        initial: What :math:`h` starts from: 0 in the paper, torch and ONNX, 0.1 in Keras and optax.

    Source:
        Duchi, Hazan and Singer, *Adaptive subgradient methods*, JMLR 12 (2011), figure 1 with diagonal matrices.
    """

    lr: Rate = setting(0.01, RATE)
    decay: float = setting(0.0, NOT_NEGATIVE)
    epsilon: float = setting(1e-10, NOT_NEGATIVE)
    epsilon_beside: str = setting("root", one_of("root", "square"))
    initial: float = setting(0.0, NOT_NEGATIVE)

    separable = True

    def init(self, parameters, xp):
        state = started(parameters, xp, "squares")
        return {**state, "squares": {name: xp.array(h + self.initial) for name, h in state["squares"].items()}}

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        rate = rate_at(self.lr, state["steps"], xp)
        if self.decay:
            rate = rate / (1 + self.decay * xp.cast(state["steps"], float))

        def rule(w, g, h):
            h = h + g * g
            root = xp.sqrt(h) + self.epsilon if self.epsilon_beside == "root" else xp.sqrt(h + self.epsilon)
            return w - xp.cast(rate, w) * g / root, h

        return each(rule, gradients, state, parameters, xp, "squares")


@dataclass(frozen=True)
class RMSProp(Optimizer):
    r"""The gradient over the root of a running mean of its square.

    .. math::
        s' = \rho s + (1 - \rho) g^2, \qquad w' = w - r \frac{g}{\sqrt{s'} + \epsilon}

    Args:
        lr: The rate :math:`r`, a number or a schedule; 0.01 in torch, 0.001 in Keras.
        rho: 0.99 in torch (its ``alpha``), 0.9 in the lecture, Keras and optax.
        epsilon: 1e-8 in torch and optax, 1e-7 in Keras.
        epsilon_beside: ``"root"``: as above (torch). ``"square"``: :math:`\sqrt{s' + \epsilon}` (Keras, optax).
        momentum: :math:`\mu`: the step is :math:`v' = \mu v + g / \ldots`, times the rate.
        rate_in_velocity: The rate is part of :math:`v'` instead (Keras, optax).
        centered: The square of the gradient's running mean is taken off :math:`s'`.

    Source:
        Tieleman and Hinton, *Lecture 6.5: rmsprop*, 2012; Graves, *Generating sequences with recurrent neural networks*,
        2013, equations 38 to 45, for momentum and the centered form.
    """

    lr: Rate = setting(0.01, RATE)
    rho: float = setting(0.99, BETA)
    epsilon: float = setting(1e-8, NOT_NEGATIVE)
    epsilon_beside: str = setting("root", one_of("root", "square"))
    momentum: float = setting(0.0, SHARE)
    rate_in_velocity: bool = setting(False, FLAG)
    centered: bool = setting(False, FLAG)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, *self._kept)

    @property
    def _kept(self):
        return ("square", *["mean"] * self.centered, *["momentum"] * (self.momentum > 0))

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        r = rate_at(self.lr, state["steps"], xp)

        def rule(w, g, *parts):
            slots, rate = dict(zip(self._kept, parts, strict=True)), xp.cast(r, w)
            slots["square"] = variance = self.rho * slots["square"] + (1 - self.rho) * (g * g)
            if self.centered:
                slots["mean"] = self.rho * slots["mean"] + (1 - self.rho) * g
                variance = xp.maximum(variance - slots["mean"] * slots["mean"], 0.0)
            inside = self.epsilon_beside == "square"
            step = g / (xp.sqrt(variance + self.epsilon) if inside else xp.sqrt(variance) + self.epsilon)
            if self.rate_in_velocity:
                step, rate = rate * step, 1.0
            if self.momentum > 0:
                slots["momentum"] = step = self.momentum * slots["momentum"] + step
            return (w - rate * step, *slots.values())

        return each(rule, gradients, state, parameters, xp, *self._kept)


@dataclass(frozen=True)
class AdaDelta(Optimizer):
    r"""Steps as long as steps have been lately, over how large gradients have been lately: no unit is left.

    .. math::
        s' &= \rho s + (1 - \rho) g^2, \qquad
        \delta = \frac{\sqrt{d + \epsilon}}{\sqrt{s' + \epsilon}} g \\
        d' &= \rho d + (1 - \rho) \delta^2, \qquad w' = w - r \delta

    Args:
        lr: The rate :math:`r`, a number or a schedule; 1 in the paper and torch, 0.001 in Keras.
        rho: 0.95 in the paper and Keras, 0.9 in torch and optax.
        epsilon: 1e-6 in the paper, torch and optax, 1e-7 in Keras.

    Source:
        Zeiler, *ADADELTA: an adaptive learning rate method*, arXiv:1212.5701, algorithm 1.
    """

    lr: Rate = setting(1.0, RATE)
    rho: float = setting(0.9, BETA)
    epsilon: float = setting(1e-6, NOT_NEGATIVE)

    separable = True

    def init(self, parameters, xp):
        return started(parameters, xp, "square", "step_square")

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        rate = rate_at(self.lr, state["steps"], xp)

        def rule(w, g, s, d):
            s = self.rho * s + (1 - self.rho) * (g * g)
            step = xp.sqrt(d + self.epsilon) / xp.sqrt(s + self.epsilon) * g
            d = self.rho * d + (1 - self.rho) * (step * step)
            return w - xp.cast(rate, w) * step, s, d

        return each(rule, gradients, state, parameters, xp, "square", "step_square")


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
