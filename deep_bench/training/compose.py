"""``chain``: an optimizer with what is done to its gradients, to its parameters, or to its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from deep_bench.arrays import mapped
from deep_bench.errors import InvalidArgument
from deep_bench.network.train_step import updated
from deep_bench.training.optimizer import BETA, COUNT, NOT_NEGATIVE, POSITIVE, Allowed, Optimizer, norm, setting

Part: TypeAlias = Callable[[Optimizer], Optimizer]
"""What ``chain`` takes: a function from an optimizer to one that does more."""

_OPTIMIZER = Allowed("an optimizer", lambda value: isinstance(value, Optimizer))


def chain(*parts: Part | Optimizer) -> Optimizer:
    """An optimizer with parts around it: the first part is outermost, and sees the gradients first.

    Args:
        *parts: ``clip_norm(…)``, ``clip_value(…)``, ``decay(…)``, ``average(…)``, ``accumulate(…)``, or any function from an
            optimizer to one; the optimizer last.

    Raises:
        InvalidArgument: The last is no optimizer, or another one is.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> rule = chain(clip_norm(1.0), decay(0.1), db.optimizers["sgd"](lr=1.0))
        >>> w = {"w": np.array([10.0, 0.0])}
        >>> rule.update({"w": np.array([0.0, 4.0])}, rule.init(w, NUMPY), w, NUMPY)[0]
        {'w': array([ 9., -1.])}
    """
    *around, optimizer = parts
    if not isinstance(optimizer, Optimizer):
        raise InvalidArgument(f"chain(…, {optimizer!r})", "an optimizer at the end")
    for part in reversed(around):
        if isinstance(part, Optimizer) or not callable(part):
            raise InvalidArgument(f"chain with {part!r} before the end", "clip_norm(…), decay(…), …; one optimizer, last")
        optimizer = part(optimizer)
    return optimizer


def clip_norm(limit: float) -> Part:
    r"""All gradients times :math:`\min(1, c / \|g\|)`, with the norm over all parameters together.

    torch divides by :math:`\|g\| + 10^{-6}` instead.

    Args:
        limit: :math:`c`.

    Source:
        Pascanu, Mikolov and Bengio, *On the difficulty of training recurrent neural networks*, ICML 2013, algorithm 1.
    """
    POSITIVE.check("clip_norm", "limit", limit)
    return partial(Changed, _clipped_norm, limit)


def clip_value(limit: float) -> Part:
    """Each element of a gradient brought between ``-limit`` and ``limit``."""
    POSITIVE.check("clip_value", "limit", limit)
    return partial(Changed, _clipped_value, limit)


def decay(coefficient: float) -> Part:
    r"""Weight decay that is part of the gradient: :math:`g + \lambda w`, the derivative of :math:`\frac\lambda2 \|w\|^2`.

    AdamW, LAMB and Lion have one that is not.

    Args:
        coefficient: :math:`\lambda`.
    """
    NOT_NEGATIVE.check("decay", "coefficient", coefficient)
    return partial(Changed, _decayed, coefficient)


def average(keep: float = 0.999) -> Part:
    r"""A running mean of the parameters, :math:`a' = k a + (1 - k) w'`, in ``state["average"]``; it starts from them.

    Args:
        keep: :math:`k`.

    Source:
        Polyak and Juditsky, *Acceleration of stochastic approximation by averaging*, 1992, in the exponential form of
        Tarvainen and Valpola, *Mean teachers are better role models*, NeurIPS 2017, equation 1.
    """
    BETA.check("average", "keep", keep)
    return partial(Averaged, keep)


def accumulate(steps: int) -> Part:
    """Gradients are gathered, and every so many steps their mean is what the optimizer sees; in between nothing moves.

    A schedule counts the optimizer's own steps.

    Args:
        steps: How many gradients make a step.
    """
    COUNT.check("accumulate", "steps", steps)
    return partial(Accumulated, int(steps))


@dataclass(frozen=True)
class Changed(Optimizer):
    """An optimizer that is given other gradients.

    Args:
        change: From a setting, the gradients, the parameters and ``xp`` to the gradients.
        amount: The setting.
        inner: The optimizer. Its state is the whole state.
    """

    change: Callable[..., dict[str, Any]]
    amount: float
    inner: Optimizer = setting(None, _OPTIMIZER)

    @property
    def looks_ahead(self):
        return self.inner.looks_ahead

    @property
    def separable(self):
        return self.change in (_clipped_value, _decayed) and self.inner.separable

    def init(self, parameters, xp):
        return self.inner.init(parameters, xp)

    def prepare(self, parameters, state):
        return self.inner.prepare(parameters, state)

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        elsewhere = None if evaluate is None else lambda at: _changed_there(self, evaluate, at, xp)
        with xp.untracked():
            gradients = self.change(self.amount, gradients, parameters, xp)
        return updated(self.inner, gradients, state, parameters, xp, evaluate=elsewhere)


def _changed_there(rule, evaluate, parameters, xp):
    loss, gradients = evaluate(parameters)
    return loss, rule.change(rule.amount, gradients, parameters, xp)


def _clipped_norm(limit, gradients, _, xp):
    size = norm(gradients.values(), xp)
    factor = limit / xp.maximum(size, limit)
    return {name: xp.cast(factor, g) * g for name, g in gradients.items()}


def _clipped_value(limit, gradients, _, xp):
    return {name: xp.maximum(xp.minimum(g, limit), -limit) for name, g in gradients.items()}


def _decayed(coefficient, gradients, parameters, _):
    return {name: g + coefficient * parameters[name] for name, g in gradients.items()}


@dataclass(frozen=True)
class Averaged(Optimizer):
    """An optimizer whose parameters are averaged; see `average`."""

    keep: float = setting(0.999, BETA)
    inner: Optimizer = setting(None, _OPTIMIZER)

    @property
    def looks_ahead(self):
        return self.inner.looks_ahead

    @property
    def separable(self):
        return self.inner.separable

    def init(self, parameters, xp):
        with xp.untracked():
            copies = {name: xp.array(w * 1) for name, w in parameters.items()}
        return {"average": copies, "inner": self.inner.init(parameters, xp)}

    def prepare(self, parameters, state):
        return self.inner.prepare(parameters, state["inner"])

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        new, inner = updated(self.inner, gradients, state["inner"], parameters, xp, evaluate=evaluate)
        with xp.untracked():
            mean = {name: xp.array(self.keep * a + (1 - self.keep) * new[name]) for name, a in state["average"].items()}
        return new, {"average": mean, "inner": inner}


@dataclass(frozen=True)
class Accumulated(Optimizer):
    """An optimizer that sees the mean of several gradients; see `accumulate`."""

    steps: int = setting(1, COUNT)
    inner: Optimizer = setting(None, _OPTIMIZER)

    @property
    def looks_ahead(self):
        return self.inner.looks_ahead

    @property
    def separable(self):
        return self.inner.separable

    def init(self, parameters, xp):
        total = {name: xp.zeros_like(w) for name, w in parameters.items()}
        return {"gathered": xp.array(0, np.int64), "sum": total, "inner": self.inner.init(parameters, xp)}

    def prepare(self, parameters, state):
        return self.inner.prepare(parameters, state["inner"])

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        native = self.framework is not None
        with xp.untracked():
            gathered = xp.array(state["gathered"] + 1)
            full = gathered >= self.steps
            if native and not bool(full):
                return self._waiting(gradients, state, gathered, parameters, xp)
            total = {name: state["sum"][name] + g for name, g in gradients.items()}
            mean = {name: x / self.steps for name, x in total.items()}
        new, inner = updated(self.inner, mean, state["inner"], parameters, xp, evaluate=evaluate)

        def chosen(after, before):
            return after if native else xp.array(xp.where(full, after, before))

        with xp.untracked():
            next_state = {
                "gathered": chosen(xp.array(0, np.int64), gathered),
                "sum": {name: chosen(xp.zeros_like(x), x) for name, x in total.items()},
                "inner": inner if native else mapped(chosen, inner, state["inner"]),
            }
            return {name: chosen(w, parameters[name]) for name, w in new.items()}, next_state

    def _waiting(self, gradients, state, gathered, parameters, xp):
        """A framework's own rule is asked only when it is to move."""
        total = {name: xp.array(state["sum"][name] + g) for name, g in gradients.items()}
        return dict(parameters), {"gathered": gathered, "sum": total, "inner": state["inner"]}
