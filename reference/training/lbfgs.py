"""L-BFGS: Newton's direction from the last few steps."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.errors import InvalidArgument
from deep_bench.reference.training.wolfe import wolfe_step
from deep_bench.training.optimizer import COUNT, FLAG, RATE, Optimizer, Rate, rate_at, setting, started


def dot(x, y, xp):
    """The inner product over all parameters together, a scalar of the first one's element type."""
    products = [xp.sum(x[name] * y[name]) for name in x]
    total = products[0]
    for product in products[1:]:
        total = total + xp.cast(product, total)
    return total


def plus(x, factor, y, xp):
    """``x + factor y`` for each parameter."""
    return {name: x[name] + xp.cast(factor, x[name]) * y[name] for name in x}


@dataclass(frozen=True)
class LBFGS(Optimizer):
    r"""The direction :math:`-H g`, where the inverse Hessian :math:`H` is built from the last steps.

    With steps :math:`s_i = w_{i+1} - w_i`, changes :math:`y_i = g_{i+1} - g_i` and :math:`\rho_i = 1 / y_i \cdot s_i`, from
    the newest pair to the oldest and back:

    .. math::
        q &= g; \quad \alpha_i = \rho_i s_i \cdot q, \quad q \leftarrow q - \alpha_i y_i \\
        q &\leftarrow \frac{s \cdot y}{y \cdot y} q \text{ with the newest pair} \\
        \beta &= \rho_i y_i \cdot q, \quad q \leftarrow q + (\alpha_i - \beta) s_i; \qquad w' = w - r q

    A pair with :math:`y \cdot s \le 10^{-10}` is left out. The first step has no pairs and the length
    :math:`r \min(1, 1 / \|g\|_1)`, as in torch.

    Args:
        lr: The rate :math:`r`, a number or a schedule; where the line search starts, if there is one.
        history: How many pairs are kept.
        line_search: Look for a length that satisfies the strong Wolfe conditions, which takes ``evaluate`` and is not to
            be traced.

    Source:
        Nocedal and Wright, *Numerical optimization*, 2nd edition, 2006, algorithms 7.4, 3.5 and 3.6.
    """

    lr: Rate = setting(1.0, RATE)
    history: int = setting(10, COUNT)
    line_search: bool = setting(False, FLAG)

    def init(self, parameters, xp):
        zeros = started(parameters, xp, "gradient", "step")
        like = next(iter(parameters.values()))
        weight_entry = {"weight": xp.cast(xp.array(0.0, float), like)}
        pairs = {
            str(i): {**weight_entry, **{k: v for k, v in started(parameters, xp, "s", "y").items() if k != "steps"}}
            for i in range(self.history)
        }
        return {**zeros, "pairs": pairs, "scale": xp.cast(xp.array(1.0, float), like)}

    def update(self, gradients, state, parameters, xp, *, evaluate=None):
        if self.line_search and evaluate is None:
            raise InvalidArgument("lbfgs with line_search=True and no evaluate", "update(..., evaluate=…)")
        with xp.untracked():
            pairs, scale = self._remembered(gradients, state, xp)
            direction = self._direction(gradients, pairs, scale, xp)
            rate = rate_at(self.lr, state["steps"], xp)
            total = sum(xp.cast(xp.sum(xp.abs(g)), float) for g in gradients.values())
            first = xp.minimum(1 / xp.maximum(total, 1e-300), 1.0)
            length = rate * xp.where(xp.array(state["steps"]) > 0, xp.array(1.0, float), first)
            if self.line_search:
                length = wolfe_step(evaluate, gradients, parameters, direction, length, xp)
            step = {name: xp.cast(length, d) * d for name, d in direction.items()}
            new = {name: xp.array(w + step[name]) for name, w in parameters.items()}
            state = {
                "steps": xp.array(state["steps"] + 1),
                "gradient": {name: xp.array(g * 1) for name, g in gradients.items()},
                "step": {name: xp.array(s) for name, s in step.items()},
                "pairs": pairs,
                "scale": xp.array(scale),
            }
        return new, state

    def _remembered(self, gradients, state, xp):
        """The pairs, newest last, with the one that the last step makes if it is fit; and the scale of the newest."""
        s, y = state["step"], plus(gradients, -1.0, state["gradient"], xp)
        curvature = dot(y, s, xp)
        fit = (curvature > 1e-10) & (xp.array(state["steps"]) > 0)
        newest = {"weight": 1 / xp.where(fit, curvature, 1.0), "s": s, "y": y}
        old = [state["pairs"][str(i)] for i in range(self.history)]

        def chosen(new, kept):
            if isinstance(new, dict):
                return {key: chosen(new[key], kept[key]) for key in new}
            return xp.array(xp.where(fit, new, kept))

        pairs = {
            str(i): chosen(new, previous) for i, (new, previous) in enumerate(zip([*old[1:], newest], old, strict=True))
        }
        scale = xp.where(fit, curvature / xp.where(fit, dot(y, y, xp), 1.0), state["scale"])
        return pairs, scale

    def _direction(self, gradients, pairs, scale, xp):
        """A pair that is not there yet has weight 0 and changes nothing."""
        q, alphas = {name: -g for name, g in gradients.items()}, {}
        for i in reversed(range(self.history)):
            pair = pairs[str(i)]
            alphas[i] = pair["weight"] * dot(pair["s"], q, xp)
            q = plus(q, -alphas[i], pair["y"], xp)
        q = {name: xp.cast(scale, x) * x for name, x in q.items()}
        for i in range(self.history):
            pair = pairs[str(i)]
            beta = pair["weight"] * dot(pair["y"], q, xp)
            q = plus(q, alphas[i] - beta, pair["s"], xp)
        return q
